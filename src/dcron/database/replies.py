"""Statements whose results are read later, so that a round trip to Postgres carries several of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Executable
from sqlalchemy.engine.interfaces import ExecutionContext

from dcron.database.decoding import decode

if TYPE_CHECKING:
    from dcron.database.pipelining import PipelinedCursor

_OPTION = "dcron_reply"
_SEND = object()
"""Instead of a reply: send what is postponed."""


class Reply:
    """The result of a statement that was postponed. SQLite answers at once."""

    def __init__(
        self, connection: Connection, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> None:
        """Postpone the statement."""
        self._connection = connection
        self._statement = statement
        self._cursor: PipelinedCursor | None = None
        self._found: Sequence[Any] | None = None
        self._rows: list[Any] | None = None
        result = connection.execute(statement, parameters, execution_options={_OPTION: self})
        if self._cursor is None:
            self._found = result.cursor.fetchall() if result.cursor else []
            result.close()

    def postponed(self, cursor: "PipelinedCursor") -> None:
        """Note that the statement of this cursor has been postponed."""
        self._cursor = cursor

    def rows(self) -> list[Any]:
        """Return the rows as named tuples. What is still postponed is sent now."""
        if self._rows is None:
            found = self._fetched() if self._found is None else self._found
            self._rows = decode(self._statement, self._connection.dialect, found)
        return self._rows

    def _fetched(self) -> Sequence[Any]:
        assert self._cursor
        if self._cursor.is_postponed:
            # As a statement, so that SQLAlchemy handles an error like that of any statement.
            self._connection.exec_driver_sql("", execution_options={_OPTION: _SEND})
        # `rownumber` is None without a result; `description` would describe each column.
        found = self._cursor.fetchall() if self._cursor.rownumber is not None else []
        self._cursor.close()
        return found


def postpone(
    cursor: "PipelinedCursor", statement: str, parameters: Any, context: ExecutionContext
) -> bool | None:
    """Postpone a statement of a Reply; the driver executes all others (an event of SQLAlchemy's dialect)."""
    reply = context.execution_options.get(_OPTION)
    if reply is None:
        return None
    if reply is _SEND:
        cursor.connection.flush()
    else:
        cursor.postpone(statement, parameters)
        reply.postponed(cursor)
    return True
