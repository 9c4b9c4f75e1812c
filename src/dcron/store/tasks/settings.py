"""Read and write the settings that all users of a crontab share."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, or_, select

from dcron.errors import ROW_ERRORS, UsageError
from dcron.model import StoredSetting
from dcron.schema.tables import settings
from dcron.settings.registry import Setting
from dcron.store import upsert
from dcron.values.unreadable import Unreadable

COLUMNS = [settings.c[name] for name in StoredSetting.__dataclass_fields__]


LABELLED = [column.label(f"setting_{column.name}") for column in COLUMNS]
"""The columns, for a statement that also reads other tables."""


def from_labelled(row: Row[Any]) -> StoredSetting | None:
    """Return the setting of a row that has LABELLED; None while it is not set."""
    values = {column.name: row._mapping[f"setting_{column.name}"] for column in COLUMNS}
    return _setting(values) if values["name"] else None


def _from(row: Row[Any]) -> StoredSetting:
    return _setting(dict(row._mapping))


def _setting(values: dict[str, Any]) -> StoredSetting:
    try:
        values["value"] = json.loads(values["value"])
    except (ValueError, RecursionError):
        values["value"] = Unreadable(values["value"])
    return StoredSetting(**values)


def every(connection: Connection) -> list[StoredSetting]:
    """Return all settings that are set, in the order of names."""
    return [_from(row) for row in connection.execute(select(*COLUMNS).order_by(settings.c.name))]


def by_name(connection: Connection, name: str) -> StoredSetting | None:
    """Return the setting of this name; None while it is not set."""
    row = connection.execute(select(*COLUMNS).where(settings.c.name == name)).first()
    return _from(row) if row else None


def read(connection: Connection, setting: Setting) -> Any:
    """Return the value of a setting; None if it is not set, or if its row was damaged by hand."""
    stored = by_name(connection, setting.name)
    try:
        return None if stored is None else setting.read(stored.value)
    except (*ROW_ERRORS, UsageError):
        return None


def is_of(name: str) -> ColumnElement[bool]:
    """Return the condition for a setting and its values by label, such as `NAME[team=shop]`."""
    after = chr(ord("[") + 1)
    for_labels = and_(settings.c.name >= f"{name}[", settings.c.name < f"{name}{after}")
    return or_(settings.c.name == name, for_labels)


def of_name(connection: Connection, name: str) -> dict[str, Any]:
    """Return the values of a setting where it is set: in general, and by label."""
    rows = connection.execute(select(*COLUMNS).where(is_of(name)).order_by(settings.c.name))
    return {each.name: each.value for each in map(_from, rows)}


def put(connection: Connection, name: str, value: Any, now: datetime, actor: str) -> None:
    """Set it; `value` must be serializable as JSON."""
    values = {"value": json.dumps(value), "changed_at": now, "changed_by": actor}
    upsert.put(connection, settings, name, values)


def remove(connection: Connection, name: str) -> bool:
    """Unset it; return whether it was set."""
    return connection.execute(delete(settings).where(settings.c.name == name)).rowcount == 1
