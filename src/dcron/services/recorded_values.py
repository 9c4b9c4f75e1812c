"""Change what a crontab has beside its tasks, and record it: calendars, queues, settings, nodes and freezes.

Each has values by name, as the audit log has them. None stands for one that does not exist.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron.errors import Refused
from dcron.model import StoredCalendar
from dcron.presentation.humanize import first_few
from dcron.services.service import Service
from dcron.store import audit_log, freezes
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import calendars, queues, settings
from dcron.values.unreadable import Unreadable

KINDS = ("calendar", "queue", "setting", "node", "freeze")
USERS_SHOWN = 5
Values = Mapping[str, Any] | None


def present(connection: Connection, kind: str, name: str) -> Values:
    """Return the present values."""
    match kind:
        case "setting":
            setting = settings.by_name(connection, name)
            return {"value": _readable(setting.value)} if setting else None
        case "calendar":
            calendar = calendars.by_name(connection, name)
            return {"content": _readable(calendar.content)} if calendar else None
        case "freeze":
            freeze = freezes.by_name(connection, name)
            return freezes.values_of(freeze) if freeze and freeze.thawed_at is None else None
        case "queue":
            limits = queues.limits(connection)
            return {"max_running": limits[name]} if name in limits else None
    draining = nodes.is_draining(connection, name)
    return None if draining is None else {"draining": draining}


def change(
    connection: Connection,
    service: Service,
    kind: str,
    name: str,
    values: Values,
    *,
    action: str | None = None,
    undoes: int | None = None,
) -> Values:
    """Set these values, and record it by this action or the usual one. Return the values before.

    Raises Refused for a calendar that tasks use, and for a node or a freeze that is gone.
    """
    now, before = service.database.now(connection), present(connection, kind, name)
    if before is None and values is None:
        return None
    _write(connection, kind, name, values, now, service.actor)
    if kind == "setting":
        old, new = (each and each["value"] for each in (before, values))
        audit_log.record_setting(connection, now, service.author, name, old, new, undoes=undoes)
    else:
        action = action or _action(kind, before, values)
        audit_log.record_other(
            connection, now, service.author, kind, action, name, before=before, after=values, undoes=undoes
        )
    return before


def _action(kind: str, before: Values, after: Values) -> str:
    if kind == "node":
        return "drain" if after and after["draining"] else "undrain"
    if kind == "freeze":
        return "freeze" if after else "thaw"
    return "rm" if after is None else "add" if before is None and kind != "queue" else "set"


def _write(connection: Connection, kind: str, name: str, values: Values, now: datetime, actor: str) -> None:
    if kind == "setting" and values:
        settings.put(connection, name, values["value"], now, actor)
    elif kind == "setting":
        settings.remove(connection, name)
    elif kind == "calendar" and values:
        put = StoredCalendar(name=name, content=values["content"], changed_at=now, changed_by=actor)
        calendars.put(connection, put)
    elif kind == "calendar":
        if using := calendars.users(connection, name, USERS_SHOWN + 1):
            raise Refused(
                f"calendar {name} is used by {first_few(using, USERS_SHOWN)}; change these tasks first"
            )
        calendars.remove(connection, name)
    elif kind == "queue":
        queues.put(connection, name, values["max_running"] if values else None, now, actor)
    elif kind == "node":
        if not nodes.is_alive(connection, name):
            raise Refused(f"node {name} is gone")
        nodes.drain(connection, name, draining=bool(values and values["draining"]))
    else:
        _write_freeze(connection, name, values, now, actor)


def _write_freeze(connection: Connection, name: str, values: Values, now: datetime, actor: str) -> None:
    freeze = freezes.by_name(connection, name)
    if freeze is None:
        raise Refused(f"{name} is gone")
    if values is None:
        freezes.thaw(connection, [freeze.id], now, actor)
    elif freeze.until_at is not None and freeze.until_at <= now:
        raise Refused(f"{name} would be over by now")
    else:
        freezes.reopen(connection, freeze.id)


def _readable(value: Any) -> Any:
    return value.text if isinstance(value, Unreadable) else value
