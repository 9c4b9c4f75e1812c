"""The next starts of many tasks in one list, for `preview --all` and `lint`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import Any

from dcron.cli.output import console, json_output
from dcron.cli.output.progress import watched
from dcron.cli.output.tables import TableColumn, print_table
from dcron.errors import UsageError
from dcron.model import Definition, Task
from dcron.policy.forecast.start_times import Minutes, TaskStart, merged, minute_of, starts_of
from dcron.policy.starting import catch_up, occurrences
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.presentation import humanize
from dcron.presentation.emphasis import Notable, Past, Struck
from dcron.presentation.frozen_starts import FrozenRest, fold_frozen
from dcron.schedule.kinds import Schedule
from dcron.schedule.lint import Advice, advise_all
from dcron.schedule.zones import zone

BUSIEST = 5
Starts = Callable[[datetime], datetime]


def starts(
    tasks: Sequence[Task],
    planned: Mapping[int, datetime],
    after: datetime,
    until: datetime | None,
    count: int,
    most: int,
    frozen: FrozenTime = NEVER,
) -> Iterator[TaskStart]:
    """Yield the starts after `after`, up to `count` that run and `most` in all; they are computed lazily.

    `planned` has the occurrences of scheduled runs by task id, for tasks with jitter.
    """
    found = (_begun(_starts_of(task, planned.get(task.id), after, until, frozen)) for task in tasks)
    return merged(watched(found, "looking ahead", len(tasks)), count, most)


def _begun(found: Iterator[TaskStart]) -> Iterator[TaskStart]:
    """Return the same starts, with the first computed already."""
    return chain(list(islice(found, 1)), found)


def _starts_of(
    task: Task, planned: datetime | None, after: datetime, until: datetime | None, frozen: FrozenTime
) -> Iterator[TaskStart]:
    try:
        settled_until = planned and planned - catch_up.INSTANT
        yield from starts_of(task, after, until, settled_until=settled_until, frozen=frozen)
    except UsageError as error:
        console.complain(f"warning: {task.name} is omitted: {error}")


def print_json(found: Iterable[TaskStart], tasks: Sequence[Definition], here: Any, now: datetime) -> int:
    """Print a preview as JSON, each occurrence with its task's name; return how many there were."""
    shown = _Shown()
    warnings = [(each.code, each.message) for each in advice(tasks, now)]
    shape = json_output.preview_shape(None, here.key, None, warnings)
    listed = (json_output.occurrence_shape(each, task=each.task) for each in shown.of(found))
    console.emit_streaming(shape, "occurrences", listed)
    return shown.count


def print_agenda(
    found: Iterable[TaskStart],
    tasks: Sequence[Definition],
    here: Any,
    now: datetime,
    frozen: FrozenTime = NEVER,
    *,
    has_end: bool = False,
) -> int:
    """Print a table in one zone, its busiest minutes and warnings; return how many starts there were.

    Of several frozen starts in a row, print only the first few and, if the period `has_end`, how many follow.
    """
    shown = _Shown()
    columns = [
        TableColumn(f"STARTS ({here.key})"),
        TableColumn("IN", right=True, spare=True),
        TableColumn("TASK", least=10),
        TableColumn("NOTE", least=8),
    ]
    if not print_table(columns, _rows(shown.of(found), here, now, frozen, has_end=has_end)):
        console.note("nothing runs in this window" if tasks else "there are no tasks, or all are paused")
    busy = [(minute, number) for minute, number in shown.minutes.busiest(BUSIEST) if number > 1]
    if busy:
        minutes = ", ".join(f"{humanize.clock(minute, here, now)} ({number:,})" for minute, number in busy)
        console.note(f"busiest minutes in this list: {minutes}")
    for each in advice(tasks, now):
        console.complain(f"warning: {each.message} [{each.code}]")
    return shown.count


class _Shown:
    """Counts the shown starts, and the runs in each minute."""

    def __init__(self) -> None:
        self.count = 0
        self.minutes = Minutes()

    def of(self, found: Iterable[TaskStart]) -> Iterator[TaskStart]:
        """Yield the same starts, and count them."""
        for each in found if console.is_terminal() else watched(found, "starts"):
            self.count += 1
            if each.occurrence.reason is None:
                self.minutes.add([minute_of(each.at)])
            yield each


def _rows(
    found: Iterable[TaskStart], here: Any, now: datetime, frozen: FrozenTime, *, has_end: bool
) -> Iterator[list[str]]:
    for each in fold_frozen(found, frozen):
        if isinstance(each, FrozenRest):
            yield [each.number_text(counts=has_end), "", "", Notable(each.until_text(here))]
            continue
        at, task, occurrence = each
        start = humanize.full(at.astimezone(here))
        skipped = occurrence.reason and f"skipped: {occurrence.reason}"
        moved = at != occurrence.at and f"{occurrence.at.astimezone(here):%H:%M:%S}, moved by jitter"
        remark = "; ".join(text for text in (moved, occurrence.note, skipped) if text)
        if skipped:
            start = Struck(start)
        elif at < now:
            start = Past(start)
        if occurrence.note or (occurrence.reason and occurrence.reason == frozen.reason_at(at)):
            remark = Notable(remark)
        yield [start, humanize.left(at, now), task, remark]


def advice(tasks: Sequence[Definition], now: datetime) -> list[Advice]:
    """Return warnings about the tasks together."""
    return advise_all(_readable(watched(tasks, "comparing tasks", len(tasks))), now)


def _readable(tasks: Iterable[Definition]) -> Iterator[tuple[str, Schedule, Any, Starts]]:
    for task in tasks:
        try:
            yield (
                task.name,
                occurrences.schedule_of(task),
                zone(task.timezone),
                partial(occurrences.due_at, task),
            )
        except UsageError:
            continue  # `_starts_of` has printed it
