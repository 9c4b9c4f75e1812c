"""The texts about changes, all of them inert."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from dcron.policy.history import RecordedChange
from dcron.presentation import humanize
from dcron.presentation.differences import of_change, pause_lines, what
from dcron.services.undo import Undone
from dcron.tui.forms.dialog_text import Part, difference_lines, text_changes

LATER_SHOWN = 20
"""Later changes that a dialog lists."""


def title(change: RecordedChange) -> str:
    """Return the number of the change, and what it changed."""
    return f"change {change.id}  {change.subject}: {what(change)}"


def about(change: RecordedChange, here: tzinfo) -> Iterator[Part]:
    """Yield the title of the change, and then its details."""
    yield title(change), "bold"
    yield from details(change, here)


def details(change: RecordedChange, here: tzinfo) -> Iterator[Part]:
    """Yield who made the change, when, by which way and why, and then what it did."""
    by = f"{change.author}, {change.via}" if change.via else change.author
    yield f"{humanize.full(change.at.astimezone(here))}, {by}", "$foreground-muted"
    if change.note:
        yield f"why: {change.note}", ""
    if change.batch:
        yield f"batch {change.batch}", "$foreground-muted"
    yield "", ""
    yield from difference_lines(of_change(change))


def undone(would: Undone, now: datetime) -> Iterator[Part]:
    """Yield what an undo would do: the difference of each task, and the runs that move."""
    yield from text_changes([each for each in would.tasks if each.redefines], now)
    for each in would.tasks:
        for line in pause_lines(each.before, each.after):
            yield f"{each.name}  {line}", ""
    for other in would.others:
        yield f"undo {other.subject}: {what(other)}", "bold"
        yield from difference_lines(of_change(other, backwards=True))


def later(found: Sequence[RecordedChange], now: datetime) -> Iterator[Part]:
    """Yield the later changes that an undo would lose, the oldest first."""
    for each in found[:LATER_SHOWN]:
        note = f" ({each.note})" if each.note else ""
        yield f"change {each.id}, {humanize.ago(each.at, now)}, {each.author}: {what(each)}{note}", "bold"
        yield from difference_lines(of_change(each))
    if len(found) > LATER_SHOWN:
        yield f"and {len(found) - LATER_SHOWN:,} more", "bold"
