"""A stretch of time: the times the line has in it, and what became of each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from dcron.errors import UsageError
from dcron.model import Run
from dcron.policy import INSTANT
from dcron.schedule import clock_transitions, zone
from dcron.services.why import occurrence
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.times import between, schedule_of
from dcron.store import history

MOST_TIMES = 200
"""Times of a line that one answer tells of."""
_MOST_ROWS = 1000
_MERGED = (
    "future",
    "calendar",
    "paused",
    "suspended",
    "unserved",
    "no-agent",
    "not-yet",
    "removed",
    "window",
)
"""What is said once of times that follow each other."""


@dataclass(frozen=True)
class Span:
    """A stretch of time, such as a day."""

    first: datetime
    end: datetime
    """Not part of it."""


def of_span(inquiry: Inquiry, span: Span) -> list[Cause]:
    """The causes of all times in the span, the same ones once, as far as one answer goes."""
    inquiry = line_then(inquiry, span.end - INSTANT)
    rows = rows_between(inquiry, span.first, span.end)
    moments = moments_between(inquiry, rows, span.first, span.end)
    if not moments:
        return [*_clock_changes(inquiry, span), *occurrence.explain(inquiry, span.first, [])]
    found = list(_merged(inquiry, explained(inquiry, moments[:MOST_TIMES], rows)))
    if not any(cause.code == "daylight-saving" for cause in found):
        found += _clock_changes(inquiry, span)
    if len(moments) > MOST_TIMES:
        on = moments[MOST_TIMES]
        sentence = f"there is more: go on with {inquiry.clock.time(on)}"
        found.append(inquiry.told(None, "more", sentence, {"after": on}))
    return found


def _clock_changes(inquiry: Inquiry, span: Span) -> Iterator[Cause]:
    """What the clocks do to the line in the span, whether it then has a time or loses one."""
    line = inquiry.life.definition_at(span.first) or inquiry.line
    try:
        found = clock_transitions(schedule_of(line), zone(line.timezone), span.first, count=1) if line else []
    except UsageError:
        return
    for change in found:
        if change.at < span.end:
            yield inquiry.told(change.at, "daylight-saving", f"the clocks change: {change.text}")


def _merged(inquiry: Inquiry, groups: Iterable[list[Cause]]) -> Iterator[Cause]:
    """The causes of each time, those once that are the same for times that follow each other."""
    held: list[Cause] = []
    alike: list[Cause] = []
    for causes in groups:
        if held and _is_same(held, causes):
            alike.append(causes[0])
            continue
        yield from _with_count(inquiry, held, alike)
        held, alike = causes, []
    yield from _with_count(inquiry, held, alike)


def _is_same(held: list[Cause], causes: list[Cause]) -> bool:
    if [each.code for each in held] != [each.code for each in causes]:
        return False
    before, after = held[0].facts, causes[0].facts
    if "first" in before:  # one row tells of all of these
        return before.get("run") == after.get("run")
    pairs = zip(held, causes, strict=True)
    return after.get("run") is None and all(
        each.code in _MERGED or _held_alike(was, each) for was, each in pairs
    )


def _held_alike(before: Cause, after: Cause) -> bool:
    by = after.facts.get("held_by")
    return by is not None and by == before.facts.get("held_by")


def _with_count(inquiry: Inquiry, causes: list[Cause], alike: list[Cause]) -> list[Cause]:
    """The causes, the first of which stands for so many more."""
    if not alike:
        return causes
    until = alike[-1].facts["at"]
    what = "1 more" if len(alike) == 1 else f"{len(alike):,} more, up to"
    more = f"; the same holds for {what} {inquiry.clock.time(until)}"
    facts = {**causes[0].facts, "more": len(alike), "until": until}
    return [replace(causes[0], sentence=causes[0].sentence + more, facts=facts), *causes[1:]]


def rows_between(inquiry: Inquiry, first: datetime, end: datetime) -> list[Run]:
    rows = history.finished(inquiry.connection, inquiry.task_id, first, end, _MOST_ROWS)
    rows += [run for run in inquiry.unfinished if first <= run.scheduled_for < end]
    return sorted(rows, key=lambda run: (run.scheduled_for, run.id))


def moments_between(inquiry: Inquiry, rows: Iterable[Run], first: datetime, end: datetime) -> list[datetime]:
    """The times from `first` to `end` that the line had, or has runs of; a few more than are told of."""
    found = {run.scheduled_for for run in rows}
    for start, stop, line in inquiry.life.stretches(first, end):
        try:
            if schedule_of(line).timed:
                found.update(between(line, start, stop, MOST_TIMES + 1))
        except UsageError:  # it is told where the line is asked for
            continue
    return sorted(found)


def explained(inquiry: Inquiry, moments: Iterable[datetime], rows: Iterable[Run]) -> Iterator[list[Cause]]:
    """The causes of each of these times; `rows` are the line's runs of all of them."""
    of_time: dict[datetime, list[Run]] = {}
    for run in rows:
        of_time.setdefault(run.scheduled_for, []).append(run)
    for moment in moments:
        yield occurrence.explain(inquiry, moment, of_time.get(moment, []))


def line_then(inquiry: Inquiry, moment: datetime) -> Inquiry:
    """The line that had this name then, should it have been another one."""
    if inquiry.life.definition_at(moment) is not None:
        return inquiry
    task_id = history.line_of_name(inquiry.connection, inquiry.name, moment)
    return replace(inquiry, task_id=task_id) if task_id else inquiry
