"""Read the figures of a whole crontab for a monitoring system, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Executable,
    Integer,
    bindparam,
    case,
    func,
    select,
    text,
    type_coerce,
)

from dcron.config.channels import MAIL_PREFIX, MAILTO
from dcron.database import Database
from dcron.model import Freeze, Node, NodeState, Queue, RunState
from dcron.policy.channels import is_mail
from dcron.policy.conditions import tasks as conditions
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.schema.conditions import ALIVE, BLOCKED, DEAD, DUE, UNSENT, WAITING
from dcron.schema.tables import crontab, maintenance_jobs, notifications, runs
from dcron.schema.tables import nodes as node_table
from dcron.settings.registry import MONITOR_LABELS, MONITOR_TASKS
from dcron.store import freezes, lateness, listings
from dcron.store.alerts import undeliverable
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.tasks import queues, settings
from dcron.store.tasks.search_terms import first_due, last_success, latest_ended, of_latest
from dcron.values.lists import Term

MOST_QUEUES = 500
MOST_CHANNELS = 100
_MOST_JOBS = 100
_MOST_UNSERVED = 1_000
"""Names."""
_ENDED_WITHIN = timedelta(days=1)
_FAILURES = [state for state in RunState if state.is_failure]


@dataclass
class TaskFigures:
    """One task. Times are None while there is no such run."""

    id: int
    name: str
    next_run: datetime | None
    """When its first waiting run is due; None while it is paused."""
    last_run: datetime | None
    """When its latest run started."""
    last_duration: float | None
    """Seconds that its latest finished run took."""
    last_success: datetime | None
    """When its latest success ended; None also if that is more than LOOK_BACK runs ago."""
    failures: int
    """How often it has failed since its last success, up to LOOK_BACK."""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MaintenanceFigures:
    """One maintenance job. Times are None while no round has ended."""

    name: str
    due_at: datetime
    ran_at: datetime | None
    """When its last successful round ended."""
    seconds: float | None
    """How long that round took."""
    failed: bool
    """Whether its latest round failed."""


@dataclass(frozen=True)
class ChannelBacklog:
    """The notifications that wait for one channel. All mail addresses count as one channel."""

    pending: int = 0
    oldest: datetime | None = None
    """When the first of them was written; None if nothing waits."""
    failing: int = 0
    """How many of them failed at their last try."""
    is_undeliverable: bool = False
    """Whether agents gave it up after a day of failures, and it has sent nothing since."""


@dataclass(frozen=True, kw_only=True)
class ClusterFigures:
    """The whole crontab at one time."""

    now: datetime
    """The time of the database's clock."""
    tasks: Mapping[str, int]
    """How many tasks are active, paused and suspended."""
    frozen: Freeze | None
    """The freeze that holds now: then only manual runs start."""
    tasks_failed: int
    tasks_late: int
    """Up to 1,000."""
    tasks_unserved: int
    """Tasks with a waiting run that no living node can take."""
    runs: Mapping[str, int]
    """Unfinished runs: waiting, blocked, claimed and running."""
    oldest_due: datetime | None
    """Since when the first due run has waited, frozen time excluded; None without any that may start."""
    oldest_start: datetime | None
    """When the oldest active run was started."""
    dead_letters: int
    nodes: Mapping[str, int]
    """Nodes by state; those that ended, within the last day."""
    slots: int
    slots_used: int
    queues: Sequence[Queue]
    database_bytes: Mapping[str, int]
    """Sizes of the tables; of a SQLite file, its size as `*`."""
    oldest_transaction: float | None
    """Seconds for which the oldest transaction of the database is open; None on SQLite."""
    maintenance: Sequence[MaintenanceFigures]
    channels: Mapping[str, ChannelBacklog]
    """By channel: those of living nodes, and those with the longest backlogs, up to MOST_CHANNELS."""
    of_tasks: Sequence[TaskFigures]
    """The first tasks, by name."""
    label_keys: Sequence[str]
    """The labels of tasks that are shown."""
    tasks_left_out: int
    """How many tasks are not among them."""


def read(connection: Connection, database: Database) -> ClusterFigures:
    """Read all figures. Every query follows an index, or reads the waiting runs or the tasks once."""
    now = database.now(connection)
    living = nodes.listing(connection, now)
    tasks = _count_tasks(connection)
    most = settings.read(connection, MONITOR_TASKS)
    of_tasks = _tasks(connection, int(MONITOR_TASKS.unset if most is None else most))
    left_out = sum(tasks.values()) - len(of_tasks)
    unblocked, *first_due = connection.execute(_UNBLOCKED).one()
    frozen = freezes.past_and_coming(connection)
    alive = {row.state: row for row in connection.execute(_ALIVE)}
    states = dict.fromkeys(("waiting", "blocked", "claimed", "running"), 0)
    states |= {state: row.number for state, row in alive.items()}
    states |= {"waiting": unblocked, "blocked": connection.scalar(_BLOCKED) or 0}
    return ClusterFigures(
        now=now,
        tasks=tasks,
        frozen=frozen.at(now),
        tasks_failed=(
            listings.count_tasks(connection, Term("failed"), now=now)
            if left_out > 0
            else sum(task.failures > 0 for task in of_tasks)
        ),
        tasks_late=listings.late_tasks(connection, now).number,
        tasks_unserved=_count_unserved(connection, living, now),
        runs=states,
        oldest_due=_oldest_due(first_due, frozen, now),
        oldest_start=min((row.oldest for row in alive.values() if row.oldest), default=None),
        dead_letters=connection.scalar(_DEAD) or 0,
        nodes=_count_nodes(connection, living, now),
        slots=sum(node.slots for node in living),
        slots_used=sum(node.running for node in living),
        queues=queues.listing(connection)[:MOST_QUEUES],
        database_bytes=database.table_bytes(connection),
        oldest_transaction=database.oldest_transaction(connection),
        maintenance=[MaintenanceFigures(**row) for row in connection.execute(_MAINTENANCE).mappings()],
        channels=_backlogs(connection, living),
        of_tasks=of_tasks,
        label_keys=settings.read(connection, MONITOR_LABELS) or [],
        tasks_left_out=max(0, left_out),
    )


_UNBLOCKED = select(
    func.count(),
    func.min(case((lateness.is_requested(), runs.c.due_at))),
    func.min(case((~lateness.is_requested(), runs.c.due_at))),
).where(text(DUE))
_BLOCKED = select(func.count()).select_from(runs).where(text(BLOCKED))
_DEAD = select(func.count()).select_from(runs).where(text(DEAD))
_ALIVE = (
    select(runs.c.state, func.count().label("number"), func.min(runs.c.started_at).label("oldest"))
    .where(text(ALIVE))
    .group_by(runs.c.state)
)

_OF_ADDRESS = notifications.c.channel.startswith(MAIL_PREFIX)
_KIND_OF_CHANNEL = type_coerce(
    case((_OF_ADDRESS, MAILTO), else_=notifications.c.channel), notifications.c.channel.type
).label("name")
_BACKLOGS = (
    select(
        _KIND_OF_CHANNEL,
        func.count().label("pending"),
        func.min(notifications.c.created_at).label("oldest"),
        func.count(notifications.c.error).label("failing"),
    )
    .where(text(UNSENT))
    .group_by(_KIND_OF_CHANNEL)
    .order_by(func.count().desc())
)

_MAINTENANCE = (
    select(
        *(maintenance_jobs.c[name] for name in ("name", "due_at", "ran_at", "seconds")),
        maintenance_jobs.c.error.is_not(None).label("failed"),
    )
    .order_by(maintenance_jobs.c.name)
    .limit(_MOST_JOBS)
)


def _oldest_due(firsts: Sequence[datetime | None], frozen: FrozenTime, now: datetime) -> datetime | None:
    """Return since when the first due run has waited, of those that a freeze does not hold back now.

    `firsts` are the times at which the first requested run and the first of the others are due.
    """
    held = zip(firsts, (NEVER, frozen), strict=True)
    waited = [each.waited(due, now) for due, each in held if due and due <= now and not each.at(now)]
    return now - max(waited) if waited else None


def _count_tasks(connection: Connection) -> dict[str, int]:
    suspended = crontab.c.error.is_not(None)
    query = select(crontab.c.enabled, suspended.label("suspended"), func.count().label("number"))
    counts = dict.fromkeys(("active", "paused", "suspended"), 0)
    for row in connection.execute(query.group_by(crontab.c.enabled, suspended)):
        counts["paused" if not row.enabled else "suspended" if row.suspended else "active"] += row.number
    return counts


def _count_nodes(connection: Connection, living: Sequence[Node], now: datetime) -> dict[str, int]:
    counts = {state.value: 0 for state in NodeState}
    for node in living:
        counts[node.state(now)] += 1
    ended = select(node_table.c.died_how, func.count().label("number"))
    ended = ended.where(node_table.c.died_at >= now - _ENDED_WITHIN).group_by(node_table.c.died_how)
    return counts | {row.died_how: row.number for row in connection.execute(ended)}


def _backlogs(connection: Connection, living: Sequence[Node]) -> dict[str, ChannelBacklog]:
    names = sorted({name for node in living for name in node.channels if isinstance(name, str)})
    found = {name: ChannelBacklog() for name in names[:MOST_CHANNELS]}
    for row in connection.execute(_BACKLOGS.limit(MOST_CHANNELS)):
        if isinstance(row.name, str):  # a row edited by hand may hold anything
            found[row.name] = ChannelBacklog(row.pending, row.oldest, row.failing)
    for channel in undeliverable.since(connection):
        name = MAILTO if is_mail(channel) else channel
        found[name] = replace(found.get(name, ChannelBacklog()), is_undeliverable=True)
    return dict(sorted(found.items())[:MOST_CHANNELS])


def _count_unserved(connection: Connection, living: Sequence[Node], now: datetime) -> int:
    unserved = _unserved_lanes(connection, living, now)
    count = select(func.count(runs.c.task_id.distinct())).where(text(DUE), runs.c.lane.in_(unserved))
    return (connection.scalar(count) or 0) if unserved else 0


def unserved_names(connection: Connection, living: Sequence[Node], now: datetime) -> list[str]:
    """Return the names of the first tasks with a waiting run that no living node can take."""
    unserved = _unserved_lanes(connection, living, now)
    names = select(runs.c.task).distinct().where(text(DUE), runs.c.lane.in_(unserved))
    return list(connection.scalars(names.order_by(runs.c.task).limit(_MOST_UNSERVED)))


def _unserved_lanes(connection: Connection, living: Sequence[Node], now: datetime) -> list[str]:
    fleet = [node for node in living if node.alive_until >= now]
    return list(conditions.unserved((head.lane for head in planning.all_heads(connection)), fleet))


def _tasks(connection: Connection, most: int) -> list[TaskFigures]:
    found: dict[int, TaskFigures] = {}
    failed: list[int] = []
    for row in connection.execute(_task_query(), {"most": most}):
        took = row.finished_at - row.started_at if row.finished_at and row.started_at else None
        succeeded = row.state == RunState.SUCCEEDED
        found[row.id] = TaskFigures(
            id=row.id,
            name=row.name,
            next_run=row.next_run,
            last_run=row.last_run,
            last_duration=None if took is None else max(0.0, took.total_seconds()),
            last_success=row.finished_at if succeeded else None,
            failures=0 if succeeded or row.state is None else 1,
            labels=row.labels if isinstance(row.labels, Mapping) else {},
        )
        if found[row.id].failures:
            failed.append(row.id)
    if failed:
        for row in connection.execute(_failure_query(), {"ids": failed}):
            found[row.id].failures = row.failures
            found[row.id].last_success = row.last_success
    return list(found.values())


@cache
def _task_query() -> Executable:
    """Return the query for the tasks with their latest finished runs, those skipped or cancelled left out."""
    task = (
        select(
            crontab.c.id,
            crontab.c.name,
            crontab.c.labels,
            case((crontab.c.enabled, first_due(WAITING))).label("next_run"),
            of_latest(runs.c.started_at).label("last_run"),
            latest_ended(runs.c.id).label("ended_id"),
        )
        .order_by(crontab.c.name)
        .limit(bindparam("most", type_=Integer()))
        .subquery("task")
    )
    ended = (runs.c.state, runs.c.started_at, runs.c.finished_at)
    columns = (*(task.c[name] for name in ("id", "name", "labels", "next_run", "last_run")), *ended)
    query = select(*columns).select_from(task.outerjoin(runs, runs.c.id == task.c.ended_id))
    return query.order_by(task.c.name)


@cache
def _failure_query() -> Executable:
    """Return the query for the failures of tasks since their last success, within LOOK_BACK runs."""
    ids: BindParameter[Any] = bindparam("ids", expanding=True)
    since, success_id = last_success()
    of_ids = select(crontab.c.id, since.label("since"), success_id.label("success_id"))
    task = of_ids.where(crontab.c.id.in_(ids)).subquery("task")
    first = func.coalesce(task.c.success_id, task.c.since)
    of_this = (runs.c.task_id == task.c.id, runs.c.id >= first, runs.c.state.in_(_FAILURES))
    failures = select(func.count(runs.c.id)).where(*of_this).correlate(task).scalar_subquery()
    ended = select(runs.c.finished_at).where(runs.c.id == task.c.success_id).correlate(task).scalar_subquery()
    return select(task.c.id, failures.label("failures"), ended.label("last_success"))
