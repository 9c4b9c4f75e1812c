"""The maintenance job that finds what did not happen: late, long and missing runs, and lost nodes.

A round reads the crontab without locks, with a fixed number of statements, each of which reads a page at
most. Then one transaction opens and closes alerts and writes reminders. What a page has no room for follows
in the next step, or in the next round.
"""

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from time import monotonic
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    Text,
    and_,
    cast,
    exists,
    func,
    or_,
    select,
    text,
    tuple_,
    type_coerce,
    update,
)

from dcron.database import Database
from dcron.errors import UsageError
from dcron.fields.expectations import AUTO, RUNTIME, SUCCESS, Bounds
from dcron.model import (
    AlertKind,
    ClosedAs,
    Definition,
    Node,
    RunState,
    SkipCode,
    Task,
    Trigger,
)
from dcron.policy.conditions.database import problem_of_disk, problem_of_transaction, problems_of_jobs
from dcron.policy.conditions.rules import Rules, bounds_of, learned_bounds
from dcron.policy.conditions.runs import is_missed, is_too_long
from dcron.policy.conditions.situation import OF_RULES, Situation
from dcron.policy.conditions.thresholds import UNSERVED_AFTER
from dcron.policy.starting import occurrences
from dcron.schema.conditions import ALIVE, DUE, EXPECTING, FINISHED, OPEN, UNHEARD
from dcron.schema.tables import alerts, crontab, maintenance_jobs, nodes, runs
from dcron.schema.types import Instant, Json
from dcron.settings.registry import EXPECT
from dcron.store import freezes
from dcron.store.alerts import flapping, notifications, undeliverable
from dcron.store.alerts import rows as store_alerts
from dcron.store.alerts.rows import Cause
from dcron.store.maintenance import Hold, Step
from dcron.store.nodes import rows as store_nodes
from dcron.store.planning import planning
from dcron.store.runs import durations
from dcron.store.tasks import rows as tasks

JOB = "watch"
PAGE = 1_000
"""Rows of one statement."""
MOST_STEPS = 10
"""Steps of one round: the next round reads the remaining pages."""
_MOST_LANES = 3
"""Lanes of one step in which overdue runs are searched."""
_MOST_ALIVE = 10_000
"""Runs that are alive at once: more than the slots of most fleets."""
STALE_PAGE = 2_500
"""Tasks whose last success one step checks."""
_MOST_STALE = 500
"""Most tasks that one step reports as stale."""
_OVERLAP = timedelta(seconds=60)
"""How long before the last round a transaction may have begun that was not visible to it."""
_LONGEST_BACK = timedelta(hours=1)
"""How far back a round looks at most for what happened since the last one."""
_LEARNED_FOR = 3600.0
"""Seconds for which a learned runtime is used."""
_MOST_LEARNED = 20
"""Tasks whose runtimes one step learns."""
_OF_TASK = [crontab.c[name] for name in ("id", "name", *OF_RULES)]

Place = tuple[str, datetime, int]
"""A lane, and in it the due time and the id of a run."""


class Watch:
    """Finds what did not happen. It remembers which runtimes it has learned."""

    name = JOB
    interval = 15.0

    def __init__(self) -> None:
        """Begin with nothing learned."""
        self._learned: dict[int, tuple[float, Bounds]] = {}

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Look at the next pages, and open and close the alerts that follow."""
        with database.read() as connection:
            look = Look(connection, database, database.now(connection), position, self._learned)
            causes, over, reminders = list(look.causes()), look.over(), look.reminders()
        left = look.next_position
        done = {"opened": 0, "closed": 0}
        if causes or over or reminders or look.has_undeliverable:
            with database.write() as connection:
                now = database.now(connection)
                hold.renew(connection, now, position)
                done["opened"] = len(store_alerts.report(connection, database, causes, now, counts=False))
                done["closed"] = _close(connection, database, over, look.situation, now)
                _remind(connection, reminders, look.situation, now)
                # No node has these channels: one that has them gives up by itself.
                if look.has_undeliverable:
                    undeliverable.give_up(connection, database, now)
        steps = _number(position.get("steps")) + 1
        if look.has_more and steps < MOST_STEPS:
            return Step({**left, "since": position.get("since"), "steps": steps})
        return Step(None, done, next_round=left)


class Look:
    """One look at the crontab, in a transaction that only reads. Each step of a round reads other pages."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        now: datetime,
        position: Mapping[str, Any],
        learned: dict[int, tuple[float, Bounds]],
    ) -> None:
        """`position` is where the look before this one ended."""
        self._connection = connection
        self._position = position
        self._learned = learned
        self._is_first = not _number(position.get("steps"))
        """Whether it is the first look of a round."""
        self.has_more = False
        """Whether a page was full."""
        last = _time(position.get("since"))
        earliest = now - _LONGEST_BACK
        self._since = max(earliest, min(last, now) - _OVERLAP) if last else earliest
        self.next_position: dict[str, Any] = {"since": now.isoformat()}
        """Where the next look goes on, as JSON."""
        self._late_and_unserved = set[int]()
        """The tasks that were just reported as unserved, because their runs are late."""
        self._heads = planning.heads(connection)
        # There is always the row of this job, so the flag beside it has one.
        old = notifications.to_give_up(now).exists().label("undeliverable")
        columns = (maintenance_jobs.c.name, maintenance_jobs.c.due_at, maintenance_jobs.c.error)
        jobs = connection.execute(select(*columns, old)).all()
        self.has_undeliverable = any(row.undeliverable for row in jobs)
        """Whether notifications could not be sent for a day."""
        frozen = cache(lambda: freezes.past_and_coming(connection))
        self.situation = Situation(
            now,
            store_alerts.read_settings(connection),
            self._nodes(),
            [head.lane for head in self._heads],
            problems_of_jobs([row for row in jobs if row.name != JOB], now),
            _problem_of_database(connection, database),
            frozen,
        )

    def _nodes(self) -> Sequence[Node]:
        """Return the living nodes, and those that died since the last look."""
        died = and_(text("died_at IS NOT NULL"), nodes.c.died_at > self._since)
        query = select(*store_nodes.COLUMNS).where(or_(nodes.c.died_at.is_(None), died))
        return store_nodes.from_rows(self._connection.execute(query))

    # What opens alerts ------------------------------------------------------------------------------

    def causes(self) -> Iterator[Cause]:
        """Yield what is wrong on the pages that this look reads."""
        if self._is_first or "late" in self._position:
            yield from self._late()
        if self._is_first or "stale" in self._position:
            yield from self._stale()
        if self._is_first:
            yield from self._too_long()
        yield from self._missed()
        unheard = self._connection.execute(_UNHEARD_RUNS.limit(PAGE)).all()
        yield from self._unheard(unheard)
        for each in self.situation.problems(Counter(row.owner for row in unheard)):
            yield Cause(each.kind, each.subject, self.situation.now, self.situation.rules(), facts=each.facts)
        yield from self._without_node()

    def _about(self, kind: AlertKind, row: Row[Any], facts: Mapping[str, Any]) -> Cause:
        """Return the cause of an alert about the task of this row, and its run if it has one."""
        run_id, rules = getattr(row, "run_id", None), self.situation.rules(row)
        return Cause.of_task(kind, row, self.situation.now, rules, run_id=run_id, facts=facts)

    def _go_on(self, name: str, place: Any) -> None:
        """Let the next look read this kind of rows from here on."""
        self.next_position[name], self.has_more = place, True

    def _late(self) -> Iterator[Cause]:
        """Yield runs that are due and have not started."""
        # A shorter time that may be expected until a start is noticed as late.
        shortest = min(self.situation.rules().start or Watch.interval, Watch.interval)
        until = self.situation.now - timedelta(seconds=shortest)
        after = _place(self._position.get("late"))
        overdue = sorted(str(head.lane) for head in self._heads if head.due_at <= until)
        lanes = [lane for lane in overdue if after is None or lane >= after[0]]
        for lane in lanes[:_MOST_LANES]:
            inside = after if after and after[0] == lane else None
            rows = self._connection.execute(_overdue(lane, until, inside)).all()
            yield from (cause for row in rows if (cause := self._late_cause(row)))
            if len(rows) == PAGE:
                self._go_on("late", [lane, rows[-1].due_at.isoformat(), rows[-1].run_id])
                return
        for lane in lanes[_MOST_LANES : _MOST_LANES + 1]:
            self._go_on("late", [lane, datetime.min.replace(tzinfo=UTC).isoformat(), 0])

    def _late_cause(self, row: Row[Any]) -> Cause | None:
        rules = self.situation.rules(row)
        if not row.enabled or row.is_reported or not self.situation.is_overdue(row, rules):
            return None
        if row.trigger == Trigger.SCHEDULE and _is_excluded(tasks.task_from(row), row.scheduled_for):
            return None
        if reason := self.situation.unserved.get(row.lane):  # one cause, one alert
            self._late_and_unserved.add(row.id)
            return self._about(AlertKind.UNSERVED, row, {"reason": reason})
        facts = {"due": row.due_at.isoformat(), "expected": rules.start}
        return self._about(AlertKind.LATE, row, facts)

    def _too_long(self) -> Iterator[Cause]:
        """Yield runs that take longer than expected."""
        query = _runs_of_tasks(runs.c.started_at).where(text(ALIVE), runs.c.state == RunState.RUNNING)
        query = query.where(*self._expecting(RUNTIME))
        rows = self._connection.execute(query.order_by(runs.c.task_id).limit(_MOST_ALIVE)).all()
        expected = {row.id: self.situation.rules(row).runtime for row in rows}
        self._learn({task_id for task_id, runtime in expected.items() if runtime == AUTO})
        for row in rows:
            _, learned = self._learned.get(row.id, (0.0, (None, None)))
            _, longest = bounds_of(expected[row.id], learned)
            if is_too_long(row.started_at, longest, self.situation.now):
                seconds = (self.situation.now - row.started_at).total_seconds()
                yield self._about(AlertKind.TOO_LONG, row, {"seconds": seconds, "expected": longest})

    def _expecting(self, name: str) -> list[ColumnElement[bool]]:
        """Return the conditions of tasks of which a runtime or a success may be expected; none for all."""
        by_label = any(each.startswith(f"{EXPECT}{name}[") for each in self.situation.settings)
        if by_label or getattr(self.situation.rules(), name) is not None:
            return []
        own = cast(crontab.c.expect, Text()).contains(f'"{name}"', autoescape=True)
        return [and_(text(EXPECTING), own)]

    def _learn(self, task_ids: Collection[int]) -> None:
        """Learn the runtimes of some of these tasks, if that was not done lately."""
        at = monotonic()
        unknown = [task_id for task_id in sorted(task_ids) if self._learned.get(task_id, (0.0, None))[0] < at]
        took = durations.of_tasks(self._connection, asked := unknown[:_MOST_LEARNED])
        for task_id in asked:
            self._learned[task_id] = (at + _LEARNED_FOR, learned_bounds(took.get(task_id, ())))

    def _stale(self) -> Iterator[Cause]:
        """Yield tasks that have not succeeded for longer than expected."""
        query = _last_successes().where(crontab.c.id > _number(self._position.get("stale")))
        query = query.where(*self._expecting(SUCCESS)).order_by(crontab.c.id).limit(STALE_PAGE)
        rows = self._connection.execute(query).all()
        if len(rows) == STALE_PAGE:
            self._go_on("stale", rows[-1].id)
        # A text that many tasks share is decoded only once. So a look can check thousands of tasks.
        texts = {(row.expect, row.labels) for row in rows}
        within = {each: self.situation.rules(_definition(*each)).success for each in texts}
        stale = [row for row in rows if self.situation.is_stale(row, within[row.expect, row.labels])]
        if len(stale) > _MOST_STALE:
            stale = stale[:_MOST_STALE]
            self._go_on("stale", stale[-1].id)
        if not stale:
            return
        succeeded_at = {row.id: row.succeeded_at for row in stale}
        of_these = select(*_OF_TASK).where(crontab.c.id.in_(succeeded_at)).order_by(crontab.c.id)
        for row in self._connection.execute(of_these):
            at, expected = succeeded_at[row.id], self.situation.rules(row).success
            facts = {"succeeded_at": at and at.isoformat(), "expected": expected}
            yield self._about(AlertKind.STALE, row, facts)

    def _missed(self) -> Iterator[Cause]:
        """Yield occurrences that were skipped since the last look because no agent started them in time."""
        rows = self._connection.execute(_MISSED.where(runs.c.finished_at > self._since).limit(PAGE))
        for row in rows:
            if is_missed(row.scheduled_for, row.finished_at, self.situation.freezes()):
                facts = {"occurrences": row.covers_count or 1, "code": row.skip_code}
                facts["last"] = row.scheduled_for.isoformat()
                yield self._about(AlertKind.MISSED, row, facts)

    def _unheard(self, rows: Iterable[Row[Any]]) -> Iterator[Cause]:
        """Yield kept runs whose nodes were declared dead: their tasks wait for them."""
        for row in rows:
            facts = {"node": row.owner, "unheard_since": row.unheard_since.isoformat()}
            if row.lost_after:
                facts["lost_after"] = row.lost_after.isoformat()
            yield self._about(AlertKind.UNHEARD, row, facts)

    def _without_node(self) -> Iterator[Cause]:
        """Yield the tasks whose next runs no living node has been able to take for a while."""
        known, now = self._position.get("unserved"), self.situation.now
        before = known if isinstance(known, dict) else {}
        since = {lane: _time(before.get(lane)) or now for lane in self.situation.unserved}
        self.next_position["unserved"] = {lane: at.isoformat() for lane, at in since.items()}
        lanes = [lane for lane, at in since.items() if at <= now - UNSERVED_AFTER]
        if not lanes:
            return
        is_reported = _is_reported(AlertKind.UNSERVED, AlertKind.LATE)
        query = _runs_of_tasks(runs.c.lane).where(text(DUE), runs.c.lane.in_(lanes), crontab.c.enabled)
        for row in self._connection.execute(query.where(~is_reported).limit(PAGE)):
            if row.id not in self._late_and_unserved:
                yield self._about(AlertKind.UNSERVED, row, {"reason": self.situation.unserved[row.lane]})

    # What closes alerts, and reminders --------------------------------------------------------------

    def over(self) -> list[tuple[Row[Any], ClosedAs]]:
        """Return the open alerts on the next page that are to be closed, and why."""
        kind, subject = ("", "")
        match self._position.get("open"):
            case [str() as kind, str() as subject]:
                pass
        behind = tuple_(alerts.c.kind, alerts.c.subject) > tuple_(kind, subject, types=[Text(), Text()])
        query = _OPEN_ALERTS.where(behind).order_by(alerts.c.kind, alerts.c.subject)
        rows = self._connection.execute(query.limit(PAGE)).all()
        if len(rows) == PAGE:
            self.next_position["open"] = [rows[-1].kind, rows[-1].subject]
        return [(row, closed_as) for row in rows if (closed_as := self.situation.closed_as(row))]

    def reminders(self) -> Sequence[Row[Any]]:
        """Return the open alerts whose reminders are due."""
        due = alerts.c.remind_at.is_not(None), alerts.c.remind_at <= self.situation.now
        query = _WITH_TASKS.add_columns(alerts.c.acknowledged_at, alerts.c.silent_until, alerts.c.facts)
        return self._connection.execute(query.where(*due).order_by(alerts.c.remind_at).limit(PAGE)).all()


# Queries ------------------------------------------------------------------------------------------------


def _runs_of_tasks(*columns: Any, of_task: Sequence[Any] = _OF_TASK) -> Select[Any]:
    """Select runs with these columns, and of their tasks what alerts about them need."""
    query: Select[Any] = select(runs.c.id.label("run_id"), *columns, *of_task)
    return query.join_from(runs, crontab, crontab.c.id == runs.c.task_id)


def _is_reported(*kinds: AlertKind) -> ColumnElement[bool]:
    """Return the condition that the task of a run has an open alert of one of these kinds."""
    of_task = (alerts.c.task_id == runs.c.task_id, alerts.c.kind.in_([kind.value for kind in kinds]))
    return select(alerts.c.id).where(text(OPEN), *of_task).correlate(runs).exists()


def _overdue(lane: str, until: datetime, after: Place | None) -> Select[Any]:
    """Select the runs of a lane that were due until then, behind this place."""
    columns = (runs.c.due_at, runs.c.scheduled_for, runs.c.trigger, runs.c.lane)
    is_reported = _is_reported(AlertKind.LATE).label("is_reported")
    query = _runs_of_tasks(*columns, is_reported, of_task=tasks.COLUMNS)
    query = query.where(text(DUE), runs.c.lane == lane, runs.c.due_at <= until)
    if after:
        place = tuple_(after[1], after[2], types=[Instant(), BigInteger()])
        query = query.where(tuple_(runs.c.due_at, runs.c.id) > place)
    return query.order_by(runs.c.due_at, runs.c.id).limit(PAGE)


@cache
def _last_successes() -> Select[Any]:
    """Select the tasks that no alert reports as stale, with `expect` and `labels` as stored texts."""
    last = (
        select(runs.c.finished_at)
        .where(runs.c.task_id == crontab.c.id, runs.c.state == RunState.SUCCEEDED)
        .order_by(runs.c.id.desc())
        .limit(1)
        .correlate(crontab)
        .scalar_subquery()
    )
    open_one = select(alerts.c.id).where(
        text(OPEN), alerts.c.task_id == crontab.c.id, alerts.c.kind == AlertKind.STALE
    )
    texts = (type_coerce(crontab.c[name], Text()).label(name) for name in ("expect", "labels"))
    columns = (crontab.c.id, crontab.c.changed_at, crontab.c.not_after, *texts)
    query: Select[Any] = select(*columns, last.label("succeeded_at"))
    return query.where(crontab.c.enabled, ~open_one.correlate(crontab).exists())


_LATER = runs.alias("later")
_HAS_SUCCEEDED_SINCE = exists().where(
    _LATER.c.task_id == runs.c.task_id,
    _LATER.c.scheduled_for > runs.c.scheduled_for,
    _LATER.c.finished_at.is_not(None),
    _LATER.c.state == RunState.SUCCEEDED,
)
_MISSED = (
    _runs_of_tasks(runs.c.skip_code, runs.c.covers_count, runs.c.scheduled_for, runs.c.finished_at)
    .where(text(FINISHED), runs.c.state == RunState.SKIPPED, ~_HAS_SUCCEEDED_SINCE)
    .where(runs.c.skip_code.in_([SkipCode.MISSED.value, SkipCode.EXPIRED.value]))
    .order_by(runs.c.finished_at)
)
_UNHEARD_RUNS = _runs_of_tasks(runs.c.owner, runs.c.unheard_since, runs.c.lost_after).where(text(UNHEARD))
_WITH_TASKS: Select[Any] = (
    select(alerts.c.id.label("alert_id"), alerts.c.kind, alerts.c.task_id, alerts.c.run_id, *_OF_TASK)
    .join_from(alerts, crontab, crontab.c.id == alerts.c.task_id, isouter=True)
    .where(text(OPEN))
)
_PAUSED_AT = func.coalesce(crontab.c.paused_at, crontab.c.changed_at, type_=Instant()).label("paused_at")
_OPEN_ALERTS = (
    _WITH_TASKS.add_columns(alerts.c.subject, alerts.c.opened_at, alerts.c.last_at, alerts.c.last_run_id)
    .add_columns(crontab.c.enabled, _PAUSED_AT)
    .add_columns(runs.c.state, runs.c.due_at, runs.c.lane, runs.c.unheard_since)
    .outerjoin(runs, runs.c.id == alerts.c.run_id)
)


def _problem_of_database(connection: Connection, database: Database) -> str | None:
    if path := database.address.path:
        return problem_of_disk(shutil.disk_usage(path.parent).free)
    return problem_of_transaction(database.oldest_transaction(connection) or 0.0)


# Writing ------------------------------------------------------------------------------------------------


def _close(
    connection: Connection,
    database: Database,
    over: Sequence[tuple[Row[Any], ClosedAs]],
    situation: Situation,
    now: datetime,
) -> int:
    """Close these alerts, and report what alerts `flapping` have kept back. Return how many were closed."""
    number, quiet = 0, dict[int, Rules]()
    for closed_as in ClosedAs:
        rows = {row.alert_id: row for row, why in over if why is closed_as}
        if not rows:
            continue
        closed = store_alerts.close(connection, database, [alerts.c.id.in_(rows)], now, closed_as=closed_as)
        number += len(closed)
        recovered = [rows[each] for each in closed if closed_as is ClosedAs.RECOVERED]
        quiet |= {row.id: situation.rules(row) for row in recovered if row.kind == AlertKind.FLAPPING}
    if quiet:
        flapping.unmute(connection, quiet, now)
    return number


def _remind(connection: Connection, rows: Sequence[Row[Any]], situation: Situation, now: datetime) -> None:
    """Write the reminders that are due, and when the next ones are."""
    for row in sorted(rows, key=lambda row: row.alert_id):
        rules = situation.rules(row if row.id is not None else None)
        is_silent = row.silent_until is not None and row.silent_until > now
        # With a time, it is acknowledged only until then.
        is_acknowledged = row.acknowledged_at is not None and row.silent_until is None
        again_at = row.silent_until if is_silent else None if is_acknowledged else rules.remind_at(now)
        still = (alerts.c.id == row.alert_id, text(OPEN), alerts.c.remind_at <= now)
        moved = connection.execute(update(alerts).where(*still).values(remind_at=again_at)).rowcount
        if moved and not is_silent and not is_acknowledged:
            about = {"alert_id": row.alert_id, "run_id": row.run_id, "task_id": row.task_id}
            facts = row.facts if isinstance(row.facts, Mapping) else {}
            channels = rules.channels_for(row.kind, facts)
            notifications.add(connection, notifications.for_channels(channels, "reminder", now, **about))


# Values -------------------------------------------------------------------------------------------------


def _definition(expect: str | None, labels: str | None) -> Definition:
    """Return as much of a task as its rules need, from columns that were read as texts."""
    own = {"expect": _decoded("expect", expect), "labels": _decoded("labels", labels)}
    return Definition(name="", schedule="", timezone="", command="", **own)


def _decoded(name: str, stored: str | None) -> Any:
    kind = crontab.c[name].type
    assert isinstance(kind, Json)
    return kind.decode(stored)


def _is_excluded(task: Task, occurrence: datetime) -> bool:
    """Return whether a calendar excludes the occurrence, so that it does not start at all."""
    try:
        return occurrences.excluded_by(task, occurrence) is not None
    except UsageError:
        return False


def _place(value: Any) -> Place | None:
    match value:
        case [str() as lane, str() as at, int() as run_id] if due_at := _time(at):
            return lane, due_at, run_id
    return None


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else 0
