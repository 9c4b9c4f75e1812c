"""The changes that applying a source would make. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.crontabfile.revising import difference
from dcron.model import Definition, Task
from dcron.policy.ownership import Decision, Owner
from dcron.services.changes.text_edits import TaskChange
from dcron.sources import Place


@dataclass(frozen=True)
class FieldEdit:
    """A field of an owned task whose value did not come from its source, and its last change."""

    name: str
    applied: Any
    """Its value as it was applied."""
    present: Any
    by: str | None
    """Who changed it last; None if plain SQL did."""
    at: datetime | None
    """When, in UTC; None if plain SQL did."""
    note: str | None


@dataclass(frozen=True)
class HandEdit:
    """A change of an owned task that did not come from its source."""

    by: str | None
    """Who made it; None if it was made with plain SQL."""
    at: datetime | None
    note: str | None
    applied: Definition | None
    """The task as it was applied; None if the history does not have it any more."""
    fields: Sequence[FieldEdit] = ()
    """The fields that differ from `applied`."""


@dataclass(frozen=True)
class PlannedTask:
    """A task of a source, or of the crontab, and what applying does to it."""

    decision: Decision
    before: Task | None
    """The task as it is."""
    after: Task | None
    """The task as the source has it; the id of a task to be added is not final."""
    owner: Owner
    place: Place | None = None
    """Where the source has it."""
    edit: HandEdit | None = None
    """For a conflict: the change by hand that would be lost."""

    @property
    def name(self) -> str:
        """The name in the source; of a task that it does not have, the name in the crontab."""
        task = self.after or self.before
        assert task
        return task.name

    @property
    def change(self) -> TaskChange:
        """The change that would be written."""
        return TaskChange(self.before, self.after)

    @property
    def is_renamed(self) -> bool:
        """Whether the task gets another name."""
        return bool(self.before and self.after and self.before.name != self.after.name)

    @property
    def hand_difference(self) -> list[str]:
        """The changes by hand as a unified diff, for JSON; empty if they are unknown."""
        known = self.edit and self.edit.applied
        return difference(known, self.before) if known else []

    @property
    def problem(self) -> str:
        """Why it cannot be applied, and what would allow it; empty for other decisions."""
        assert self.before
        if self.decision is Decision.CONFLICT:
            does = "removes it all the same" if self.after is None else "takes what the files say"
            edited = f"{self.before.name} was changed by hand since it was applied ({self._edited()})"
            return f"{edited}; --overwrite {does}"
        if self.decision is not Decision.REFUSE:
            return ""
        match self.owner:
            case Owner.UNOWNED:
                return f"there is a task {self.name} that belongs to no source; --adopt takes it over"
            case Owner.ONE_OFF:
                return f"{self.name} is a one-off, which no source can own; choose another name"
        return f"{self.name} belongs to {self.before.source}; --take-from {self.before.source} takes it over"

    def _edited(self) -> str:
        edit = self.edit
        return author_of(edit.by, edit.at, edit.note) if edit else author_of(None, None, None)


def author_of(by: str | None, at: datetime | None, note: str | None) -> str:
    """Return who made a change by hand, when (in UTC) and why; unless all is known, that plain SQL did it."""
    if by is None or at is None:
        return "with plain SQL: it is unknown by whom"
    return f"{by}, {at:%Y-%m-%dT%H:%M:%SZ}{f': {note}' if note else ''}"


@dataclass(frozen=True)
class Plan:
    """The tasks to apply, in the order of the files; tasks that the source does not have come last."""

    source: str
    tasks: Sequence[PlannedTask]
    obstacle: str | None = None
    """Why it removes too many tasks."""
    warning: str | None = None
    """A mistake in the request that does not prevent the changes."""
    expired: Sequence[PlannedTask] = ()
    """The added or changed tasks whose last time has passed."""

    def of(self, *decisions: Decision) -> list[PlannedTask]:
        """Return the tasks with one of these decisions."""
        return [each for each in self.tasks if each.decision in decisions]

    @property
    def added(self) -> list[PlannedTask]:
        """The tasks to add."""
        return self.of(Decision.ADD)

    @property
    def changed(self) -> list[PlannedTask]:
        """The tasks of the source to change."""
        return self.of(Decision.CHANGE)

    @property
    def removed(self) -> list[PlannedTask]:
        """The tasks to remove."""
        return self.of(Decision.REMOVE)

    @property
    def adopted(self) -> list[PlannedTask]:
        """The tasks of no source, or of another one, to take over."""
        return self.of(Decision.ADOPT)

    @property
    def extra(self) -> list[PlannedTask]:
        """The tasks of the source that its files do not have any more, and that stay."""
        return self.of(Decision.EXTRA)

    @property
    def conflicts(self) -> list[PlannedTask]:
        """The tasks whose changes by hand would be lost."""
        return self.of(Decision.CONFLICT)

    @property
    def refused(self) -> list[PlannedTask]:
        """The tasks whose names belong to others."""
        return self.of(Decision.REFUSE)

    @property
    def unchanged(self) -> list[PlannedTask]:
        """The tasks that are as the source has them."""
        return self.of(Decision.KEEP, Decision.NOTE)

    @property
    def writes(self) -> list[PlannedTask]:
        """The tasks to which applying writes."""
        return [each for each in self.tasks if each.decision.writes]

    @property
    def differs(self) -> bool:
        """Whether the crontab is not as the source says."""
        return any((self.added, self.changed, self.removed, self.adopted, self.conflicts, self.refused))

    def definitions(self, crontab: Iterable[Task]) -> Iterator[Definition]:
        """Yield the tasks of this crontab as they would be."""
        written = {each.before.id: each.after for each in self.writes if each.before}
        for task in crontab:
            if after := written.get(task.id, task):
                yield after
        yield from (each.after for each in self.added if each.after)
