"""The changes that applying a source would make. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dcron.crontabfile.revising import difference
from dcron.model import Definition, Ownership, Task
from dcron.policy.history import RecordedChange
from dcron.policy.ownership import Decision, Owner, digest
from dcron.services.changes.changeset import Change, TaskChange, redefined
from dcron.sources import Place

KINDS = {
    "added": (Decision.ADD,),
    "changed": (Decision.CHANGE,),
    "removed": (Decision.REMOVE,),
    "adopted": (Decision.ADOPT,),
    "unchanged": (Decision.KEEP, Decision.NOTE),
    "extra": (Decision.EXTRA,),
    "conflicts": (Decision.CONFLICT,),
    "refused": (Decision.REFUSE,),
}


@dataclass(frozen=True)
class FieldEdit:
    """A field of an owned task whose value did not come from its source."""

    name: str
    applied: Any
    """Its value as it was applied."""
    present: Any
    last: RecordedChange | None
    """Its last change; None if plain SQL made it."""


@dataclass(frozen=True)
class HandEdit:
    """A change of an owned task that did not come from its source."""

    last: RecordedChange | None
    """None if it was made with plain SQL."""
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
        return self.change.name

    @property
    def change(self) -> TaskChange:
        """The change that would be written."""
        return TaskChange(self.before, self.after)

    def wanted(self, source: str) -> Change:
        """The change to write."""
        if self.after is None:
            return Change(self.before, None)
        definition = self.after.definition()
        return redefined(self.before, definition, Ownership(source, digest(definition)))

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
            by = author_of(self.edit.last if self.edit else None)
            edited = f"{self.before.name} was changed by hand since it was applied ({by})"
            return f"{edited}; --overwrite {does}"
        if self.decision is not Decision.REFUSE:
            return ""
        match self.owner:
            case Owner.UNOWNED:
                return f"there is a task {self.name} that belongs to no source; --adopt takes it over"
            case Owner.ONE_OFF:
                return f"{self.name} is a one-off, which no source can own; choose another name"
        return f"{self.name} belongs to {self.before.source}; --take-from {self.before.source} takes it over"


def author_of(last: RecordedChange | None) -> str:
    """Return who made a change by hand, when (in UTC) and why; without one, that plain SQL did it."""
    if last is None:
        return "with plain SQL: it is unknown by whom"
    return f"{last.author}, {last.at:%Y-%m-%dT%H:%M:%SZ}{f': {last.note}' if last.note else ''}"


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
    not_accepted: Sequence[tuple[PlannedTask, str]] = ()
    """The added or changed tasks that the policies of all living nodes refuse, and why."""

    def of(self, *decisions: Decision) -> list[PlannedTask]:
        """Return the tasks with one of these decisions."""
        return [each for each in self.tasks if each.decision in decisions]

    @cached_property
    def kinds(self) -> dict[str, list[PlannedTask]]:
        """The tasks by the words of people and of JSON for what is done to them."""
        return {kind: self.of(*decisions) for kind, decisions in KINDS.items()}

    @property
    def is_possible(self) -> bool:
        """Whether nothing prevents the changes."""
        return not (self.obstacle or self.of(Decision.CONFLICT, Decision.REFUSE))

    @property
    def writes(self) -> list[PlannedTask]:
        """The tasks to which applying writes."""
        return [each for each in self.tasks if each.decision.writes]

    @property
    def differs(self) -> bool:
        """Whether the crontab is not as the source says."""
        decisions = {each.decision for each in self.tasks}
        return not decisions <= {Decision.KEEP, Decision.NOTE, Decision.EXTRA}

    def definitions(self, crontab: Iterable[Task]) -> Iterator[Definition]:
        """Yield the tasks of this crontab as they would be."""
        written = {each.before.id: each.after for each in self.writes if each.before}
        for task in crontab:
            if after := written.get(task.id, task):
                yield after
        yield from (each.after for each in self.of(Decision.ADD) if each.after)
