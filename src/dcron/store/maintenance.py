"""Maintenance jobs: work of dcron on its own tables, done by one node at a time.

Each job has a row. A node takes a due job by compare-and-set and holds it for `HOLD` seconds at a time. Every
transaction of the job first renews the hold, which fails once another node has taken the job (HoldLost). So
a node that died, or was frozen, is succeeded within a minute and changes nothing afterwards.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    or_,
    select,
    text,
    update,
)

from dcron.database import Database
from dcron.migrations import VERSION_TABLE
from dcron.schema.tables import SCHEMA_VERSION, maintenance_jobs
from dcron.schema.types import Instant

HOLD = 45.0
"""Seconds for which a node holds a job without renewing."""
_LONGEST_WAIT = timedelta(days=8)
"""No job is due later than this. One that seems to be was scheduled while the database's clock was ahead."""
_LONGEST_ERROR = 500
"""Characters."""


class HoldLost(Exception):  # noqa: N818 - another node goes on
    """Another node has taken the job, or the tables have another version: write nothing more."""


@dataclass(frozen=True)
class Step:
    """What one step of a job has come to."""

    position: Mapping[str, Any] | None
    """Where the next step goes on, as JSON; None: the round is over."""
    done: Mapping[str, int] = field(default_factory=dict)
    """With the end of a round: how many rows it handled, by kind."""
    rest: float = 0.0
    """Seconds until the next step."""
    next_round: Mapping[str, Any] = field(default_factory=dict)
    """With the end of a round: the position with which the next one begins."""
    note: str | None = None
    """What the agent's log should say."""


class Hold:
    """A job that one node holds."""

    def __init__(self, job: str, holder: str) -> None:
        """`holder` is the ID of the node, or of another process that does the job."""
        self.job, self.holder = job, holder
        self.kept: Mapping[str, Any] | None = None
        """The position that stays in the row, whatever is done; None: the row has that of the last step."""
        self._renewed_at = monotonic()

    @property
    def is_old(self) -> bool:
        """Whether it is time to renew it."""
        return monotonic() - self._renewed_at > HOLD / 3

    def renew(self, connection: Connection, now: datetime, position: Mapping[str, Any]) -> None:
        """Extend the hold in this transaction, and note the position. Raises HoldLost."""
        noted = dict(position if self.kept is None else self.kept)
        renewal = self._held().values(held_until=now + timedelta(seconds=HOLD), position=noted)
        if connection.execute(renewal).rowcount != 1:
            raise HoldLost(self.job)
        self._renewed_at = monotonic()

    def finish(
        self, connection: Connection, now: datetime, interval: float, seconds: float, end: Step
    ) -> None:
        """Record the end of a round that took this many seconds. Raises HoldLost."""
        position = dict(end.next_round)
        values = {
            "ran_at": now,
            "seconds": seconds,
            "done": dict(end.done),
            "error": None,
            "position": position,
        }
        self._let_go(connection, due_at=now + timedelta(seconds=interval), **values)

    def fail(self, connection: Connection, now: datetime, pause: float, error: str) -> None:
        """Record why the round failed; it begins again after `pause` seconds. Raises HoldLost."""
        due_at = now + timedelta(seconds=pause)
        self._let_go(connection, due_at=due_at, position={}, error=error[:_LONGEST_ERROR])

    def release(self, connection: Connection, position: Mapping[str, Any] | None = None) -> None:
        """Let another node continue the round at once, at this position if one is given. Raises HoldLost."""
        self._let_go(connection, **({} if position is None else {"position": dict(position)}))

    def _let_go(self, connection: Connection, **values: Any) -> None:
        if connection.execute(self._held().values(holder=None, held_until=None, **values)).rowcount != 1:
            raise HoldLost(self.job)

    def _held(self) -> Update:
        held = (maintenance_jobs.c.name == self.job, maintenance_jobs.c.holder == self.holder)
        return update(maintenance_jobs).where(*held, _IS_OUR_VERSION)


class Job(Protocol):
    """A maintenance job: a round of short steps, repeated in an interval."""

    @property
    def name(self) -> str:
        """The name of its row."""

    @property
    def interval(self) -> float:
        """Seconds from the end of a round to the start of the next."""

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Do one step in its own transactions. Each one that writes calls `hold.renew` first.

        `position` is that of the last step, or the one with which a round begins. Raises DatabaseError or
        HoldLost.
        """


_IS_OUR_VERSION = text(f"(SELECT version_num FROM {VERSION_TABLE}) = '{SCHEMA_VERSION}'")


def add_missing(connection: Connection, database: Database, names: Collection[str], now: datetime) -> None:
    """Insert the rows of jobs that have none. They are due now."""
    if names:
        rows = [{"name": name, "due_at": now} for name in sorted(names)]
        connection.execute(database.insert_if_absent(maintenance_jobs), rows)


def seize(
    connection: Connection, database: Database, name: str, holder: str, now: datetime
) -> Mapping[str, Any]:
    """Take the job, due or not, also from a node that holds it; return its position."""
    add_missing(connection, database, [name], now)
    taken = update(maintenance_jobs).where(maintenance_jobs.c.name == name, _IS_OUR_VERSION)
    taken = taken.values(holder=holder, held_until=now + timedelta(seconds=HOLD))
    row = connection.execute(taken.returning(maintenance_jobs.c.position)).first()
    if row is None:
        raise HoldLost(name)
    return dict(row.position)


def last_round(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of a job; None if it has never been due."""
    return connection.execute(select(maintenance_jobs).where(maintenance_jobs.c.name == name)).first()


def due_at(connection: Connection, name: str) -> datetime | None:
    """Return when the job is due; None if it has no row."""
    return connection.scalar(select(maintenance_jobs.c.due_at).where(maintenance_jobs.c.name == name))


def due(jobs: str) -> Select[Any]:
    """Select the name of the job that has been due for longest, of those that are free.

    `jobs` is the parameter with the names of the jobs; the others are those of `due_values`.
    """
    of_these = maintenance_jobs.c.name.in_(bindparam(jobs, expanding=True))
    return (
        select(maintenance_jobs.c.name).where(of_these, _IS_DUE).order_by(maintenance_jobs.c.due_at).limit(1)
    )


def due_values(now: datetime, **jobs: Collection[str]) -> dict[str, Any]:
    """Return the parameters of `due`: the time, and the names of the jobs of each parameter."""
    return {name: list(names) for name, names in jobs.items()} | _times(now)


def take(connection: Connection, name: str, holder: str, now: datetime) -> Mapping[str, Any] | None:
    """Take the job if it is due and free; return its position, or None if another node has it."""
    free = update(maintenance_jobs).where(maintenance_jobs.c.name == name, _IS_DUE, _IS_OUR_VERSION)
    taken = free.values(holder=holder, held_until=now + timedelta(seconds=HOLD))
    row = connection.execute(taken.returning(maintenance_jobs.c.position), _times(now)).first()
    return None if row is None else dict(row.position)


def _times(now: datetime) -> dict[str, datetime]:
    """Return the parameters of `_IS_DUE`."""
    return {"now": now, "longest_wait": now + _LONGEST_WAIT, "longest_hold": now + timedelta(seconds=HOLD)}


def _is_due() -> ColumnElement[bool]:
    """Return the condition that a job is due and free. Times too far ahead are of a clock that was ahead."""
    now, longest_wait, longest_hold = (
        bindparam(name, type_=Instant()) for name in ("now", "longest_wait", "longest_hold")
    )
    jobs = maintenance_jobs.c
    is_time = or_(jobs.due_at <= now, jobs.due_at > longest_wait)
    is_free = or_(jobs.held_until.is_(None), jobs.held_until < now, jobs.held_until > longest_hold)
    return and_(is_time, is_free)


_IS_DUE = _is_due()
