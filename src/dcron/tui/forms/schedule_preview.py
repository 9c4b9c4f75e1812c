"""The preview of a schedule while it is typed. It is computed as `dcron preview` computes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import islice

from textual.content import Content

from dcron.model import Definition
from dcron.policy.forecast.start_load import StartLoad
from dcron.policy.forecast.start_times import TaskStart
from dcron.policy.starting import occurrences
from dcron.presentation import humanize, next_runs
from dcron.presentation.humanize import plural
from dcron.schedule.calendars import Calendar
from dcron.schedule.next_run import ClockTransition, Occurrence
from dcron.schedule.rules import Rules
from dcron.values.safe_text import safe

COUNT = 8
MOST = 40
"""Most occurrences shown, skipped ones included."""
WIDE = 72
"""Columns from which on an occurrence takes one line."""
_LOCAL = next_runs.LOCAL_CELLS
Calendars = Mapping[str, Calendar]


@dataclass(frozen=True)
class SchedulePreview:
    """The next runs of a schedule, and what is special about them."""

    explanation: str
    coming: Sequence[TaskStart]
    changes: Sequence[ClockTransition]
    """The next clock changes that affect it, however far away."""
    warnings: Sequence[tuple[str, str]]
    """Codes and messages."""


def preview(definition: Definition, calendars: Calendars, now: datetime) -> SchedulePreview:
    """Return the preview of the schedule. Raises UsageError if it cannot be read."""
    rules = rules_of(definition, calendars)
    timed = occurrences.schedule_of(definition).timed
    found = next_runs.starts(definition, now, rules, count=COUNT, settled_until=now) if timed else iter(())
    return SchedulePreview(
        next_runs.explanation(definition),
        list(islice(found, MOST)),
        next_runs.clock_changes(definition, now, rules),
        next_runs.warnings(definition, now, rules),
    )


def rules_of(definition: Definition, calendars: Calendars) -> Rules:
    """Return the schedule rules with these calendars instead of those that were read with the task."""
    excluded = calendars.get(definition.except_calendar or "")
    alone = calendars.get(definition.only_calendar or "")
    return replace(
        occurrences.rules_of(definition),
        except_on=(excluded,) if excluded else (),
        only_on=(alone,) if alone else (),
    )


def draw(
    preview: SchedulePreview,
    now: datetime,
    width: int,
    height: int | None = None,
    load: Sequence[tuple[str, str]] = (),
) -> Content:
    """Draw the preview at `now`. With a height, leave out occurrences so that all the rest is visible.

    `load` is what `load_lines` returned.
    """
    head = [Content.styled(safe(preview.explanation), "bold")]
    head += [Content.styled(text, style) for text, style in load]
    tail = [*_warnings(preview), *_changes(preview)]
    room = None if height is None else max(3, height - _height([*head, *tail], width))
    lines = list(_occurrences(preview, now, width))
    if not preview.coming and not tail:
        lines = []
    return Content("\n").join([*head, *lines[:room], *tail])


def load_lines(load: StartLoad, here: tzinfo) -> list[tuple[str, str]]:
    """Return what the starts meet, in local times of a zone: texts and styles."""
    if not load.starts or load.fullest is None:
        return []
    hourly = (
        f"{load.starts / 24:.3g} starts an hour"
        if load.starts >= 48
        else f"{plural(load.starts, 'start')} in 24 hours"
    )
    at = f"{load.fullest.astimezone(here):%H:%M}"
    met = f"at {at} {plural(load.others, 'other task')} start{'s' if load.others == 1 else ''}, too"
    if not load.others:
        met = "no other task starts in the same minutes"
    better = ""
    if load.better:
        rest = "is free" if not load.better_others else f"meets {load.better_others:,} at most"
        better = f"; {load.better.astimezone(here):%H:%M} {rest}"
    lines = [(f"{hourly}; {met}{better}", "$foreground-muted")]
    if load.is_worst and load.others > 1:
        lines.append((f"! it makes the busiest minute busier: {load.others + 1:,} starts", "$text-warning"))
    if load.left_out:
        lines.append(
            (f"{plural(load.left_out, 'other task')} not counted, for lack of time", "$foreground-muted")
        )
    return lines


def _height(lines: Sequence[Content], width: int) -> int:
    return sum(1 + max(0, line.cell_length - 1) // max(1, width) for line in lines)


def _occurrences(preview: SchedulePreview, now: datetime, width: int) -> Iterator[Content]:
    before = now
    for position, start in enumerate(start for start in preview.coming if start.at > now):
        each, gap = start.occurrence, start.at - before
        yield from (_wide if width >= WIDE else _narrow)(each, _gap(gap, first=position == 0))
        skipped = each.reason and f"skipped: {each.reason}"
        for remark in filter(None, (next_runs.moved_by_jitter(start), each.note, skipped)):
            yield Content.styled(f"    {safe(remark)}", "italic")
        before = start.at


def _gap(gap: timedelta, *, first: bool) -> str:
    text = humanize.span(gap.total_seconds() + 0.999)
    return f"in {text}" if first else f"+{text}"


def _wide(each: Occurrence, gap: str) -> Iterator[Content]:
    utc = "" if each.local.tzname() == "UTC" else f"{each.at:%Y-%m-%d %H:%M:%S}Z"
    yield _marked(each, f"{humanize.full(each.local):<{_LOCAL}}  {utc:<20}  {gap}")


def _narrow(each: Occurrence, gap: str) -> Iterator[Content]:
    yield _marked(each, humanize.full(each.local))
    utc = "" if each.local.tzname() == "UTC" else f"{each.at:%Y-%m-%d %H:%M:%S}Z  "
    yield Content.styled(f"    {utc}{gap}", "$foreground-muted")


def _marked(each: Occurrence, text: str) -> Content:
    """Mark with `!` what a clock change affects, with `-` what will be skipped."""
    sign, style = ("-", "strike") if each.reason else ("!", "bold") if each.note else (" ", "")
    return Content.assemble((f"{sign} ", "bold"), (text, style))


def _warnings(preview: SchedulePreview) -> Iterator[Content]:
    for code, message in preview.warnings:
        yield Content.assemble(("! ", "bold"), f"{safe(message)} [{safe(code)}]")


def _changes(preview: SchedulePreview) -> Iterator[Content]:
    """Yield the clock changes that no shown occurrence mentions."""
    shown = {start.occurrence.note for start in preview.coming}
    for change in preview.changes:
        if change.text not in shown:
            yield Content.assemble(
                ("! ", "bold"), f"clock change {change.local:%a %Y-%m-%d}: {safe(change.text)}"
            )
