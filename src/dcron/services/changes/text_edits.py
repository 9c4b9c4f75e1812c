"""Compare an edited text with the tasks it was made of, and the values that `bulk_edit` returns. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dcron.crontabfile import read, write
from dcron.crontabfile.revising import difference, mark, pair_renamed
from dcron.errors import Conflict, CrontabFileError, UsageError
from dcron.model import DEFINITION_FIELDS, Definition, Task


@dataclass(frozen=True)
class CrontabText:
    """A text to edit, and by name the tasks it was made of, as they were then."""

    text: str
    tasks: Mapping[str, Task]
    whole: bool
    """Whether it contains all tasks but one-offs; else only those that were asked for by name."""


@dataclass(frozen=True)
class TaskChange:
    """A change to a task; `before` is None for an added task, `after` for a removed one."""

    before: Task | None
    after: Task | None
    """As it will be, with its calendars; the id and the author of a task to be added are not final."""

    @property
    def kind(self) -> str:
        """Return `added`, `changed`, `renamed` or `removed`."""
        if self.before is None or self.after is None:
            return "added" if self.after else "removed"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def name(self) -> str:
        """Return the task's name; the new name of a renamed task."""
        return _name_of(self.after or self.before)

    def difference(self) -> list[str]:
        """Return the change as a unified diff: each line begins with a space, a minus or a plus."""
        return difference(self.before, self.after)


@dataclass(frozen=True)
class Changes:
    """What a text would change: removals first, then the others in the order of the text."""

    changes: Sequence[TaskChange] = ()
    notices: Sequence[str] = ()
    """What the author of the text should know about it."""

    def count(self, *kinds: str) -> int:
        """Return how many changes are of these kinds."""
        return sum(change.kind in kinds for change in self.changes)


class Mistake(NamedTuple):
    """An error in a text, and where; lines and columns count from 1."""

    line: int
    column: int
    message: str


class BadText(UsageError):  # noqa: N818 - named like the other errors
    """A text that cannot be applied: all of its mistakes."""

    def __init__(self, text: str, mistakes: Sequence[Mistake]) -> None:
        """Show each mistake with its line and column in this text."""
        super().__init__("\n".join(f"line {line}, column {at}: {message}" for line, at, message in mistakes))
        self.text = text
        self.mistakes = mistakes

    def marked(self) -> tuple[str, int]:
        """Return the text under comments that list the mistakes, and the line of the first mistake there."""
        return mark(self.text, [(mistake.line, mistake.message) for mistake in self.mistakes])


@dataclass(frozen=True)
class ConflictingTask:
    """A task that another user changed, removed or added since the text was made."""

    message: str
    """Who did what, and when."""
    theirs: Task | None
    mine: Task | Definition | None

    def difference(self) -> list[str]:
        """Return the unified diff from their task to that of the text."""
        return difference(self.theirs, self.mine)


class EditConflict(Conflict):
    """Another user changed some of the tasks first; nothing was written."""

    def __init__(self, overtaken: Sequence[ConflictingTask]) -> None:
        """Show all of them, one on each line."""
        super().__init__("\n".join(each.message for each in overtaken))
        self.overtaken = overtaken


@dataclass(frozen=True)
class TaskEdit:
    """A task as it was read, and its definition in the text; None for a missing one."""

    before: Task | None
    definition: Definition | None

    @property
    def name(self) -> str:
        """Return the name in the text; of a task that is missing there, its name before."""
        return _name_of(self.definition or self.before)

    @property
    def new_name(self) -> str | None:
        """Return the name that no other task may have; None where the name stays."""
        return None if self.before and self.before.name == self.name else self.name


def edits_of(draft: CrontabText, definitions: Mapping[str, Definition]) -> Iterator[TaskEdit]:
    """Yield the edits that the text makes: removals first, because they free names."""
    removed = [task for name, task in draft.tasks.items() if name not in definitions]
    new = [definition for name, definition in definitions.items() if name not in draft.tasks]
    if len(draft.tasks) == len(definitions) == len(removed) == 1 and not draft.whole:
        renamed = {new[0].name: removed[0].name}
    else:
        renamed = pair_renamed([task.definition() for task in removed], new)
    for task in removed:
        if task.name not in renamed.values():
            yield TaskEdit(task, None)
    for name, definition in definitions.items():
        before = draft.tasks.get(renamed.get(name, name))
        edited = definition if before is None else _as_edited(before, definition)
        if before is None or edited != before.definition():
            yield TaskEdit(before, edited)


def _as_edited(task: Task, definition: Definition) -> Definition:
    """Return the task with the changes of the text; what no text can express stays as it is."""
    before = task.definition()
    if definition == before:
        return before
    written = _as_written(before)
    fields = {name: getattr(definition, name) for name in DEFINITION_FIELDS}
    return replace(
        before, **{name: value for name, value in fields.items() if value != getattr(written, name)}
    )


def _as_written(definition: Definition) -> Definition:
    """Return the definition as it reads after it was written; one made by hand may be unreadable."""
    try:
        return read(write([definition]), source=definition.name, timezone=definition.timezone).definitions[0]
    except (CrontabFileError, IndexError):
        return definition


def _name_of(definition: Definition | None) -> str:
    assert definition
    return definition.name
