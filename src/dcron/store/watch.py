"""The maintenance job that finds what did not happen: late, long and missing runs, and lost nodes.

A round reads the crontab without locks, with a fixed number of statements, each of which reads a page at
most. Then one transaction opens and closes alerts and writes reminders. What a page has no room for follows
in the next step, or in the next round.
"""

import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
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
from dcron.policy.conditions import database as database_conditions
from dcron.policy.conditions import nodes as node_conditions
from dcron.policy.conditions import runs as run_conditions
from dcron.policy.conditions import tasks as task_conditions
from dcron.policy.conditions.rules import Rules, bounds_of, learned_bounds, rules_of, task_subject
from dcron.policy.conditions.thresholds import BEHIND, UNSERVED_AFTER
from dcron.policy.starting import occurrences
from dcron.policy.starting.freezes import FrozenTime
from dcron.policy.starting.lanes import idle
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
_CLUSTER = "cluster"
_OF_RULES = (
    crontab.c.expect,
    crontab.c.notify,
    crontab.c.notify_on,
    crontab.c.notify_after,
    crontab.c.labels,
)

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
            causes = list(look.causes())
            over = look.over()
            reminders = look.reminders()
            has_undeliverable = look.has_undeliverable
        left = look.next_position()
        done = {"opened": 0, "closed": 0}
        if causes or over or reminders or has_undeliverable:
            with database.write() as connection:
                now = database.now(connection)
                hold.renew(connection, now, position)
                done["opened"] = len(store_alerts.open_new(connection, database, causes, now))
                done["closed"] = _close(connection, database, over, look.settings, now)
                _remind(connection, reminders, look.settings, now)
                if has_undeliverable:  # no node has these channels: a node that has one gives up by itself
                    undeliverable.give_up(connection, database, now)
        steps = _number(position.get("steps")) + 1
        if look.has_more and steps < MOST_STEPS:
            return Step({**left, "since": position.get("since"), "steps": steps})
        return Step(None, done, next_round=left)


class Look:
    """One look at the crontab, in a transaction that only reads."""

    def __init__(
        self,
        connection: Connection,
        database: Database,
        now: datetime,
        position: Mapping[str, Any],
        learned: dict[int, tuple[float, Bounds]],
    ) -> None:
        """`position` is where the look before this one ended."""
        self.connection, self.database, self.now = connection, database, now
        self.position = position
        self.settings = store_alerts.read_settings(connection)
        self._is_first = not _number(position.get("steps"))
        """Whether it is the first look of a round."""
        self.has_more = False
        """Whether a page was full."""
        self._learned = learned
        last = _time(position.get("since"))
        earliest = now - _LONGEST_BACK
        self.since = max(earliest, min(last, now) - _OVERLAP) if last else earliest
        self._left: dict[str, Any] = {"since": now.isoformat()}
        self._late_and_unserved = set[int]()
        """The tasks that were just reported as unserved, because their runs are late."""

    def next_position(self) -> dict[str, Any]:
        """Return where the next look goes on, as JSON."""
        return dict(self._left)

    @cached_property
    def _rules(self) -> Rules:
        """The rules of alerts about the crontab itself."""
        return rules_of(self.settings)

    @cached_property
    def _nodes(self) -> Sequence[Node]:
        """The living nodes, and those that died since the last look."""
        died = and_(text("died_at IS NOT NULL"), nodes.c.died_at > self.since)
        query = select(*store_nodes.COLUMNS).where(or_(nodes.c.died_at.is_(None), died))
        return store_nodes.from_rows(self.connection.execute(query))

    @property
    def _living(self) -> list[Node]:
        return [node for node in self._nodes if node.died_how is None and node.alive_until >= self.now]

    @cached_property
    def _frozen(self) -> FrozenTime:
        """When the crontab was and is frozen: this time does not count."""
        return freezes.past_and_coming(self.connection)

    def _freezes(self) -> FrozenTime:
        return self._frozen

    @cached_property
    def _heads(self) -> Sequence[planning.LaneHead]:
        return planning.heads(self.connection)

    @cached_property
    def _unserved(self) -> dict[str, str]:
        """Why no living node takes the runs of a lane, by lane."""
        living = self._living
        if idle(living):  # then nothing runs at all: it will be late
            return {}
        return task_conditions.unserved((head.lane for head in self._heads), living)

    @cached_property
    def _jobs(self) -> dict[str, str]:
        """Why maintenance jobs are behind, by name."""
        rows = [row for row in self._job_rows if row.name != JOB]
        behind = [row for row in rows if database_conditions.is_behind(row.due_at, self.now, BEHIND)]
        return {row.name: "it has not been done" for row in behind} | {
            row.name: row.error for row in rows if row.error is not None
        }

    @cached_property
    def has_undeliverable(self) -> bool:
        """Whether notifications could not be sent for a day."""
        return any(row.undeliverable for row in self._job_rows)

    @cached_property
    def _job_rows(self) -> Sequence[Row[Any]]:
        """The maintenance jobs. There is always this one, so the flag beside it has a row."""
        columns = (maintenance_jobs.c.name, maintenance_jobs.c.due_at, maintenance_jobs.c.error)
        old = notifications.to_give_up(self.now).exists().label("undeliverable")
        return self.connection.execute(select(*columns, old)).all()

    @cached_property
    def _database_problem(self) -> str | None:
        if path := self.database.address.path:
            free = shutil.disk_usage(path.parent).free
            is_low = database_conditions.is_disk_low(free)
            return f"only {free:,} bytes are free beside the file" if is_low else None
        seconds = self.database.oldest_transaction(self.connection) or 0.0
        is_old = database_conditions.is_old_transaction(seconds)
        return f"a transaction has been open for {seconds:.0f}s" if is_old else None

    # What opens alerts ------------------------------------------------------------------------------

    def causes(self) -> Iterator[Cause]:
        """Yield what is wrong on the pages that this look reads. Each step of a round reads other pages."""
        if self._is_first or "late" in self.position:
            yield from self._late()
        if self._is_first or "stale" in self.position:
            yield from self._stale()
        if self._is_first:
            yield from self._too_long()
        yield from self._missed()
        yield from self._unheard()
        yield from self._of_nodes()
        yield from self._without_node()
        for job, error in self._jobs.items():
            facts = {"error": error[:500]}
            yield self._of_crontab(AlertKind.MAINTENANCE_BEHIND, f"job:{job[:200]}", facts)
        if self._database_problem:
            yield self._of_crontab(AlertKind.DATABASE, _CLUSTER, {"problem": self._database_problem})

    def _of_crontab(self, kind: AlertKind, subject: str, facts: Mapping[str, Any]) -> Cause:
        return Cause(kind, subject, self.now, self._rules, facts=facts)

    def _late(self) -> Iterator[Cause]:
        """Yield runs that are due and have not started."""
        after = self._late_after()
        overdue = sorted(
            str(head.lane) for head in self._heads if head.due_at <= self.now - self._shortest_start()
        )
        lanes = [lane for lane in overdue if after is None or lane >= after[0]]
        for number, lane in enumerate(lanes):
            if number == _MOST_LANES:
                self._go_on_late((lane, datetime.min.replace(tzinfo=self.now.tzinfo), 0))
                return
            inside = after if after and after[0] == lane else None
            rows = self.connection.execute(self._overdue(lane, inside)).all()
            for row in rows:
                yield from self._late_cause(row, tasks.task_from(row), lane)
            if len(rows) == PAGE:
                self._go_on_late((lane, rows[-1].due_at, rows[-1].run_id))
                return

    def _late_after(self) -> Place | None:
        match self.position.get("late"):
            case [str() as lane, str() as at, int() as run_id] if due_at := _time(at):
                return lane, due_at, run_id
        return None

    def _go_on_late(self, place: Place) -> None:
        lane, due_at, run_id = place
        self._left["late"] = [lane, due_at.isoformat(), run_id]
        self.has_more = True

    def _shortest_start(self) -> timedelta:
        """Return the shortest time that may be expected until a start. A shorter one is noticed as late."""
        return timedelta(seconds=min(self._rules.start or Watch.interval, Watch.interval))

    def _overdue(self, lane: str, after: Place | None) -> Any:
        until = self.now - self._shortest_start()
        columns = (runs.c.id.label("run_id"), runs.c.due_at, runs.c.scheduled_for, runs.c.trigger)
        is_reported = _is_reported(AlertKind.LATE).label("is_reported")
        query: Select[Any] = (
            select(*columns, is_reported, *tasks.COLUMNS)
            .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
            .where(text(DUE), runs.c.lane == lane, runs.c.due_at <= until)
        )
        if after:
            _, due_at, run_id = after
            query = query.where(
                tuple_(runs.c.due_at, runs.c.id) > tuple_(due_at, run_id, types=[Instant(), BigInteger()])
            )
        return query.order_by(runs.c.due_at, runs.c.id).limit(PAGE)

    def _late_cause(self, row: Row[Any], task: Task, lane: str) -> Iterator[Cause]:
        rules = rules_of(self.settings, task)
        if not task.enabled or row.is_reported or not self._is_overdue(row.due_at, lane, rules):
            return
        if row.trigger == Trigger.SCHEDULE and _is_excluded(task, row.scheduled_for):
            return
        kind, facts = AlertKind.LATE, {"due": row.due_at.isoformat(), "expected": rules.start}
        if reason := self._unserved.get(lane):  # one cause, one alert
            self._late_and_unserved.add(task.id)
            kind, facts = AlertKind.UNSERVED, {"reason": reason}
        yield Cause.of_task(kind, task, self.now, rules, run_id=row.run_id, facts=facts)

    def _too_long(self) -> Iterator[Cause]:
        """Yield runs that take longer than expected."""
        expects = _expects(RUNTIME)
        query: Select[Any] = (
            select(runs.c.id.label("run_id"), runs.c.started_at, crontab.c.id, crontab.c.name, *_OF_RULES)
            .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
            .where(text(ALIVE), runs.c.state == RunState.RUNNING)
        )
        if self._rules.runtime is None and not self._is_by_label(RUNTIME):
            query = query.where(text(EXPECTING), expects)
        rows = self.connection.execute(query.order_by(runs.c.task_id).limit(_MOST_ALIVE)).all()
        rules = {row.id: rules_of(self.settings, _definition(row)) for row in rows}
        self._learn({row.id for row in rows if rules[row.id].runtime == AUTO})
        for row in rows:
            _, learned = self._learned.get(row.id, (0.0, (None, None)))
            _, longest = bounds_of(rules[row.id].runtime, learned)
            if run_conditions.is_too_long(row.started_at, longest, self.now):
                facts = {"seconds": (self.now - row.started_at).total_seconds(), "expected": longest}
                yield _about(AlertKind.TOO_LONG, row, self.now, rules[row.id], row.run_id, facts)

    def _is_by_label(self, name: str) -> bool:
        """Return whether this expectation has settings for tasks with certain labels."""
        return any(each.startswith(f"{EXPECT}{name}[") for each in self.settings)

    def _learn(self, task_ids: Collection[int]) -> None:
        """Learn the runtimes of some of these tasks, if that was not done lately."""
        at = monotonic()
        unknown = [task_id for task_id in sorted(task_ids) if self._learned.get(task_id, (0.0, None))[0] < at]
        if unknown:
            asked = unknown[:_MOST_LEARNED]
            took = durations.of_tasks(self.connection, asked)
            bounds = {task_id: learned_bounds(took.get(task_id, ())) for task_id in asked}
            self._learned.update({task_id: (at + _LEARNED_FOR, each) for task_id, each in bounds.items()})

    def _stale(self) -> Iterator[Cause]:
        """Yield tasks that have not succeeded for longer than expected."""
        rows = self.connection.execute(self._expecting_success()).all()
        if len(rows) == STALE_PAGE:
            self._left["stale"], self.has_more = rows[-1].id, True
        expected = self._expected_success({(row.expect, row.labels) for row in rows})
        stale = {row.id: row for row in rows if self._is_stale(row, expected[row.expect, row.labels])}
        for row in self._tasks_to_report(list(stale)):
            rules = rules_of(self.settings, _definition(row))
            succeeded_at = stale[row.id].succeeded_at
            facts = {"succeeded_at": succeeded_at and succeeded_at.isoformat(), "expected": rules.success}
            yield _about(AlertKind.STALE, row, self.now, rules, None, facts)

    def _expecting_success(self) -> Select[Any]:
        """Return the query for the next tasks that may be stale, with `expect` and `labels` as stored texts.

        The caller decodes a text that many tasks share only once. So a look can check thousands of tasks.
        """
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
        query: Select[Any] = select(*columns, last.label("succeeded_at")).where(
            crontab.c.id > _number(self.position.get("stale")),
            crontab.c.enabled,
            ~open_one.correlate(crontab).exists(),
        )
        if self._rules.success is None and not self._is_by_label(SUCCESS):
            query = query.where(text(EXPECTING), _expects(SUCCESS))
        return query.order_by(crontab.c.id).limit(STALE_PAGE)

    def _expected_success(
        self, texts: Collection[tuple[str | None, str | None]]
    ) -> dict[tuple[str | None, str | None], float | None]:
        """Return the seconds within which tasks with these `expect` and `labels` are to succeed, or None."""
        found = {}
        for expect, labels in texts:
            own = {"expect": _decoded("expect", expect), "labels": _decoded("labels", labels)}
            task = Definition(name="", schedule="", timezone="", command="", **own)
            found[expect, labels] = rules_of(self.settings, task).success
        return found

    def _is_stale(self, row: Row[Any], expected: float | None) -> bool:
        since = row.succeeded_at or row.changed_at
        return task_conditions.is_stale(since, row.not_after, expected, self.now, self._freezes)

    def _tasks_to_report(self, task_ids: Sequence[int]) -> Sequence[Row[Any]]:
        """Return what alerts about these tasks need. Leave tasks beyond _MOST_STALE to the next step."""
        if len(task_ids) > _MOST_STALE:
            task_ids = task_ids[:_MOST_STALE]
            self._left["stale"], self.has_more = task_ids[-1], True
        query: Select[Any] = select(crontab.c.id, crontab.c.name, *_OF_RULES)
        query = query.where(crontab.c.id.in_(task_ids)).order_by(crontab.c.id)
        return self.connection.execute(query).all() if task_ids else ()

    def _missed(self) -> Iterator[Cause]:
        """Yield occurrences that were skipped since the last look because no agent started them in time."""
        later = runs.alias("later")
        succeeded = select(later.c.id).where(
            later.c.task_id == runs.c.task_id,
            later.c.scheduled_for > runs.c.scheduled_for,
            later.c.finished_at.is_not(None),
            later.c.state == RunState.SUCCEEDED,
        )
        times = (runs.c.scheduled_for, runs.c.finished_at)
        run = (runs.c.id.label("run_id"), runs.c.skip_code, runs.c.covers_count, *times)
        query: Select[Any] = (
            select(*run, crontab.c.id, crontab.c.name, *_OF_RULES)
            .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
            .where(text(FINISHED), runs.c.finished_at > self.since, runs.c.state == RunState.SKIPPED)
            .where(runs.c.skip_code.in_([SkipCode.MISSED.value, SkipCode.EXPIRED.value]))
            .where(~succeeded.correlate(runs).exists())
        )
        for row in self.connection.execute(query.order_by(runs.c.finished_at).limit(PAGE)):
            if not run_conditions.is_missed(row.scheduled_for, row.finished_at, self._frozen):
                continue
            facts = {
                "occurrences": row.covers_count or 1,
                "code": row.skip_code,
                "last": row.scheduled_for.isoformat(),
            }
            rules = rules_of(self.settings, _definition(row))
            yield _about(AlertKind.MISSED, row, self.now, rules, row.run_id, facts)

    @cached_property
    def _unheard_runs(self) -> Sequence[Row[Any]]:
        run = (runs.c.id.label("run_id"), runs.c.owner, runs.c.unheard_since, runs.c.lost_after)
        query: Select[Any] = (
            select(*run, crontab.c.id, crontab.c.name, *_OF_RULES)
            .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
            .where(text(UNHEARD))
        )
        return self.connection.execute(query.limit(PAGE)).all()

    def _unheard(self) -> Iterator[Cause]:
        """Yield kept runs whose nodes were declared dead: their tasks wait for them."""
        for row in self._unheard_runs:
            facts = {"node": row.owner, "unheard_since": row.unheard_since.isoformat()}
            if row.lost_after:
                facts["lost_after"] = row.lost_after.isoformat()
            rules = rules_of(self.settings, _definition(row))
            yield _about(AlertKind.UNHEARD, row, self.now, rules, row.run_id, facts)

    def _of_nodes(self) -> Iterator[Cause]:
        """Yield nodes that died, and those whose clocks are wrong."""
        unheard = Counter(row.owner for row in self._unheard_runs)
        names = {node.name for node in self._living}
        for node in self._nodes:
            if node_conditions.is_lost(node, names) and node.died_at:
                facts: dict[str, Any] = {"node": node.id, "died_at": node.died_at.isoformat()}
                if number := unheard[node.id]:
                    facts["unheard"] = number
                yield self._of_crontab(AlertKind.NODE_LOST, _node_subject(node), facts)
        for node in self._living:
            if node_conditions.is_clock_off(node):
                clock = {"node": node.id, "offset": node.clock_offset}
                yield self._of_crontab(AlertKind.CLOCK, _node_subject(node), clock)

    def _without_node(self) -> Iterator[Cause]:
        """Yield the tasks whose next runs no living node has been able to take for a while."""
        known = self.position.get("unserved")
        before = known if isinstance(known, dict) else {}
        since = {lane: _time(before.get(lane)) or self.now for lane in self._unserved}
        self._left["unserved"] = {lane: at.isoformat() for lane, at in since.items()}
        lanes = [lane for lane, at in since.items() if at <= self.now - UNSERVED_AFTER]
        if not lanes:
            return
        query: Select[Any] = (
            select(runs.c.id.label("run_id"), runs.c.lane, crontab.c.id, crontab.c.name, *_OF_RULES)
            .join_from(runs, crontab, crontab.c.id == runs.c.task_id)
            .where(text(DUE), runs.c.lane.in_(lanes), crontab.c.enabled)
            .where(~_is_reported(AlertKind.UNSERVED, AlertKind.LATE))
            .limit(PAGE)
        )
        for row in self.connection.execute(query):
            if row.id in self._late_and_unserved:
                continue
            rules = rules_of(self.settings, _definition(row))
            facts = {"reason": self._unserved[row.lane]}
            yield _about(AlertKind.UNSERVED, row, self.now, rules, row.run_id, facts)

    # What closes alerts -----------------------------------------------------------------------------

    def over(self) -> list[tuple[Row[Any], ClosedAs]]:
        """Return the open alerts on the next page that are to be closed, and why."""
        kind, subject = ("", "")
        match self.position.get("open"):
            case [str() as kind, str() as subject]:
                pass
        run = (runs.c.state, runs.c.due_at, runs.c.lane, runs.c.unheard_since)
        columns = (alerts.c.id.label("alert_id"), alerts.c.kind, alerts.c.subject, alerts.c.opened_at)
        seen = (alerts.c.last_at, alerts.c.run_id, alerts.c.last_run_id)
        paused_at = func.coalesce(crontab.c.paused_at, crontab.c.changed_at, type_=Instant())
        task = (alerts.c.task_id, crontab.c.id, crontab.c.name, crontab.c.enabled, *_OF_RULES)
        query: Select[Any] = (
            select(*columns, *seen, *task, paused_at.label("paused_at"), *run)
            .join_from(alerts, crontab, crontab.c.id == alerts.c.task_id, isouter=True)
            .outerjoin(runs, runs.c.id == alerts.c.run_id)
            .where(
                text(OPEN),
                tuple_(alerts.c.kind, alerts.c.subject) > tuple_(kind, subject, types=[Text(), Text()]),
            )
        )
        rows = self.connection.execute(query.order_by(alerts.c.kind, alerts.c.subject).limit(PAGE)).all()
        if len(rows) == PAGE:
            self._left["open"] = [rows[-1].kind, rows[-1].subject]
        return [(row, closed_as) for row in rows if (closed_as := self._closed_as(row))]

    def _closed_as(self, row: Row[Any]) -> ClosedAs | None:
        """Return why an open alert is to be closed; None if it is not."""
        if row.task_id is not None and row.id is None:
            return ClosedAs.REMOVED
        if row.task_id is not None and not row.enabled:
            is_running = row.kind in (AlertKind.TOO_LONG, AlertKind.UNHEARD) and row.state == RunState.RUNNING
            if row.paused_at >= row.opened_at and not is_running:
                return ClosedAs.PAUSED
        return ClosedAs.RECOVERED if self._is_over(row) else None

    def _is_over(self, row: Row[Any]) -> bool:
        """Return whether the cause of an open alert is gone."""
        match row.kind:
            case AlertKind.LATE:
                return not self._is_late(row)
            case AlertKind.TOO_LONG:
                has_no_end = row.state in _WITHOUT_END and row.run_id == row.last_run_id
                return has_no_end or rules_of(self.settings, _definition(row)).runtime is None
            case AlertKind.FLAPPING:
                window = rules_of(self.settings, _definition(row)).flapping
                return window is None or row.last_at <= self.now - timedelta(seconds=window)
            case AlertKind.UNHEARD:
                return row.state != RunState.RUNNING or row.unheard_since is None
            case AlertKind.STALE:
                return not row.enabled or rules_of(self.settings, _definition(row)).success is None
            case AlertKind.UNSERVED:
                is_waiting = row.enabled and row.state == RunState.WAITING
                return not is_waiting or row.lane not in self._unserved
        return self._is_over_for_crontab(row)

    def _is_late(self, row: Row[Any]) -> bool:
        rules = rules_of(self.settings, _definition(row))
        waits = row.enabled and row.state == RunState.WAITING
        return waits and self._is_overdue(row.due_at, row.lane, rules)

    def _is_overdue(self, due_at: datetime, lane: str, rules: Rules) -> bool:
        return run_conditions.is_overdue(due_at, lane, rules.start, self.now, self._freezes)

    def _is_over_for_crontab(self, row: Row[Any]) -> bool:
        """Return the same for alerts about nodes, jobs and the database."""
        of_subject = [node for node in self._living if _node_subject(node) == row.subject]
        match row.kind:
            case AlertKind.NODE_LOST:
                return bool(of_subject) or node_conditions.is_lost_no_more(row.opened_at, self.now)
            case AlertKind.CLOCK:
                return not any(map(node_conditions.is_clock_off, of_subject))
            case AlertKind.MAINTENANCE_BEHIND:
                return row.subject.removeprefix("job:") not in {job[:200] for job in self._jobs}
            case AlertKind.DATABASE:
                return self._database_problem is None
        return False

    # Reminders --------------------------------------------------------------------------------------

    def reminders(self) -> Sequence[Row[Any]]:
        """Return the open alerts whose reminders are due."""
        columns = (alerts.c.acknowledged_at, alerts.c.silent_until, alerts.c.kind, alerts.c.facts)
        task = (alerts.c.task_id, alerts.c.run_id, crontab.c.id, crontab.c.name, *_OF_RULES)
        query: Select[Any] = (
            select(alerts.c.id.label("alert_id"), *columns, *task)
            .join_from(alerts, crontab, crontab.c.id == alerts.c.task_id, isouter=True)
            .where(text(OPEN), alerts.c.remind_at.is_not(None), alerts.c.remind_at <= self.now)
        )
        return self.connection.execute(query.order_by(alerts.c.remind_at).limit(PAGE)).all()


_WITHOUT_END = (RunState.CANCELLED, RunState.LOST)
"""States of runs that say nothing of how long a run takes."""


def _close(
    connection: Connection,
    database: Database,
    over: Sequence[tuple[Row[Any], ClosedAs]],
    settings: Mapping[str, Any],
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
        flapping_ones = [row for row in recovered if row.kind == AlertKind.FLAPPING]
        quiet |= {row.id: rules_of(settings, _definition(row)) for row in flapping_ones}
    if quiet:
        flapping.unmute(connection, quiet, now)
    return number


def _remind(
    connection: Connection, rows: Sequence[Row[Any]], settings: Mapping[str, Any], now: datetime
) -> None:
    """Write the reminders that are due, and when the next ones are."""
    for row in sorted(rows, key=lambda row: row.alert_id):
        rules = rules_of(settings, _definition(row) if row.id is not None else None)
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


def _is_reported(*kinds: AlertKind) -> ColumnElement[bool]:
    """Return the condition that the task of a run has an open alert of one of these kinds."""
    of_task = (alerts.c.task_id == runs.c.task_id, alerts.c.kind.in_([kind.value for kind in kinds]))
    return select(alerts.c.id).where(text(OPEN), *of_task).correlate(runs).exists()


def _expects(name: str) -> ColumnElement[bool]:
    """Return the condition that a task has this expectation of its own."""
    return cast(crontab.c.expect, Text()).contains(f'"{name}"', autoescape=True)


def _definition(row: Row[Any]) -> Definition:
    """Return as much of the task as its rules need."""
    own = {name: getattr(row, name) for name in ("expect", "notify", "notify_on", "notify_after", "labels")}
    return Definition(name=row.name or "", schedule="", timezone="", command="", **own)


def _decoded(name: str, stored: str | None) -> Any:
    """Return the value of a column that was read as text."""
    kind = crontab.c[name].type
    assert isinstance(kind, Json)
    return kind.decode(stored)


def _about(
    kind: AlertKind, row: Row[Any], now: datetime, rules: Rules, run_id: int | None, facts: Mapping[str, Any]
) -> Cause:
    """Return the cause of an alert about the task of this row."""
    return Cause(kind, task_subject(row.id), now, rules, row.id, row.name, run_id, facts=facts)


def _node_subject(node: Node) -> str:
    return f"node:{node.name[:200]}"


def _is_excluded(task: Task, occurrence: datetime) -> bool:
    """Return whether a calendar excludes the occurrence, so that it does not start at all."""
    try:
        return occurrences.excluded_by(task, occurrence) is not None
    except UsageError:
        return False


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else 0
