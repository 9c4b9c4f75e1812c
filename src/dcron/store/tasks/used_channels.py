"""The channels that tasks and settings name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, select

from dcron.schema.tables import crontab
from dcron.settings.registry import labels_of
from dcron.store.tasks import settings

_SETTINGS = ("notify.default", "notify.fallback")


@dataclass
class Users:
    """Who names a channel."""

    names: list[str] = field(default_factory=list)
    """Some tasks, or settings."""
    count: int = 0


def read(connection: Connection) -> dict[str, Users]:
    """Return who names each channel."""
    found: dict[str, Users] = {}
    for channels, name, count in [*_of_tasks(connection), *_of_settings(connection)]:
        for channel in channels:
            users = found.setdefault(channel, Users())
            users.names.append(name)
            users.count += count
    return found


def _of_tasks(connection: Connection) -> Iterator[tuple[list[str], str, int]]:
    rows = crontab.c
    query = (
        select(rows.notify, func.min(rows.name), func.count()).where(rows.notify != []).group_by(rows.notify)
    )
    for channels, name, count in connection.execute(query):
        yield _texts(channels), name, count


def _of_settings(connection: Connection) -> Iterator[tuple[list[str], str, int]]:
    for stored in settings.every(connection):
        if labels_of(stored.name)[0] in _SETTINGS:
            yield _texts(stored.value), stored.name, 1


def _texts(value: object) -> list[str]:
    """Return the texts in a value, which a person may have written by hand."""
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, Iterable) else []
