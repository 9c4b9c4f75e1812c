"""Wanted tasks beside those of today, and writing what differs in one transaction.

Every act that changes tasks says what it wants as changes, and by `Rules` how it differs from the other acts.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from dcron.crontabfile.revising import difference
from dcron.errors import DcronError, Refused, UsageError
from dcron.model import Definition, Ownership, Pause, Task, TaskState
from dcron.policy.ownership import is_owned
from dcron.policy.validation import require_text, require_valid
from dcron.services.changes import dependency_rules
from dcron.services.changes.task_writer import NameTaken, TaskWriter
from dcron.services.service import Service
from dcron.settings.registry import OWNED_EDITS, REFUSE
from dcron.store.tasks import rows as tasks
from dcron.store.tasks import settings


@dataclass(frozen=True)
class Change:
    """What a task is to become."""

    before: Task | None
    """The task as it was read; None for one to add."""
    after: TaskState | None
    """None for one to remove."""
    undoes: int | None = None
    """The id of the change that this one undoes."""
    put_back: tuple[int, int] | None = None
    """The id and the version under which a removed task comes back."""
    next: datetime | None = None
    """The dumped time of the next run of a task to add."""

    @cached_property
    def definition(self) -> Definition | None:
        """The definition that it is to have."""
        return self.after.definition if self.after else None

    @property
    def name(self) -> str:
        """The name that it is to have; of one to remove, the name that it has."""
        known = self.definition or self.before
        assert known
        return known.name

    @property
    def old_name(self) -> str | None:
        """The name that it has; None for one to add."""
        return self.before.name if self.before else None

    @cached_property
    def redefines(self) -> bool:
        """Whether it adds or removes the task, or gives it another definition."""
        return self.before is None or self.before.definition() != self.definition

    @property
    def is_new(self) -> bool:
        """Whether it adds a task that there never was."""
        return self.before is None and self.put_back is None

    @property
    def only_pauses(self) -> bool:
        """Whether it leaves the definition and the owner of a task as they are."""
        if self.redefines or not (self.before and self.after):
            return False
        return self.after.ownership == self.before.ownership()

    def onto(self, present: Task) -> TaskState:
        """Return the state to write: a part that this change leaves alone stays as it is at present."""
        assert self.before
        assert self.after
        before, wanted = vars(self.before.state()), vars(self.after)
        parts = {name: value for name, value in wanted.items() if value != before[name]}
        return replace(present.state(), **parts)


@dataclass(frozen=True)
class TaskChange:
    """A change that was written; `before` is None for an added task, `after` for a removed one."""

    before: Task | None
    after: Task | None
    """As it is now, with its calendars. If the change is only tried, the id of an added task is not final."""

    @property
    def kind(self) -> str:
        """Return `added`, `changed`, `renamed` or `removed`."""
        if self.before is None or self.after is None:
            return "added" if self.after else "removed"
        return "changed" if self.before.name == self.after.name else "renamed"

    @property
    def name(self) -> str:
        """Return the task's name; the new name of a renamed task."""
        task = self.after or self.before
        assert task
        return task.name

    @property
    def redefines(self) -> bool:
        """Whether the task was added or removed, or got another definition."""
        return not (self.before and self.after) or self.before.definition() != self.after.definition()

    def difference(self) -> list[str]:
        """Return the change as a unified diff: each line begins with a space, a minus or a plus."""
        return difference(self.before, self.after)


@dataclass(frozen=True)
class Overtaken:
    """A change of a task that another user changed, removed or added first."""

    change: Change
    error: DcronError
    """Who did what, and when."""
    theirs: Task | None

    @property
    def mine(self) -> Definition | None:
        """The task as the change would have it."""
        return self.change.definition

    def difference(self) -> list[str]:
        """Return the unified diff from their task to mine."""
        return difference(self.theirs, self.mine)


@dataclass
class Written:
    """What became of changes."""

    done: list[TaskChange] = field(default_factory=list)
    overtaken: list[Overtaken] = field(default_factory=list)
    problems: dict[str, DcronError] = field(default_factory=dict)
    """By name, what is wrong with others."""
    expired: Sequence[str] = ()
    """The tasks of a dump whose only time has passed."""

    @property
    def left(self) -> dict[str, DcronError]:
        """By name, why tasks were left alone."""
        overtaken = {each.change.name: each.error for each in self.overtaken}
        return overtaken | self.problems

    @property
    def tasks(self) -> list[Task]:
        """The tasks as they are now; removed ones as they were."""
        return [task for each in self.done if (task := each.after or each.before)]

    def add(self, more: "Written") -> None:
        """Add what became of further changes."""
        self.done += more.done
        self.overtaken += more.overtaken
        self.problems |= more.problems

    def require_all(self) -> None:
        """Raise why the first change was not made, if one was not."""
        for error in self.left.values():
            raise error


def _is_same_version(present: Task, change: Change) -> bool:
    return change.before is not None and present.version == change.before.version


@dataclass(frozen=True)
class Rules:
    """How an act differs from the others."""

    each_alone: bool = False
    """A change that cannot be made stops no other one; else all are made, or the caller makes none."""
    is_current: Callable[[Task, Change], bool] = _is_same_version
    """Whether a task is as the change expects it."""
    is_checked: bool = True
    """Whether definitions have to be valid; an act that says no has checked them."""
    asks_owner: bool = True
    """Whether the setting `edits.owned` may refuse changes of owned tasks. It does not refuse pauses."""
    has_dependencies: bool = True
    """Whether the dependencies are checked."""
    restores: bool = False
    """The tasks come from a dump: those that agents cannot run are suspended."""


TOGETHER = Rules()
ALONE = Rules(each_alone=True)


# Changes that a person asks for by a verb -------------------------------------------------------------


def redefined(
    task: Task | None,
    definition: Definition,
    ownership: Ownership | None = None,
    pause: Pause | None = None,
) -> Change:
    """Return the change of a task to this definition, or its addition; of its owner, too, if one is given.

    A task that is not paused gets this pause.
    """
    state = task.state() if task else TaskState(definition)
    after = TaskState(definition, state.pause or pause, state.once, ownership or state.ownership)
    return Change(task, after)


def edited(task: Task, fields: Mapping[str, Any]) -> Change:
    """Return the change of these fields of a task."""
    return redefined(task, replace(task.definition(), **fields))


def paused(task: Task, reason: str | None, until: datetime | None, actor: str) -> Change:
    """Return the pause of a task until it is resumed, or until `until`. Raises UsageError, or Refused."""
    if reason is not None:
        require_text("reason", reason)
    if not task.enabled:
        raise Refused(
            f"{task.name} is paused already{f': {task.paused_reason}' if task.paused_reason else ''}"
        )
    return Change(task, replace(task.state(), pause=Pause(reason, actor, None, until)))


def resumed(task: Task) -> Change:
    """Return the end of a task's pause, which records what it missed in one skipped run. Raises Refused."""
    if task.enabled:
        raise Refused(f"{task.name} is not paused")
    return Change(task, replace(task.state(), pause=None))


# Writing ----------------------------------------------------------------------------------------------


def write_changes(
    connection: Connection, service: Service, changes: Sequence[Change], rules: Rules = TOGETHER
) -> Written:
    """Make changes in this transaction, those of tasks that others did not change since.

    Unless each is made alone, the caller rolls back if any is overtaken or has a problem. Raises Refused for
    owned tasks that must not be changed, and Conflict where others add a task of one of the names just now.
    """
    present = lock(connection, service, changes)
    if rules.asks_owner and not rules.each_alone:
        _ask_owners(connection, changes)
    writer = TaskWriter(connection, service.database, service.author, restores=rules.restores)
    written, current = Written(), list[tuple[Change, Task | None]]()
    for change in changes:
        task = present.get(change.before.id) if change.before else None
        if change.before and not (task and rules.is_current(task, change)):
            written.overtaken.append(Overtaken(change, writer.conflict(change.before), task))
        elif not change.is_new:
            current.append((change, task))
    if written.overtaken and not rules.each_alone:
        return written
    _write_known(writer, current, rules, written)
    _add(writer, [each for each in changes if each.is_new], rules, written)
    if rules.has_dependencies:
        written.problems |= writer.dependency_problems()
    service.database.notify(connection)
    position = {change.name: number for number, change in enumerate(changes)}
    written.done.sort(key=lambda each: position[each.name])
    return written


def lock(connection: Connection, service: Service, changes: Sequence[Change]) -> dict[int, Task]:
    """Lock what these changes affect; return the tasks by id, as they are now."""
    pairs = ((each.before, each.definition) for each in changes if each.redefines)
    dependency_rules.lock_if_affected(connection, service.database, pairs)
    ids = [each.before.id for each in changes if each.before]
    tasks.lock(connection, ids)
    return {task.id: task for task in tasks.by_ids(connection, ids)} if ids else {}


def _ask_owners(connection: Connection, changes: Sequence[Change]) -> None:
    """Raise Refused where owned tasks are changed but for a pause, and `edits.owned` refuses that.

    The next apply would find a conflict. The setting is read only if a task is owned.
    """
    changed = (each.before for each in changes if each.before and not each.only_pauses)
    task = next(filter(is_owned, changed), None)
    setting = settings.by_name(connection, OWNED_EDITS.name) if task else None
    if task and setting and setting.value == REFUSE:
        raise Refused(
            f"{task.name} belongs to {task.source}, so it is changed there and applied: the setting"
            f" {OWNED_EDITS.name} refuses other changes"
        )


def _write_known(
    writer: TaskWriter, changes: Sequence[tuple[Change, Task | None]], rules: Rules, written: Written
) -> None:
    """Change, remove and put back tasks. One that needs the name of another comes after that one's change."""
    waiting, waits = deque(changes), 0
    while waiting:
        change, task = waiting.popleft()
        try:
            with writer.connection.begin_nested() if rules.each_alone else nullcontext():
                written.done.append(_write_one(writer, change, task, rules))
            waits = 0
        except (UsageError, Refused) as error:
            if isinstance(error, NameTaken) and waits < len(waiting):
                waiting.append((change, task))
                waits += 1
            else:
                written.problems[change.name] = error


def _write_one(writer: TaskWriter, change: Change, present: Task | None, rules: Rules) -> TaskChange:
    """Write a change. Raises UsageError or Refused."""
    writer.undoes = change.undoes
    if rules.each_alone and rules.asks_owner:
        _ask_owners(writer.connection, [change])
    after = None
    if present and change.after:
        if rules.is_checked:
            _require_valid(change, writer.now)
        after = writer.put(present, change.onto(present))
    elif present:
        writer.remove(present)
    elif change.put_back and change.after:
        after = writer.put_back(*change.put_back, change.after)
    if rules.each_alone:
        writer.require_dependencies()
    return TaskChange(present, after)


def _add(writer: TaskWriter, added: Sequence[Change], rules: Rules, written: Written) -> None:
    states = [each.after for each in added if each.after]
    if rules.restores:
        written.expired = writer.restore_many(states, {each.name: each.next for each in added})
        return
    for each in added if rules.is_checked else ():
        try:
            _require_valid(each, writer.now)
        except UsageError as error:
            written.problems[each.name] = error
    valid = [each for each in states if each.definition.name not in written.problems]
    written.done += (TaskChange(None, task) for task in writer.add_many(valid, written.problems))


def _require_valid(change: Change, now: datetime) -> None:
    """Raise UsageError for a definition that agents cannot run, or a pause that would have ended by now."""
    if change.redefines and change.definition:
        require_valid(change.definition, now, change.before)
    pause = change.after and change.after.pause
    begins = pause and change.before and change.before.enabled
    if pause and begins and pause.until and pause.until <= now:
        raise UsageError(f"--until {pause.until:%Y-%m-%dT%H:%M:%SZ} has passed; give a time to come")
