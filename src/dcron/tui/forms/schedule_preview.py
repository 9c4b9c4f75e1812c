"""What a schedule that is being written will do, computed by what computes `preview`, and how it is drawn."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from textual.content import Content

from dcron import policy
from dcron.model import Definition
from dcron.policy.start_times import TaskStart
from dcron.presentation import humanize, next_runs
from dcron.safetext import safe
from dcron.schedule import Calendar, ClockTransition, Occurrence, Rules

COUNT = 8
MOST = 40
"""Occurrences shown at most, those that are skipped included."""
WIDE = 72
"""Columns from which on an occurrence stands on one line."""
_LOCAL = next_runs.LOCAL_CELLS
Calendars = Mapping[str, Calendar]


@dataclass(frozen=True)
class SchedulePreview:
    """What a schedule will do, as far as it is of interest while it is written."""

    explanation: str
    coming: Sequence[TaskStart]
    changes: Sequence[ClockTransition]
    """The next clock changes that touch it, however far."""
    warnings: Sequence[tuple[str, str]]
    """Codes and messages."""


def outlook(line: Definition, calendars: Calendars, now: datetime) -> SchedulePreview:
    """What the line's schedule will do. Raises UsageError where it cannot be read."""
    rules = rules_of(line, calendars)
    timed = next_runs.schedule_of(line).timed
    found = next_runs.starts(line, now, rules, count=COUNT) if timed else iter(())
    return SchedulePreview(
        next_runs.explanation(line),
        list(islice(found, MOST)),
        next_runs.clock_changes(line, now, rules),
        next_runs.warnings(line, now, rules),
    )


def rules_of(line: Definition, calendars: Calendars) -> Rules:
    """The rules of a line that may name other calendars than it was read with."""
    excluded = calendars.get(line.except_calendar or "")
    alone = calendars.get(line.only_calendar or "")
    return replace(
        policy.rules_of(line),
        except_on=(excluded,) if excluded else (),
        only_on=(alone,) if alone else (),
    )


def draw(told: SchedulePreview, now: datetime, width: int, height: int | None = None) -> Content:
    """The outlook by now in so many columns; of the occurrences as many as leave the rest in sight."""
    head = [Content.styled(safe(told.explanation), "bold")]
    tail = [*_warnings(told), *_changes(told)]
    room = None if height is None else max(3, height - _height([*head, *tail], width))
    lines = list(_occurrences(told, now, width))
    if not told.coming and not tail:
        lines = []
    return Content("\n").join([*head, *lines[:room], *tail])


def _height(lines: Sequence[Content], width: int) -> int:
    return sum(1 + max(0, line.cell_length - 1) // max(1, width) for line in lines)


def _occurrences(told: SchedulePreview, now: datetime, width: int) -> Iterator[Content]:
    before = now
    for position, start in enumerate(start for start in told.coming if start.at > now):
        each, gap = start.occurrence, start.at - before
        yield from (_wide if width >= WIDE else _narrow)(each, _gap(gap, first=position == 0))
        skipped = each.reason and f"skipped: {each.reason}"
        for remark in filter(None, (next_runs.moved_by_jitter(start), each.note, skipped)):
            yield Content.styled(f"    {safe(remark)}", "italic")
        before = start.at


def _gap(gap: timedelta, *, first: bool) -> str:
    told = humanize.span(gap.total_seconds() + 0.999)
    return f"in {told}" if first else f"+{told}"


def _wide(each: Occurrence, gap: str) -> Iterator[Content]:
    utc = "" if each.local.tzname() == "UTC" else f"{each.at:%Y-%m-%d %H:%M:%S}Z"
    yield _marked(each, f"{humanize.full(each.local):<{_LOCAL}}  {utc:<20}  {gap}")


def _narrow(each: Occurrence, gap: str) -> Iterator[Content]:
    yield _marked(each, humanize.full(each.local))
    utc = "" if each.local.tzname() == "UTC" else f"{each.at:%Y-%m-%d %H:%M:%S}Z  "
    yield Content.styled(f"    {utc}{gap}", "dim")


def _marked(each: Occurrence, text: str) -> Content:
    """`!` for what a clock change touches, `-` for what will be skipped."""
    sign, style = ("-", "strike") if each.reason else ("!", "bold") if each.note else (" ", "")
    return Content.assemble((f"{sign} ", "bold"), (text, style))


def _warnings(told: SchedulePreview) -> Iterator[Content]:
    for code, message in told.warnings:
        yield Content.assemble(("! ", "bold"), f"{safe(message)} [{safe(code)}]")


def _changes(told: SchedulePreview) -> Iterator[Content]:
    """Those that the occurrences have not told of already."""
    shown = {start.occurrence.note for start in told.coming}
    for change in told.changes:
        if change.text not in shown:
            yield Content.assemble(
                ("! ", "bold"), f"clock change {change.local:%a %Y-%m-%d}: {safe(change.text)}"
            )
