"""Read what the dispatcher needs at the beginning of each step, in one statement."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    Row,
    Select,
    Text,
    cast,
    literal_column,
    null,
    select,
    type_coerce,
    union_all,
)

from dcron.database import Database
from dcron.schema.types import Instant
from dcron.store import freezes
from dcron.store.planning import events, planning
from dcron.store.planning.planning import LaneHead
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks


@dataclass(frozen=True)
class Snapshot:
    """What the database shows at one time."""

    now: datetime
    """The time of the database's clock."""
    to_plan: bool
    """Whether a task has to be planned."""
    has_events: bool
    """Whether an event has not been handled yet."""
    heads: list[LaneHead]
    """Lanes with waiting runs, each with its first run."""
    last_lane: str
    """The lane after which there may be more; empty if these are all."""
    next_resume: datetime | None
    """When the next pause ends by itself."""
    cancel_requests: dict[int, str]
    """Running runs of the node whose cancellation was requested, each with the actor."""
    freezes: list[tuple[datetime, datetime | None]] = field(default_factory=list)
    """From when until when the crontab is frozen; None means no end is known."""

    @property
    def is_frozen(self) -> bool:
        """Whether only manual runs may start now."""
        return any(begin <= self.now and (end is None or end > self.now) for begin, end in self.freezes)

    @property
    def next_thaw(self) -> datetime | None:
        """When the next freeze ends by itself."""
        return min((end for _, end in self.freezes if end and end > self.now), default=None)


def take_snapshot(connection: Connection, database: Database, node_id: str, after_lane: str = "") -> Snapshot:
    """Return what the node has to know for its next step, with the lanes after this one."""
    given = _given(node_id, after_lane)
    return _read(connection.execute(_statement(database.time), given), database)


def send_snapshot(
    connection: Connection, database: Database, node_id: str, after_lane: str = ""
) -> Callable[[], Snapshot]:
    """Take a snapshot together with the next statement or COMMIT. Return a function that reads it."""
    reply = database.send(connection, _statement(database.time), _given(node_id, after_lane))
    return lambda: _read(reply.rows(), database)


def _given(node_id: str, after_lane: str) -> dict[str, Any]:
    return {"node_id": node_id, **planning.lanes_after(after_lane)}


def _read(rows: Iterable[Row[Any]], database: Database) -> Snapshot:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.kind].append(row)
    heads, last_lane = planning.read_heads([(row.name, row.at) for row in found["lane"]])
    return Snapshot(
        now=database.note_clock(found["now"][0].at),
        to_plan=bool(found["plan"]),
        has_events=bool(found["event"]),
        heads=heads,
        last_lane=last_lane,
        next_resume=found["resume"][0].at if found["resume"] else None,
        cancel_requests={row.id: row.name for row in found["cancel"]},
        freezes=_freezes(found["freeze"], found["thaw"]),
    )


def _freezes(begins: Iterable[Row[Any]], ends: Iterable[Row[Any]]) -> list[tuple[datetime, datetime | None]]:
    until = {row.id: row.at for row in ends}
    return [(row.at, until[row.id]) for row in begins if row.id in until]


@lru_cache(maxsize=4)
def _statement(time: ColumnElement[datetime]) -> Executable:
    """Return rows of several kinds. Each kind has its own query, which follows its own index."""
    clock = select(type_coerce(time, Instant()).label("now")).cte("clock")
    lanes, cancelled, resume = (
        query.subquery() for query in (planning.lane_heads(), runs.to_cancel(), tasks.next_resume())
    )
    frozen = freezes.spans().cte("frozen")
    return union_all(
        _rows("lane", name=lanes.c.lane, at=lanes.c.due_at),
        _rows("now", at=clock.c.now),
        _rows("plan").where(tasks.any_to_plan(select(clock.c.now).scalar_subquery())),
        _rows("event").where(events.any_unhandled()),
        _rows("resume", at=resume.c.paused_until),
        _rows("cancel", name=cancelled.c.cancel_requested_by, id=cancelled.c.id),
        _rows("freeze", at=frozen.c.from_at, id=frozen.c.id),
        _rows("thaw", at=frozen.c.until_at, id=frozen.c.id),
    )


def _rows(
    kind: str,
    *,
    name: ColumnElement[Any] | None = None,
    at: ColumnElement[Any] | None = None,
    id: ColumnElement[Any] | None = None,
) -> Select[Any]:
    return select(
        literal_column(f"'{kind}'", Text()).label("kind"),
        (cast(null(), Text()) if name is None else name).label("name"),
        (cast(null(), Instant()) if at is None else at).label("at"),
        (cast(null(), BigInteger()) if id is None else id).label("id"),
    )
