"""What a text wants of the crontab, and what comes of it: values, and how they are found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dcron.crontabfile import read, write
from dcron.crontabfile.revising import difference, mark, pair_renamed
from dcron.errors import Conflict, CrontabFileError, UsageError
from dcron.model import DEFINITION_FIELDS, Definition, Task


@dataclass(frozen=True)
class CrontabText:
    """A text to edit, and the lines that it was made of, by name, as they were then."""

    text: str
    tasks: Mapping[str, Task]
    whole: bool
    """All lines but one-offs; else some that were asked for."""


@dataclass(frozen=True)
class TaskChange:
    """What becomes of a line; before or after is None for one that is added or removed."""

    before: Task | None
    after: Task | None
    """As it will be, with its calendars; of one to be added, id and author are not yet real."""

    @property
    def kind(self) -> str:
        """`added`, `changed`, `renamed` or `removed`."""
        if self.before is None or self.after is None:
            return "added" if self.after else "removed"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def name(self) -> str:
        """The line's name; of a renamed one, the new name."""
        return _name_of(self.after or self.before)

    def difference(self) -> list[str]:
        """Its lines as a unified diff: each begins with a space, a minus or a plus."""
        return difference(self.before, self.after)


@dataclass(frozen=True)
class Changes:
    """What a text would change: removals first, then the others in the order of the text."""

    changes: Sequence[TaskChange] = ()
    notices: Sequence[str] = ()
    """What the person should know of what they wrote."""

    def count(self, *kinds: str) -> int:
        """How many changes are of these kinds."""
        return sum(change.kind in kinds for change in self.changes)


class Mistake(NamedTuple):
    """What is wrong with a text, and where; lines and columns count from 1."""

    line: int
    column: int
    message: str


class BadText(UsageError):  # noqa: N818 - said as people say it, like the others
    """A text that cannot be applied: all that is wrong with it."""

    def __init__(self, text: str, mistakes: Sequence[Mistake]) -> None:
        """Tell each with its line and column in this text."""
        super().__init__("\n".join(f"line {line}, column {at}: {told}" for line, at, told in mistakes))
        self.text = text
        self.mistakes = mistakes

    def marked(self) -> tuple[str, int]:
        """The text below comments that say what is wrong, and the line of the first mistake there."""
        return mark(self.text, [(mistake.line, mistake.message) for mistake in self.mistakes])


@dataclass(frozen=True)
class ConflictingTask:
    """A line that somebody else has changed, removed or added since the text was made."""

    told: str
    """Who, when, and what they did."""
    theirs: Task | None
    mine: Task | Definition | None

    def difference(self) -> list[str]:
        """From their lines to those of the text."""
        return difference(self.theirs, self.mine)


class EditConflict(Conflict):
    """Somebody else was first with some of the lines; nothing was written."""

    def __init__(self, overtaken: Sequence[ConflictingTask]) -> None:
        """Tell all of them."""
        super().__init__("\n".join(each.told for each in overtaken))
        self.overtaken = overtaken


@dataclass(frozen=True)
class TaskEdit:
    """A line as it was read, and as the text has it; None where there was or is none."""

    before: Task | None
    line: Definition | None

    @property
    def name(self) -> str:
        """The name in the text; of a line that is not there, the one it had."""
        return _name_of(self.line or self.before)

    @property
    def new_name(self) -> str | None:
        """The name that nobody else may have."""
        return None if self.before and self.before.name == self.name else self.name


def edits_of(draft: CrontabText, lines: Mapping[str, Definition]) -> Iterator[TaskEdit]:
    """What the text wants otherwise: what is gone first, for that gives names back."""
    gone = [task for name, task in draft.tasks.items() if name not in lines]
    new = [line for name, line in lines.items() if name not in draft.tasks]
    if len(draft.tasks) == len(lines) == len(gone) == 1 and not draft.whole:
        renamed = {new[0].name: gone[0].name}
    else:
        renamed = pair_renamed([task.definition() for task in gone], new)
    for task in gone:
        if task.name not in renamed.values():
            yield TaskEdit(task, None)
    for name, line in lines.items():
        before = draft.tasks.get(renamed.get(name, name))
        wanted = line if before is None else _as_edited(before, line)
        if before is None or wanted != before.definition():
            yield TaskEdit(before, wanted)


def _as_edited(task: Task, line: Definition) -> Definition:
    """The task with what the text says otherwise; what no text says of it stays as it is."""
    before = task.definition()
    if line == before:
        return before
    written = _as_written(before)
    fields = {name: getattr(line, name) for name in DEFINITION_FIELDS}
    return replace(
        before, **{name: value for name, value in fields.items() if value != getattr(written, name)}
    )


def _as_written(line: Definition) -> Definition:
    """How the line reads once it has been written; a hand-written one may not be readable at all."""
    try:
        return read(write([line]), source=line.name, timezone=line.timezone).definitions[0]
    except (CrontabFileError, IndexError):
        return line


def _name_of(line: Definition | None) -> str:
    assert line
    return line.name
