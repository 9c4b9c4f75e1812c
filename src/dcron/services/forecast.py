"""Forecast the load of a crontab: play its coming runs against its agents. Nothing is written."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from math import inf

from sqlalchemy import Connection

from dcron.errors import NotFound, UsageError
from dcron.fields import expectations
from dcron.model import LATE_AFTER, Definition, Node, Task
from dcron.policy.forecast import load
from dcron.policy.forecast import summary as forecast
from dcron.policy.forecast.comparison import ForecastComparison, compare
from dcron.policy.forecast.load import LiveRun, Load, LoadFleet, LoadTask
from dcron.policy.forecast.relief import reliefs
from dcron.policy.forecast.start_times import allowed_occurrences
from dcron.policy.forecast.summary import LeftOut, Outlook, QuietForecast
from dcron.policy.starting import catch_up, occurrences
from dcron.policy.statistics import percentile
from dcron.services.service import Service
from dcron.store import freezes
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.runs import durations
from dcron.store.tasks import queues
from dcron.store.tasks import rows as tasks

PAGE = 500
MOST_STARTS = 1_000_000
LONGEST = timedelta(days=31)
Edit = tuple[Task | None, Task | None]
"""A task before and after an edit; None if it is added or removed."""


@dataclass(frozen=True)
class Situation:
    """The state in which a simulation begins."""

    tasks: Sequence[LoadTask]
    fleet: LoadFleet
    now: datetime
    until: datetime
    left_out: LeftOut
    assumed: float | None = None
    """Seconds that a run of a task without known durations takes. None: no task has known durations."""

    @property
    def starts(self) -> Mapping[str, Sequence[datetime]]:
        """When the scheduled runs of each task are due that start."""
        now, until, frozen = self.now, self.until, self.fleet.frozen
        return {
            each.name: [at for at in each.starts if now < at <= until and not frozen.at(at)]
            for each in self.tasks
        }

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
        edits: Iterable[Edit] = (),
        *,
        here: tzinfo = UTC,
    ) -> Outlook:
        """Return the forecast up to this time, in hours of the zone `here`.

        Leave out the nodes `without`, by name or ID; give each node this many `slots`; assume these edits of
        the crontab. Raises UsageError or NotFound.
        """
        return outlook(self._crontab(until).edited(edits).situation(without, slots), here)

    def compare(self, edits: Iterable[Edit], until: datetime, *, here: tzinfo = UTC) -> ForecastComparison:
        """Return what these edits of the crontab change in the forecast. Raises UsageError."""
        crontab = self._crontab(until)
        before, after = crontab.situation(), crontab.edited(edits).situation()
        is_now, would_be = (outlook(each, here, proposes=False) for each in (before, after))
        return compare(is_now, would_be, before.starts, after.starts)

    def quiet(self, until: datetime, seconds: float) -> QuietForecast:
        """Return the times of at least this many seconds in which nothing starts. Raises UsageError."""
        situation = self.situation(until)
        played = situation.play()
        found = forecast.quiet_times(played, situation.tasks, situation.now, until, seconds)
        left_out = replace(situation.left_out, frozen=forecast.frozen(played))
        return QuietForecast(situation.now, until, *found, left_out)

    def situation(
        self, until: datetime, without: Collection[str] = (), slots: int | None = None
    ) -> Situation:
        """Return the state in which a simulation begins. Parameters and errors are those of `of`."""
        return self._crontab(until).situation(without, slots)

    def _crontab(self, until: datetime) -> "_Crontab":
        with self.database.read() as connection:
            now = self.database.now(connection)
            fleet = _fleet(connection, now)
        if not now < until <= now + LONGEST:
            raise UsageError("--until: give a time within the next 31 days")
        known = list(self._known())
        return _Crontab(known, fleet, now, until, _usual_seconds(known))

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


def outlook(situation: Situation, here: tzinfo, *, proposes: bool = True) -> Outlook:
    """Return the forecast of a situation, in hours of this zone; unless it `proposes`, without reliefs."""
    played = situation.play()
    worst = forecast.worst_run(run for run in played.runs if run.due_at > situation.now)
    is_late = proposes and worst is not None and worst.wait > LATE_AFTER.total_seconds()
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
        assumed=situation.assumed,
        reliefs=list(reliefs(situation.tasks, situation.fleet, played, worst)) if worst and is_late else [],
        left_out=replace(situation.left_out, frozen=forecast.frozen(played)),
    )


@dataclass(frozen=True)
class _Crontab:
    """The tasks and nodes of a crontab at a time."""

    known: Sequence["_Known"]
    fleet: LoadFleet
    now: datetime
    until: datetime
    assumed: float | None
    """As in `Situation`."""

    def edited(self, edits: Iterable[Edit]) -> "_Crontab":
        """Return the crontab with these edits. A task keeps what is known of its runs."""
        known = {each.task.name: each for each in self.known}
        for before, after in edits:
            earlier = known.pop(before.name, None) if before else None
            if after:
                known[after.name] = earlier.edited(after) if earlier else _Known(after)
        return replace(self, known=[known[name] for name in sorted(known)])

    def situation(self, without: Collection[str] = (), slots: int | None = None) -> Situation:
        """Return the state in which a simulation begins. Raises UsageError or NotFound."""
        found: list[LoadTask] = []
        unforeseen: list[str] = []
        unreadable: list[tuple[str, str]] = []
        enabled = [each for each in self.known if each.is_enabled]
        left = MOST_STARTS
        for each in enabled:
            try:
                made = each.to_play(self.now, self.until, self.assumed)
                is_unforeseen = each.is_unforeseen
            except UsageError as error:
                unreadable.append((each.task.name, str(error)))
                continue
            left -= len(made.occurrences)
            if left < 0:
                raise UsageError(f"--until: there are more than {MOST_STARTS:,} starts; give an earlier time")
            found.append(made)
            if is_unforeseen:
                unforeseen.append(each.task.name)
        nodes = _nodes(self.fleet.nodes, without, slots, found)
        left_out = LeftOut(len(self.known) - len(enabled), unforeseen=unforeseen, unreadable=unreadable)
        fleet = replace(self.fleet, nodes=nodes)
        return Situation(found, fleet, self.now, self.until, left_out, self.assumed)


@dataclass(frozen=True)
class _Known:
    """A task, with what the database knows of it."""

    task: Definition
    planned: datetime | None = None
    """The occurrence of its scheduled run that waits."""
    seconds: Sequence[float] = ()
    """The durations of its last successful runs, sorted."""
    is_enabled: bool = True

    def edited(self, task: Definition) -> "_Known":
        """Return the same with another definition."""
        is_same = occurrences.same_times(task, self.task.name, self.task.spec())
        return replace(self, task=task, planned=self.planned if is_same else None)

    @property
    def is_unforeseen(self) -> bool:
        """Whether something else than time and other tasks starts it."""
        kinds = {kind for kind, _ in occurrences.sources_of(self.task)}
        return "event" in kinds or occurrences.starts_with_node(self.task)

    @property
    def durations(self) -> Sequence[float]:
        """The durations of its runs, else those that the task expects; empty if there are none."""
        return self.seconds or _expected(self.task)

    def to_play(self, now: datetime, until: datetime, assumed: float | None) -> LoadTask:
        """Return the task to simulate, with the duration `assumed` if none is known. Raises UsageError."""
        task, known, delay = self.task, self.durations, occurrences.delay_of(self.task)
        upstream = [name for kind, name in occurrences.sources_of(task) if kind == "task"]
        seconds = _cut(known or _assumed(assumed, task.timeout), task.timeout)
        coming = self._coming(now, until, is_delayed=delay is not None)
        return LoadTask(task, coming, seconds, upstream, delay, is_assumed=not known)

    def _coming(self, now: datetime, until: datetime, *, is_delayed: bool) -> Sequence[datetime]:
        """Return the occurrences from the one for which a run waits."""
        first = self.planned
        if is_delayed or not occurrences.is_timed(self.task):
            return [first] if is_delayed and first and first <= until else ()
        if first and occurrences.due_at(self.task, first) <= now:
            found = catch_up.catch_up(self.task, first, now)
            first = found.runs_at or found.successor
        begin = first - catch_up.INSTANT if first and first <= now else now
        coming = allowed_occurrences(self.task, begin, until)
        return coming[bisect_left(coming, first) :] if first else coming


def _usual_seconds(tasks: Iterable[_Known]) -> float | None:
    """Return the median of the tasks' median durations; None if none is known."""
    medians = sorted(percentile(known, 0.5) for each in tasks if (known := each.durations))
    return percentile(medians, 0.5) if medians else None


def _assumed(usual: float | None, timeout: float | None) -> Sequence[float]:
    """Return the duration of a task of which nothing is known: the usual one, or else its timeout."""
    seconds = timeout if usual is None else usual
    return [] if seconds is None else [seconds]


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


# The fleet --------------------------------------------------------------------------------------------


def _fleet(connection: Connection, now: datetime) -> LoadFleet:
    limits = queues.limits(connection)
    return LoadFleet(
        nodes.living(connection, now),
        {name: limit for name, limit in limits.items() if limit is not None},
        [LiveRun(*each) for each in durations.of_alive(connection, now)],
        freezes.frozen_time(connection, now),
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
