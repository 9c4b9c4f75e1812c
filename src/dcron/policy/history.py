"""What the audit log says of a task: its changes, its state before and after each, and at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dcron.errors import ROW_ERRORS
from dcron.model import (
    DEFINITION_FIELDS,
    SPEC_DEFAULTS,
    TIMES_FIELDS,
    Definition,
    Ownership,
    Pause,
    TaskState,
)
from dcron.policy.starting.catch_up import INSTANT

TASK_ACTIONS = ("add", "set", "rm", "pause", "resume", "restore", "retire")
"""Changes of a task itself: each has the task's state before and after. Other actions are about its runs."""
BY_SQL = "sql"
"""The actor and the way of a change that was made with plain SQL."""
APPLIED = "applied"
_EDITS = ("set", "restore")
_TIMES = ("not_before", "not_after")
_TUPLES = ("argv", *(name for name, default in SPEC_DEFAULTS.items() if isinstance(default, tuple)))


@dataclass(frozen=True)
class RecordedChange:
    """An entry of the audit log."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    """The kind of the subject: task, run, calendar, queue, setting, node, freeze, alert or database."""
    task_id: int | None
    task: str | None
    version: int | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    login: str | None
    via: str | None
    note: str | None
    batch: str | None
    undoes: int | None

    @property
    def author(self) -> str:
        """The actor, with the database login if its name differs."""
        return changed_by(self.actor, self.login)

    @property
    def subject(self) -> str:
        """The name of the changed task, run, calendar and so on."""
        values = self.after or self.before or {}
        if self.kind == "setting":
            return next(iter(values), "")
        return self.task or str(values.get("subject" if self.kind == "alert" else "name", ""))

    @property
    def ends(self) -> bool:
        """Whether the task has left the crontab with it."""
        return self.action in ("rm", "retire")

    @property
    def pause_reason(self) -> str | None:
        """The reason of the pause that it leaves the task in."""
        state = self.state_after
        return state.pause.reason if state and state.pause else None

    @property
    def has_states(self) -> bool:
        """Whether it has the state of a task before and after."""
        return self.action in TASK_ACTIONS and self.task_id is not None

    @property
    def state_before(self) -> TaskState | None:
        """The task before; None if it did not exist, or if the change has no such state."""
        return _state(self.before)

    @property
    def state_after(self) -> TaskState | None:
        """The task after; None if it was removed, or if the change has no such state."""
        if self.action == "pause" and "schedule" not in (self.after or {}):  # as earlier versions wrote it
            before = _state(self.before)
            pause = Pause(reason=(self.after or {}).get("reason"), by=self.actor, at=self.at)
            return before and replace(before, pause=pause)
        return _state(self.after)

    @property
    def fields(self) -> list[str]:
        """The names of the changed fields, with `pause` and `source`; `applied` if it is the only one."""
        before, after = self.before or {}, self.after or {}
        if not before or not after:
            return []
        names = (*DEFINITION_FIELDS, "pause", "source", APPLIED) if self.has_states else after.keys()
        found = [name for name in names if before.get(name) != after.get(name)]
        return found if found == [APPLIED] else [name for name in found if name != APPLIED]

    @property
    def changes_times(self) -> bool:
        """Whether it is an edit that affects when the task runs."""
        return self.action in _EDITS and any(name in (*TIMES_FIELDS, "name") for name in self.fields)


def state_at(
    last: RecordedChange | None, following: RecordedChange | None, present: TaskState | None
) -> TaskState | None:
    """Return the state of a task between two of its changes; None while it is not in the crontab.

    Either change may be missing. `present` is its state now: it counts after the last change, which may have
    left out an edit with plain SQL, and where a change cannot be read.
    """
    if following is None:
        return present or (last.state_after if last else None)
    if last is not None and last.ends:
        return None
    return following.state_before or (None if following.action == "add" else present)


@dataclass(frozen=True)
class TaskHistory:
    """When a task was added, changed, paused and removed."""

    changes: Sequence[RecordedChange]
    """Those that have its states, the oldest first."""
    present: TaskState | None
    """The task as it is now; None once it has left the crontab."""

    def at(self, time: datetime) -> TaskState | None:
        """Return the state at this time, after all changes up to it."""
        return state_at(self.last(time), self.first(time), self.present)

    def planned_for(self, occurrence: datetime) -> Definition | None:
        """Return the definition by which an occurrence was planned; None when there was none.

        An occurrence is strictly later than the change that planned it.
        """
        state = self.at(occurrence - INSTANT)
        return state.definition if state else None

    def last(self, until: datetime, *actions: str) -> RecordedChange | None:
        """Return the latest change up to this time, of these kinds if any are given."""
        found = (each for each in reversed(self.changes) if each.at <= until)
        return next((each for each in found if not actions or each.action in actions), None)

    def first(self, after: datetime, *actions: str) -> RecordedChange | None:
        """Return the first change after this time, of these kinds if any are given."""
        found = (each for each in self.changes if each.at > after)
        return next((each for each in found if not actions or each.action in actions), None)

    def removal(self) -> RecordedChange | None:
        """Return the change that removed the task; None for a one-off that went by itself."""
        last = self.changes[-1] if self.changes else None
        return last if last and last.action == "rm" else None

    def edits_since(self, at: datetime) -> list[RecordedChange]:
        """Return the edits after this time."""
        return [each for each in self.changes if each.at > at and each.action in _EDITS]

    def periods(self, first: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, Definition]]:
        """Yield begin, end and definition of each period between changes, from `first` to before `end`."""
        start = first
        for stop in [*(each.at + INSTANT for each in self.changes if first <= each.at < end), end]:
            if definition := self.planned_for(start):
                yield start, stop, definition
            start = stop


def changed_by(actor: str, login: str | None) -> str:
    """Return the actor, with the database login (on SQLite the account) if its name differs."""
    return actor if login in (None, actor.partition("@")[0]) else f"{actor} (as {login})"


# The state in a change --------------------------------------------------------------------------------


def _state(written: dict[str, Any] | None) -> TaskState | None:
    """Return the state in a change; None if there is none, or none that can be read."""
    try:
        definition = _definition_in(written)
        if definition is None or written is None:
            return None
        pause = _pause(written.get("pause"))
        ownership = Ownership(written.get("source"), written.get("applied"))
        return TaskState(definition, pause, bool(written.get("once")), ownership)
    except ROW_ERRORS:
        return None


def _pause(written: dict[str, Any] | None) -> Pause | None:
    if not written:
        return None
    times = {name: datetime.fromisoformat(written[name]) for name in ("at", "until") if written.get(name)}
    return Pause(reason=written.get("reason"), by=written.get("by"), **times)


def _definition_in(state: Any) -> Definition | None:
    """Return the definition in the state of a change; None where the change holds something else."""
    if not isinstance(state, Mapping) or "schedule" not in state:
        return None
    values = {name: state[name] for name in DEFINITION_FIELDS if name in state}
    for name in _TIMES:
        if values.get(name):
            values[name] = datetime.fromisoformat(values[name])
    for name in _TUPLES:
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    return Definition(**values)
