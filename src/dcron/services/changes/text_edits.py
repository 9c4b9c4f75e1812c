"""Compare an edited text with the tasks it was made of, and the values that `bulk_edit` returns. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dcron.crontabfile import read, write
from dcron.crontabfile.revising import mark, pair_renamed
from dcron.errors import Conflict, CrontabFileError, UsageError
from dcron.model import DEFINITION_FIELDS, Definition, Task
from dcron.services.changes.changeset import Change, Overtaken, TaskChange, redefined


@dataclass(frozen=True)
class CrontabText:
    """A text to edit, and by name the tasks it was made of, as they were then."""

    text: str
    tasks: Mapping[str, Task]
    whole: bool
    """Whether it contains all tasks but one-offs; else only those that were asked for by name."""


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


class EditConflict(Conflict):
    """Another user changed some of the tasks first; nothing was written."""

    def __init__(self, overtaken: Sequence[Overtaken]) -> None:
        """Show all of them, one on each line."""
        super().__init__("\n".join(str(each.error) for each in overtaken))
        self.overtaken = overtaken


def edits_of(draft: CrontabText, definitions: Mapping[str, Definition]) -> Iterator[Change]:
    """Yield the changes that the text makes: removals first."""
    removed = [task for name, task in draft.tasks.items() if name not in definitions]
    new = [definition for name, definition in definitions.items() if name not in draft.tasks]
    if len(draft.tasks) == len(definitions) == len(removed) == 1 and not draft.whole:
        renamed = {new[0].name: removed[0].name}
    else:
        renamed = pair_renamed([task.definition() for task in removed], new)
    for task in removed:
        if task.name not in renamed.values():
            yield Change(task, None)
    for name, definition in definitions.items():
        before = draft.tasks.get(renamed.get(name, name))
        edited = definition if before is None else _as_edited(before, definition)
        if before is None or edited != before.definition():
            yield redefined(before, edited)


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
