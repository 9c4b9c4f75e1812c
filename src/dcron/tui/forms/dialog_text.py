"""The texts of the dialogs. Most of it is foreign text, so all of it is made inert here."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

from textual.content import Content

from dcron.fields import FIELDS
from dcron.model import Definition, Task
from dcron.presentation import next_runs, owned_tasks
from dcron.presentation.emphasis import Struck
from dcron.services.changes.changeset import Overtaken, TaskChange
from dcron.tui.forms.checking import Moved, changed_fields
from dcron.tui.forms.fields import shown
from dcron.values.safe_text import safe, shorten

LONGEST_VALUE = 300
"""Most cells of a shown value."""
CHANGES_SHOWN = 50
Part = tuple[str, str]
"""A line and its style."""
_STYLES = {"-": "$text-error", "+": "$text-success"}


def content(parts: Iterable[Part]) -> Content:
    """Return the lines as inert content."""
    return Content("\n").join(Content.styled(safe(text), style) for text, style in parts)


def form_change(
    before: Definition | None, after: Definition, moved: Moved, warnings: Sequence[tuple[str, str]]
) -> Iterator[Part]:
    """Yield the changed fields of a form, the runs that it moves, and warnings."""
    yield from field_changes(before or Definition(name="", schedule="", timezone="", command=""), after)
    yield from _runs(moved)
    yield from _reminders([before])
    for code, message in warnings:
        yield f"! {message} [{code}]", "bold"


def field_changes(before: Definition, after: Definition) -> Iterator[Part]:
    """Yield each field that differs: `tries: 1 -> 3`."""
    for name in changed_fields(before, after):
        field = FIELDS[name]
        old, new = (shorten(safe(shown(field, line)), LONGEST_VALUE) for line in (before, after))
        if old == new and name == "command":
            continue  # the field with the shell or the arguments shows it
        yield f"{field.title}: {old} -> {new}" if before.schedule else f"{field.title}: {new}", ""


def form_conflict(base: Definition, overtaken: Overtaken) -> Iterator[Part]:
    """Yield who changed it first, what each side changed, and how theirs differs from mine."""
    yield str(overtaken.error), ""
    if overtaken.theirs:
        yield from _headed("they changed", field_changes(base, overtaken.theirs))
    if overtaken.mine:
        yield from _headed("you changed", field_changes(base, overtaken.mine))
    yield from _difference(overtaken)


def act_conflict(base: Task, theirs: Task, here: tzinfo) -> Iterator[Part]:
    """Yield what another person changed in a task since it was read."""
    yield from _headed("they changed", field_changes(base, theirs))
    if base.enabled != theirs.enabled:
        yield "  resumed it" if theirs.enabled else f"  {next_runs.pause(theirs, here)}", ""


def text_changes(changes: Sequence[TaskChange], now: datetime, notices: Sequence[str] = ()) -> Iterator[Part]:
    """Yield notices about a text, and what would change, task by task."""
    for notice in notices:
        yield f"! {notice}", "bold"
    for change in changes[:CHANGES_SHOWN]:
        yield from _text_change(change, now)
    if len(changes) > CHANGES_SHOWN:
        yield f"and {len(changes) - CHANGES_SHOWN:,} more", "bold"


def text_conflict(overtaken: Sequence[Overtaken]) -> Iterator[Part]:
    """Yield each task that another person changed: who, and how theirs differs from mine."""
    for each in overtaken[:CHANGES_SHOWN]:
        yield str(each.error), "bold"
        yield from _difference(each)


def _text_change(change: TaskChange, now: datetime) -> Iterator[Part]:
    old = f"{change.before.name} -> " if change.before and change.kind == "renamed" else ""
    yield f"{change.kind} {old}{change.name}", "bold"
    yield from _reminders([change.before])
    yield from difference_lines(change.difference())
    if change.after:
        yield from _runs(list(next_runs.moved_runs(change.before, change.after, now)))
        if next_runs.times_differ(change.before, change.after):
            for code, message in next_runs.warnings(change.after, now):
                yield f"! {message} [{code}]", "bold"


def _reminders(changed: Sequence[Definition | None]) -> Iterator[Part]:
    """Yield that the change of an owned task belongs to its source, too."""
    for text in owned_tasks.reminders(task for task in changed if isinstance(task, Task)):
        yield f"! {text}", "bold"


def _difference(overtaken: Overtaken) -> Iterator[Part]:
    yield from _headed("- theirs, + yours", difference_lines(overtaken.difference()))


def _headed(heading: str, parts: Iterable[Part]) -> Iterator[Part]:
    yield f"{heading}:", "bold"
    for text, style in parts:
        yield f"  {text}", style


def difference_lines(difference: Iterable[str]) -> Iterator[Part]:
    """Yield the lines of a difference, coloured by their signs."""
    for line in difference:
        yield shorten(safe(line), LONGEST_VALUE), _STYLES.get(line[:1], "")


def _runs(moved: Moved) -> Iterator[Part]:
    for name, value in moved:
        lines = [value] if isinstance(value, str) else value or []
        for position, line in enumerate(lines):
            yield f"{'' if position else name:<7}{line}", "strike" if _is_struck(line) else ""


def _is_struck(line: str) -> bool:
    return isinstance(line, Struck)
