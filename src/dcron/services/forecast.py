"""Forecast the load of a crontab: play its coming runs against its agents. Nothing is written."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from math import inf

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import NotFound, UsageError
from dcron.fields import expectations
from dcron.model import LATE_AFTER, Definition, Node, StoredCalendar
from dcron.policy import forecast, load
from dcron.policy.forecast import LeftOut, Outlook, QuietForecast
from dcron.policy.load import LiveRun, Load, LoadFleet, LoadTask
from dcron.policy.relief import reliefs
from dcron.policy.start_times import due_times
from dcron.schedule import Calendar, Rules, calendar_from_json
from dcron.services.service import Service
from dcron.store import calendars, durations, nodes, planning, queues, tasks

PAGE = 500
MOST_STARTS = 1_000_000
LONGEST = timedelta(days=31)


@dataclass(frozen=True)
class Situation:
    """What a simulation begins with."""

    tasks: Sequence[LoadTask]
    fleet: LoadFleet
    now: datetime
    until: datetime
    left_out: LeftOut

    def play(self) -> Load:
        """Return the simulated load."""
        return load.play(self.tasks, self.fleet, self.now, self.until)


class Forecast(Service):
    """Forecasts of a crontab. Each page of tasks is read in a short transaction of its own."""

    def of(
        self,
        until: datetime,
        without: Collection[str] = (),
        slots: int | None = None,
        definitions: Sequence[Definition] | None = None,
        *,
        here: tzinfo = UTC,
    ) -> Outlook:
        """Return the forecast up to this time, in hours of the zone `here`.

        Leave out the nodes `without`, by name or ID; give each node this many `slots`; assume that the
        crontab consists of these definitions. Raises UsageError or NotFound.
        """
        return outlook(self.situation(until, without, slots, definitions), here)

    def quiet(self, until: datetime, seconds: float) -> QuietForecast:
        """Return the times of at least so many seconds in which nothing starts. Raises UsageError."""
        situation = self.situation(until)
        found = forecast.quiet_times(situation.play(), situation.tasks, situation.now, until, seconds)
        return QuietForecast(situation.now, until, *found, situation.left_out)

    def situation(
        self,
        until: datetime,
        without: Collection[str] = (),
        slots: int | None = None,
        definitions: Sequence[Definition] | None = None,
    ) -> Situation:
        """Return what a simulation begins with, as `of` describes it. Raises UsageError or NotFound."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            fleet = _fleet(connection, now)
            stored = list(_all_calendars(connection)) if definitions is not None else []
        if not now < until <= now + LONGEST:
            raise UsageError("--until: give a time within the next 31 days")
        known = list(self._known())
        paused = {each.task.name for each in known if not each.is_enabled}
        if definitions is not None:
            known = _as_defined(definitions, known, stored)
        found: list[LoadTask] = []
        unforeseen: list[str] = []
        unreadable: list[tuple[str, str]] = []
        left = MOST_STARTS
        for each in known:
            if each.task.name in paused:
                continue
            try:
                made = each.to_play(now, until)
            except UsageError as error:
                unreadable.append((each.task.name, str(error)))
                continue
            left -= len(made.starts)
            if left < 0:
                raise UsageError(f"--until: there are more than {MOST_STARTS:,} starts; give an earlier time")
            found.append(made)
            if each.is_unforeseen:
                unforeseen.append(each.task.name)
        fleet = replace(fleet, nodes=_nodes(fleet.nodes, without, slots, found))
        return Situation(found, fleet, now, until, LeftOut(len(paused), unforeseen, unreadable))

    def _known(self) -> "Iterator[_Known]":
        after = ""
        while True:
            with self.database.read() as connection:
                page = tasks.page(connection, after, PAGE)
                ids = [task.id for task in page if task.enabled]
                planned = planning.next_occurrences(connection, ids)
                seconds = durations.of_tasks(connection, ids)
            for task in page:
                yield _Known(task, planned.get(task.id), seconds.get(task.id, ()), is_enabled=task.enabled)
            if len(page) < PAGE:
                return
            after = page[-1].name


def outlook(situation: Situation, here: tzinfo) -> Outlook:
    """Return the forecast of a situation, in hours of this zone."""
    played = situation.play()
    worst = forecast.worst_run(run for run in played.runs if run.due_at > situation.now)
    is_late = worst is not None and worst.wait > LATE_AFTER.total_seconds()
    return Outlook(
        begin=situation.now,
        until=situation.until,
        slots=situation.fleet.slots,
        agents=sum(not node.draining for node in situation.fleet.nodes),
        hours=forecast.by_hour(played, situation.now, situation.until, here),
        crowded=forecast.crowded_minutes(played, situation.now),
        skips=forecast.skips(played, situation.tasks),
        unserved=sorted(played.unserved.items()),
        unknown=forecast.unknown(played, situation.tasks),
        reliefs=reliefs(situation.tasks, situation.fleet, played, worst) if worst and is_late else [],
        left_out=situation.left_out,
    )


@dataclass(frozen=True)
class _Known:
    """A task, with what the database knows of it."""

    task: Definition
    planned: datetime | None = None
    """The occurrence of its scheduled run that waits."""
    seconds: Sequence[float] = ()
    """The durations of its last successful runs, sorted."""
    is_enabled: bool = True
    rules: Rules | None = None
    """Its rules with its calendars, where the task does not have these with it."""

    @property
    def is_unforeseen(self) -> bool:
        """Whether something else than time and other tasks starts it."""
        kinds = {kind for kind, _ in policy.sources_of(self.task)}
        return "event" in kinds or policy.starts_with_node(self.task)

    def to_play(self, now: datetime, until: datetime) -> LoadTask:
        """Return the task for the simulation. Raises UsageError."""
        task, planned, delay = self.task, self.planned, policy.delay_of(self.task)
        starts: Sequence[datetime] = ()
        if policy.is_timed(task):
            settled = planned - policy.INSTANT if planned and task.jitter else None
            starts = due_times(task, now, until, rules=self.rules, settled_until=settled)
        elif delay and planned and now < planned <= until:
            starts = [planned]
        due = planned and (planned if delay else policy.due_at(task, planned))
        upstream = [name for kind, name in policy.sources_of(task) if kind == "task"]
        seconds = self.seconds or _expected(task)
        overdue = due if due and due <= now else None
        return LoadTask(task, starts, overdue, _cut(seconds, task.timeout), upstream, delay)


def _cut(seconds: Sequence[float], timeout: float | None) -> Sequence[float]:
    return [min(each, timeout) for each in seconds] if timeout else seconds


def _expected(task: Definition) -> Sequence[float]:
    """Return durations between the bounds that the task expects; none if it expects nothing."""
    try:
        bounds = expectations.runtime_bounds(task.expect.get(expectations.RUNTIME))
    except UsageError:
        return ()
    least, most = (bound for bound in bounds)
    if least is None or most is None:
        return [bound for bound in (least, most) if bound is not None]
    return [least, (least + most) / 2, most]


def _as_defined(
    definitions: Iterable[Definition], known: Iterable[_Known], stored: Iterable[StoredCalendar]
) -> list[_Known]:
    """Return these definitions with what is known of the tasks of their names."""
    by_name = {each.task.name: each for each in known}
    by_calendar = {each.name: each for each in stored}
    found = []
    for definition in definitions:
        before = by_name.get(definition.name, _Known(definition))
        is_same = policy.same_times(definition, before.task.name, before.task.spec())
        found.append(
            replace(
                before,
                task=definition,
                planned=before.planned if is_same else None,
                rules=_rules_of(definition, by_calendar),
            )
        )
    return found


def _rules_of(task: Definition, stored: Mapping[str, StoredCalendar]) -> Rules:
    def dates(name: str | None) -> tuple[Calendar, ...]:
        calendar = stored.get(name) if name else None
        return (calendar_from_json(calendar.name, dict(calendar.content)),) if calendar else ()

    excepted, only = dates(task.except_calendar), dates(task.only_calendar)
    return replace(policy.rules_of(task), except_on=excepted, only_on=only)


def _all_calendars(connection: Connection) -> Iterator[StoredCalendar]:
    after = ""
    while page := calendars.page(connection, after, PAGE):
        yield from page
        after = page[-1].name


# The fleet --------------------------------------------------------------------------------------------


def _fleet(connection: Connection, now: datetime) -> LoadFleet:
    limits = queues.limits(connection)
    return LoadFleet(
        nodes.living(connection, now),
        {name: limit for name, limit in limits.items() if limit is not None},
        [LiveRun(*each) for each in durations.of_alive(connection, now)],
    )


def _nodes(
    living: Sequence[Node], without: Collection[str], slots: int | None, found: Sequence[LoadTask]
) -> Sequence[Node]:
    """Return the nodes of the simulation. Without agents, `slots` are those of a node that takes all runs."""
    for name in without:
        if not any(name in (node.id, node.name) for node in living):
            raise NotFound(f"there is no living node {name!r}; `dcron nodes` shows those there are")
    kept = [node for node in living if not {node.id, node.name} & set(without)]
    if slots is None:
        return kept
    return [replace(node, slots=slots) for node in kept or ([] if living else [_imagined(found)])]


def _imagined(found: Sequence[LoadTask]) -> Node:
    """Return a node that can take the runs of all these tasks."""
    tags = {tag for each in found for tag in each.task.require}
    needs = {name for each in found for name in each.task.need}
    return Node(
        id="agent-00000000",
        name="agent",
        host="",
        pid=0,
        slots=0,
        version="",
        tzdata="",
        started_at=datetime.now(UTC),
        alive_until=datetime.max.replace(tzinfo=UTC),
        draining=False,
        died_at=None,
        died_how=None,
        clock_offset=None,
        tags=tuple(tags),
        capacity=dict.fromkeys(needs, inf),
    )
