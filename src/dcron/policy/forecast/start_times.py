"""When tasks start: all of them merged into one list, in the cells of the timeline, and by the minute.

Computed by the functions that agents plan with. `dcron preview --all` and the timeline show it.
"""

import heapq
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from dcron.model import Definition
from dcron.policy.starting import catch_up, occurrences
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.schedule.kinds import Schedule
from dcron.schedule.next_run import Occurrence, next_run, upcoming
from dcron.schedule.rules import Rules
from dcron.schedule.zones import zone

MINUTE = timedelta(minutes=1)
MOST_IN_CELL = 6
"""Starts that are counted in one cell: `*/5` has 6 in half an hour, a task of every second 1,800."""
_MOST_FROZEN = 100
"""Frozen starts in a row that are yielded where no end is asked for."""


class TaskStart(NamedTuple):
    """A start of a task. Starts sort by time, then by name."""

    at: datetime
    """When it may start, with its jitter; for a skipped one, the time of its occurrence."""
    task: str
    occurrence: Occurrence


def starts_of(
    task: Definition,
    after: datetime,
    until: datetime | None = None,
    rules: Rules | None = None,
    *,
    settled_until: datetime | None = None,
    frozen: FrozenTime = NEVER,
) -> Iterator[TaskStart]:
    """Yield the task's starts after `after`, skipped ones too.

    A start in `frozen` time is skipped: what is caught up afterwards is decided then. Without `until`,
    continue after 100 of them in a row at the end of the freeze: it may be far away, or there may be none.
    `rules` are the rules of the task, where it does not have its calendars with it. Occurrences up to
    `settled_until` do not start any more, whatever their jitter: they have run, or came before the task.
    Raises UsageError.
    """
    schedule, here = occurrences.schedule_of(task), zone(task.timezone)
    early = after - timedelta(seconds=task.jitter or 0)
    if settled_until is not None:
        early = max(early, min(settled_until, after))
    skipped = 0
    for start in _in_order(
        task, upcoming(schedule, here, early, rules or occurrences.rules_of(task), until=until)
    ):
        if until and start.at > until:
            return
        if start.at > after:
            yield _unless_frozen(start, frozen) if frozen else start
            skipped = skipped + 1 if frozen and frozen.at(start.at) else 0
            if skipped >= _MOST_FROZEN and until is None:
                if end := frozen.end_after(start.at):
                    yield from starts_of(
                        task, end - catch_up.INSTANT, None, rules, settled_until=settled_until, frozen=frozen
                    )
                return


def _unless_frozen(start: TaskStart, frozen: FrozenTime) -> TaskStart:
    """Return the start, as a skipped one if the crontab is frozen then."""
    reason = None if start.occurrence.reason else frozen.reason_at(start.at)
    return start._replace(occurrence=replace(start.occurrence, reason=reason)) if reason else start


def _in_order(task: Definition, coming: Iterable[Occurrence]) -> Iterator[TaskStart]:
    """Yield the starts in order: with jitter one may overtake another."""
    held: list[tuple[datetime, datetime, TaskStart]] = []
    for occurrence in coming:
        while held and held[0][0] <= occurrence.at:
            yield heapq.heappop(held)[-1]
        at = occurrence.at if occurrence.reason else occurrences.due_at(task, occurrence.at)
        start = TaskStart(at, task.name, occurrence)
        if task.jitter:
            heapq.heappush(held, (at, occurrence.at, start))
        else:
            yield start
    while held:
        yield heapq.heappop(held)[-1]


def merged(each: Iterable[Iterator[TaskStart]], count: int, most: int) -> Iterator[TaskStart]:
    """Yield the starts of many tasks in one order, until `count` have run or there were `most`."""
    return islice(until_ran(heapq.merge(*each), count), most)


def until_ran(found: Iterable[TaskStart], count: int) -> Iterator[TaskStart]:
    """Yield starts until `count` of them have run."""
    ran = 0
    for each in found:
        yield each
        ran += each.occurrence.reason is None
        if ran >= count:
            return


# Of one task, as quickly as possible ------------------------------------------------------------------


def allowed_occurrences(task: Definition, after: datetime, until: datetime) -> Sequence[datetime]:
    """Return the occurrences after `after`, up to `until`, that no calendar excludes. Raises UsageError."""
    schedule, here = occurrences.schedule_of(task), zone(task.timezone)
    return _allowed(schedule, here, occurrences.rules_of(task), after, until)


@lru_cache(maxsize=200)
def _allowed(
    schedule: Schedule, here: Any, rules: Rules, after: datetime, until: datetime
) -> Sequence[datetime]:
    """Return the occurrences of a schedule, cached: in a large crontab many tasks share one."""
    begin, end = after + catch_up.INSTANT, until + catch_up.INSTANT
    return tuple(_not_excluded(schedule, here, rules, begin, end, timedelta(0)))


# By the minute ----------------------------------------------------------------------------------------


class Minutes:
    """Counts the starts in each minute."""

    def __init__(self) -> None:
        self._counted = Counter[int]()

    def add(self, minutes: Iterable[int]) -> None:
        """Count a start in each of these minutes, numbered as by `minute_of`."""
        self._counted.update(minutes)

    def starts_in(self, minute: int) -> int:
        """Return the number of starts in the minute of this number."""
        return self._counted[minute]

    def busiest(self, count: int) -> list[tuple[datetime, int]]:
        """Return the minutes with the most starts, and how many; of equal ones the earliest."""
        most = heapq.nsmallest(count, self._counted.items(), key=lambda each: (-each[1], each[0]))
        return [(datetime.fromtimestamp(60 * minute, UTC), number) for minute, number in most]

    def in_cells(self, span: "StartSpan") -> list[int]:
        """Return the number of starts in each cell of the span."""
        numbers = [0] * span.cells
        for minute, number in self._counted.items():
            position = span.position(datetime.fromtimestamp(60 * minute, UTC))
            if 0 <= position < span.cells:
                numbers[position] += number
        return numbers


def minute_of(at: datetime) -> int:
    """Return the number of the minute that contains this time."""
    return int(at.timestamp() // 60)


def minutes_of(task: Definition, begin: datetime, end: datetime, frozen: FrozenTime = NEVER) -> Sequence[int]:
    """Return the minutes from `begin` to before `end` in which the task starts. Raises UsageError."""
    found = _minutes_of(task, begin, end)
    if not frozen:
        return found
    return [minute for minute in found if not frozen.at(datetime.fromtimestamp(60 * minute, UTC))]


def _minutes_of(task: Definition, begin: datetime, end: datetime) -> Sequence[int]:
    if not task.jitter:
        schedule, here = occurrences.schedule_of(task), zone(task.timezone)
        return _minutes(schedule, here, occurrences.rules_of(task), begin, end)
    early = begin - timedelta(seconds=task.jitter)
    coming = allowed_occurrences(task, early - catch_up.INSTANT, end - catch_up.INSTANT)
    due = (occurrences.due_at(task, at) for at in coming)
    return array("i", dict.fromkeys(minute_of(each) for each in due if begin <= each < end))


@lru_cache(maxsize=200)
def _minutes(schedule: Schedule, here: Any, rules: Rules, begin: datetime, end: datetime) -> "array[int]":
    """Return the minutes of a schedule, cached: in a large crontab many tasks share one."""
    return array("i", map(minute_of, _not_excluded(schedule, here, rules, begin, end, MINUTE)))


def _not_excluded(
    schedule: Schedule, here: Any, rules: Rules, begin: datetime, end: datetime, unit: timedelta
) -> Iterator[datetime]:
    """Yield the occurrences that no calendar excludes; with a `unit` only the first in each unit."""
    after = begin - catch_up.INSTANT
    while (at := next_run(schedule, here, after, rules)) and at < end:
        yield at
        after = at if not unit else at.replace(second=0, microsecond=0) + unit - catch_up.INSTANT


# In cells ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StartSpan:
    """A range of time, cut into cells of one length."""

    begin: datetime
    cell: timedelta
    cells: int

    @property
    def end(self) -> datetime:
        """Return the first time after it."""
        return self.start_of(self.cells)

    def start_of(self, position: int) -> datetime:
        """Return when this cell begins."""
        return self.begin + position * self.cell

    def position(self, at: datetime) -> int:
        """Return the cell that contains the time; negative before the first one."""
        return (at - self.begin) // self.cell


class Filled(NamedTuple):
    """The starts and runs of a task in one cell."""

    starts: tuple[datetime, ...] = ()
    """MOST_IN_CELL at most."""
    has_more: bool = False
    skipped: bool = False
    """Whether a calendar, the window, a pause or a freeze skips an occurrence."""


EMPTY = Filled()


def filled(
    task: Definition, span: StartSpan, paused_until: datetime | None = None, frozen: FrozenTime = NEVER
) -> Sequence[Filled]:
    """Return what the task does in each cell, with its jitter. Raises UsageError."""
    schedule, name = occurrences.schedule_of(task), task.name if task.jitter else ""
    cells = _filled(schedule, task.timezone, occurrences.rules_of(task), name, task.jitter, span)
    if frozen:
        cells = [_without(cell, [each for each in cell.starts if not frozen.at(each)]) for cell in cells]
    if paused_until is None:
        return cells
    return [_without(cell, [each for each in cell.starts if each >= paused_until]) for cell in cells]


@lru_cache(maxsize=500)
def _filled(
    schedule: Schedule, timezone: str, rules: Rules, name: str, jitter: float | None, span: StartSpan
) -> Sequence[Filled]:
    """Return the cells, cached: the timeline shows them many times before they move, often for many tasks."""
    task = Definition(name=name, schedule=schedule.text, timezone=timezone, command="", jitter=jitter)
    here, last = zone(timezone), span.end - catch_up.INSTANT
    cells = [EMPTY] * span.cells
    after: datetime | None = span.begin - timedelta(seconds=jitter or 0) - catch_up.INSTANT
    while after is not None:
        after = _fill(cells, span, task, upcoming(schedule, here, after, rules, until=last))
    return tuple(cells)


def _fill(
    cells: list[Filled], span: StartSpan, task: Definition, coming: Iterable[Occurrence]
) -> datetime | None:
    """Enter starts until one cell has enough. Return the time from which to go on, or None at the end."""
    seen = Counter[int]()
    for occurrence in coming:
        due = occurrences.due_at(task, occurrence.at)
        if span.begin <= due < span.end:
            position = span.position(due)
            cells[position] = _with(cells[position], due, occurrence.reason)
        cell = span.position(occurrence.at)
        seen[cell] += 1
        if seen[cell] > MOST_IN_CELL:
            return span.start_of(cell + 1) - catch_up.INSTANT
    return None


def _with(cell: Filled, due: datetime, reason: str | None) -> Filled:
    if reason is not None:
        return cell._replace(skipped=True)
    if len(cell.starts) == MOST_IN_CELL:
        return cell._replace(has_more=True)
    return cell._replace(starts=tuple(sorted((*cell.starts, due))))


def _without(cell: Filled, starts: Sequence[datetime]) -> Filled:
    """Return the cell with these of its starts; the others are skipped."""
    skipped = cell.skipped or len(starts) < len(cell.starts)
    return cell._replace(starts=tuple(starts), skipped=skipped)
