"""Freezes: times in which no run starts by itself.

A claim looks for one in the statement that locks the runs. On Postgres it holds a lock from before that
statement until its commit, and `add` takes the same lock alone. So no start that missed the freeze is
committed after it. An automatic start has a recorded time before the beginning of each planned freeze.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    ScalarSelect,
    Select,
    bindparam,
    case,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    update,
)

from dcron.database import Reply
from dcron.model import Freeze
from dcron.policy.starting.freezes import FrozenTime
from dcron.schema.conditions import NOT_THAWED
from dcron.schema.tables import freezes
from dcron.schema.types import Instant

_NAMES = [*Freeze.__dataclass_fields__]
_COLUMNS = [freezes.c[name] for name in _NAMES]
MOST = 1000
"""Most freezes that are read at once."""
_RECENTLY = timedelta(days=1)
_ALWAYS = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def is_frozen() -> ColumnElement[bool]:
    """Return the condition that the crontab is frozen at the time `now`."""
    return select(freezes.c.id).where(*_active()).exists()


def _active() -> Sequence[ColumnElement[bool]]:
    now = bindparam("now", type_=Instant())
    # A freeze that begins at once holds from its commit on, whatever the clock of the claim says.
    has_begun = or_(freezes.c.from_at <= freezes.c.created_at, freezes.c.from_at <= now)
    return text(NOT_THAWED), has_begun, or_(freezes.c.until_at.is_(None), freezes.c.until_at > now)  # type: ignore[return-value]


def next_begin() -> ScalarSelect[datetime | None]:
    """Return the query for when the next planned freeze begins after `now`; NULL if none is planned."""
    now = bindparam("now", type_=Instant())
    return (
        select(func.min(freezes.c.from_at)).where(text(NOT_THAWED), freezes.c.from_at > now).scalar_subquery()
    )


def spans() -> Select[Any]:
    """Return the query for the beginning and the end of each freeze that was not thawed."""
    began = case(
        (freezes.c.from_at <= freezes.c.created_at, literal(_ALWAYS, Instant())), else_=freezes.c.from_at
    )
    return select(freezes.c.id, began.label("from_at"), freezes.c.until_at).where(text(NOT_THAWED))


def active(connection: Connection, now: datetime) -> Freeze | None:
    """Return the freeze that holds now; of several the one that ends last. None if nothing is frozen."""
    found = _read(connection, select(*_COLUMNS).where(*_active()), {"now": now})
    return max(found, key=lambda each: (each.until_at is None, each.until_at or now, -each.id), default=None)


def open_ones(connection: Connection, now: datetime) -> list[Freeze]:
    """Return the freezes that hold now or will hold, in the order in which they begin."""
    return _read(connection, _open(), {"now": now})


@cache
def _open() -> Executable:
    now = bindparam("now", type_=Instant())
    ends_later = or_(freezes.c.until_at.is_(None), freezes.c.until_at > now)
    query = select(*_COLUMNS).where(text(NOT_THAWED), ends_later)
    return query.order_by(freezes.c.from_at, freezes.c.id).limit(MOST)


def frozen_time(connection: Connection, now: datetime) -> FrozenTime:
    """Return when the crontab is and will be frozen."""
    return FrozenTime(open_ones(connection, now))


def past_and_coming(connection: Connection) -> FrozenTime:
    """Return when the crontab was, is and will be frozen, as far as the latest freezes say."""
    return FrozenTime(newest(connection))


def recent(connection: Connection, now: datetime) -> FrozenTime:
    """Return when the crontab was frozen within the last day, and when it is and will be frozen."""
    return read_recent(send_recent(connection, now))


def send_recent(connection: Connection, now: datetime) -> Reply:
    """Ask for the same; `read_recent` reads the answer."""
    return Reply(connection, _recent(), {"since": now - _RECENTLY})


def read_recent(reply: Reply) -> FrozenTime:
    """Return the freezes of this reply."""
    return FrozenTime(Freeze(**dict(zip(_NAMES, row, strict=True))) for row in reply.rows())


@cache
def _recent() -> Executable:
    since = bindparam("since", type_=Instant())
    not_over = (or_(column.is_(None), column > since) for column in (freezes.c.until_at, freezes.c.thawed_at))
    return select(*_COLUMNS).where(*not_over).order_by(freezes.c.id.desc()).limit(MOST)


def newest(connection: Connection, limit: int = MOST) -> list[Freeze]:
    """Return the latest freezes, over or not, the newest first."""
    return _read(connection, select(*_COLUMNS).order_by(freezes.c.id.desc()).limit(limit))


def by_id(connection: Connection, freeze_id: int) -> Freeze | None:
    """Return the freeze of this id, if there is one."""
    return next(iter(_read(connection, select(*_COLUMNS).where(freezes.c.id == freeze_id))), None)


def _read(connection: Connection, query: Executable, given: dict[str, Any] | None = None) -> list[Freeze]:
    return [Freeze(**row._mapping) for row in connection.execute(query, given or {})]


def add(
    connection: Connection,
    now: datetime,
    actor: str,
    *,
    from_at: datetime,
    until_at: datetime | None,
    reason: str | None,
) -> int:
    """Insert a freeze and return its id. The caller has locked out the starts."""
    values = {"from_at": from_at, "until_at": until_at, "reason": reason, "created_at": now}
    added: int = connection.execute(
        insert(freezes).values(**values, created_by=actor).returning(freezes.c.id)
    ).scalar_one()
    return added


def reopen(connection: Connection, freeze_id: int) -> None:
    """Let a freeze that was thawed hold again. The caller has locked out the starts."""
    still = update(freezes).where(freezes.c.id == freeze_id)
    connection.execute(still.values(thawed_at=None, thawed_by=None))


def thaw(connection: Connection, ids: Sequence[int], now: datetime, actor: str) -> None:
    """End these freezes."""
    still = (freezes.c.id.in_(ids), text(NOT_THAWED))
    connection.execute(update(freezes).where(*still).values(thawed_at=now, thawed_by=actor))


# A freeze in the audit log ----------------------------------------------------------------------------


def name_of(freeze_id: int) -> str:
    """Return the name of a freeze in the audit log."""
    return f"freeze-{freeze_id}"


def values_of(freeze: Freeze) -> dict[str, Any]:
    """Return what the audit log keeps of a freeze."""
    until = freeze.until_at and freeze.until_at.isoformat()
    return {"from": freeze.from_at.isoformat(), "until": until, "reason": freeze.reason}


def by_name(connection: Connection, name: str) -> Freeze | None:
    """Return the freeze that the audit log calls so, if there is one."""
    number = name.rpartition("-")[2]
    return by_id(connection, int(number)) if number.isdecimal() else None
