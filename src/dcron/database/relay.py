"""Pass ids from one statement to a later one of the same transaction, without a round trip in between.

A statement that locks rows notes ids of theirs, and the next statement, which sees all that was committed
before the locks, reads them. Postgres keeps the ids in a setting that ends with the transaction. For SQLite
this is not needed: its answers cost no round trip.
"""

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, cast, func
from sqlalchemy import any_ as any_of
from sqlalchemy.types import ARRAY

_SETTING = "dcron.noted"


def note(id: ColumnElement[int]) -> ColumnElement[str]:
    """Return an expression that notes the id of each row that a statement reads."""
    noted = func.nullif(func.current_setting(_SETTING, True), "")
    return func.set_config(_SETTING, func.concat_ws(",", noted, id), True)


def is_noted(id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that an earlier statement of the transaction has noted the id."""
    noted = func.string_to_array(func.current_setting(_SETTING, True), ",")
    return id == any_of(cast(noted, ARRAY(BigInteger())))
