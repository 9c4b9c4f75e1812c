"""Undo changes: write the former state as a new change. The undo of that change is the redo."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron.errors import Conflict, NotFound, Refused, UsageError
from dcron.model import LAST_RUN, Definition, StoredCalendar, Task
from dcron.policy.history import RecordedChange, TaskState, state_of
from dcron.presentation.differences import what
from dcron.schedule.effort import repeatable
from dcron.services import task_names
from dcron.services.changes import dependency_rules
from dcron.services.changes.text_edits import TaskChange
from dcron.services.changes.transactions import in_transactions, rest
from dcron.services.changes.writing import TaskWriter
from dcron.services.history import batch_of
from dcron.services.service import Service
from dcron.store import audit_log, changes, freezes, sql_deletions
from dcron.store.changes import ChangeFilter
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import calendars, queues, settings
from dcron.store.tasks import rows as tasks
from dcron.values.lists import WaitingRuns

OTHERS = ("calendar", "queue", "setting", "node", "freeze")
"""Kinds that can be undone beside tasks."""
BACKFILL = "backfill"


class LaterChanges(Conflict):
    """Later changes would be lost."""

    def __init__(self, subject: str, later: Sequence[RecordedChange]) -> None:
        """`later` is empty if the change is not on record, such as one with plain SQL."""
        self.reason = f"{subject} was changed since then"
        super().__init__(f"{self.reason}; --force undoes it all the same")
        self.later = later


class AlreadyUndone(Refused):
    """The change or batch is undone already. A second undo is not a redo, because a script may run twice."""


@dataclass(frozen=True)
class Step:
    """The undo of all changes of one task, calendar, queue, setting, node or freeze in a batch."""

    first: RecordedChange
    """The earliest of these changes; its state before is restored."""
    last: RecordedChange
    """The latest; its state after is expected."""

    @property
    def subject(self) -> str:
        """The name of the restored task, calendar and so on."""
        return self.first.subject


@dataclass(frozen=True)
class Undone:
    """The changes that were undone, or would be."""

    tasks: Sequence[TaskChange]
    others: Sequence[RecordedChange]
    """The changes of calendars, queues, settings, nodes and freezes that were undone."""


class Undo(Service):
    """Undoes changes. A batch is undone wholly or not at all."""

    # What to undo -----------------------------------------------------------------------------------

    def last_of(self, name: str) -> list[RecordedChange]:
        """Return the latest change of a task of exactly this name, which may be removed.

        Raises NotFound, and AlreadyUndone if that change is an undo.
        """
        self._record_deletion(name)
        with self.database.read() as connection:
            removed = task_names.removed_id(connection, name)
            task_id = task_names.exact(connection, name).id if removed is None else removed
            last = changes.last_of_task(connection, task_id)
            newest = changes.page(connection, ChangeFilter(task_id, name), 1, None)
        if last is None:
            raise NotFound(f"no change of {name} is on record")
        if newest and newest[0].id > last.id:
            raise Refused(_no_change_of_a_task(name, newest[0], last))
        if last.undoes is not None:
            redo = f"`dcron undo --change {last.id}` is the redo"
            raise AlreadyUndone(f"the last change of {name} is an undo already; {redo}")
        return [last]

    def _record_deletion(self, name: str) -> None:
        """Record the deletion of this task if it was made with plain SQL and no agent has noticed it yet."""
        with self.database.read() as connection:
            removed = task_names.removed_id(connection, name)
        if removed is not None:
            with self.database.write() as connection:
                sql_deletions.record(connection, self.database.now(connection), [removed])

    def change(self, change_id: int) -> list[RecordedChange]:
        """Return this change; if it was redone, the change that has redone it.

        Raises NotFound, and AlreadyUndone.
        """
        with self.database.read() as connection:
            found = changes.by_id(connection, min(change_id, LAST_RUN))
            if found is None:
                raise NotFound(f"there is no change {change_id}; `dcron history` shows the changes")
            last = _last_undos(connection, [found])[found.id]
        if last.is_undo:
            redo = f"`dcron undo --change {last.change.id}` is the redo"
            raise AlreadyUndone(f"change {found.id} is undone already; {redo}")
        return [last.change]

    def batch(self, text: str) -> list[RecordedChange]:
        """Return the changes of this batch that are not undone; if some were redone, those that redid them.

        Raises NotFound, and AlreadyUndone.
        """
        with self.database.read() as connection:
            batch = batch_of(connection, text)
            by_subject = defaultdict[object, list[RecordedChange]](list)
            for change in changes.of_batch(connection, batch):
                by_subject[_subject_key(change)].append(change)
            lasts = _last_undos(connection, [each[-1] for each in by_subject.values()])
        left: list[RecordedChange] = []
        for of_subject in by_subject.values():
            last = lasts[of_subject[-1].id]
            if not last.is_undo:
                left += of_subject if last.change is of_subject[-1] else [last.change]
        if not left:
            redo = " and ".join(
                sorted({f"`dcron undo {_as_option(last.change)}`" for last in lasts.values()})
            )
            raise AlreadyUndone(f"batch {batch} is undone already; {redo} is the redo")
        return sorted(left, key=lambda each: each.id)

    def backfilled(self, found: Sequence[RecordedChange]) -> tuple[Task, WaitingRuns] | None:
        """Return the task and the waiting runs of a backfill; None if these changes are no backfill.

        Raises NotFound if the task was removed, and Refused if the change does not say which runs it made.
        """
        if any(change.action != BACKFILL for change in found):
            return None
        change = found[-1]
        made = change.after or {}
        if "first_run" not in made:
            raise Refused(
                f"change {change.id} does not say which runs it made: it is of an earlier version;"
                f" `dcron cancel {change.subject}` cancels all that wait"
            )
        with self.database.read() as connection:
            task = tasks.by_id(connection, change.task_id or 0)
            if task is None:
                raise NotFound(f"{change.subject} was removed, and its waiting runs with it")
            now = self.database.now(connection)
        return task, WaitingRuns(task.id, now, (made["first_run"], made["last_run"]))

    def last_act(self, batches: Sequence[str]) -> tuple[str, list[RecordedChange]]:
        """Return the last of these batches that is neither an undo nor undone, and its changes to undo.

        Raises Refused if there is none.
        """
        has_undone = False
        for batch in reversed(batches):
            with self.database.read() as connection:
                made = changes.of_batch(connection, batch)
            if not made or not all(each.undoes is None and _can_undo(each) for each in made):
                continue
            try:
                return batch, self.batch(batch)
            except AlreadyUndone:
                has_undone = True
        if has_undone:
            raise AlreadyUndone(
                "nothing to undo: all of your acts here are undone; undo the undo to redo one"
            )
        raise Refused("nothing to undo: you have changed nothing here")

    # Undo -------------------------------------------------------------------------------------------

    def check(self, found: Sequence[RecordedChange], *, force: bool = False) -> Undone:
        """Return what undoing these changes would do. Raises as `undo` does."""
        return self._undo(found, force=force, dry_run=True)

    def undo(self, found: Sequence[RecordedChange], *, force: bool = False) -> Undone:
        """Undo these changes, the oldest first in `found`, in reverse order.

        Many changes of tasks are undone in several transactions: `check` them before.

        Raises LaterChanges if later changes would be lost, unless with `force`; Refused if a change cannot be
        undone, or if all is as it was before; UsageError for a task that is no longer valid.
        """
        return self._undo(found, force=force, dry_run=False)

    def _undo(self, found: Sequence[RecordedChange], *, force: bool, dry_run: bool) -> Undone:
        steps = list(_steps(found))
        only_tasks = all(step.first.has_states for step in steps)
        pages = in_transactions(steps, _states_of) if only_tasks else [steps]
        undone = Undone([], [])
        for number, page in enumerate(pages):
            if number:
                rest()
            part = self._undo_page(page, force=force, dry_run=dry_run, is_alone=len(pages) == 1)
            undone = Undone([*undone.tasks, *part.tasks], [*undone.others, *part.others])
        if not (undone.tasks or undone.others):
            raise Refused("there is nothing to undo: all is as it was before")
        return undone

    @repeatable
    def _undo_page(self, steps: Sequence[Step], *, force: bool, dry_run: bool, is_alone: bool) -> Undone:
        """Undo these steps in one transaction.

        The dependencies of a page that is tried are not checked, unless it is alone: others change them, too.
        """
        with self.database.write(keeps=not dry_run) as connection, connection.begin_nested() as savepoint:
            undone = self._write(connection, steps, force=force, checks=is_alone or not dry_run)
            if dry_run:
                savepoint.rollback()
        return undone

    def _write(self, connection: Connection, steps: Sequence[Step], *, force: bool, checks: bool) -> Undone:
        if any(step.first.kind == "freeze" for step in steps):
            self.database.lock_out_starts(connection)
        self._lock(connection, steps)
        attempt = _Attempt(connection, self, force=force)
        left, problems = list(steps), dict[str, UsageError | Refused]()
        for _ in steps:
            left, tried, problems = [], left, {}
            for step in tried:
                try:
                    with connection.begin_nested():
                        attempt.undo(step)
                except (UsageError, Refused) as error:  # it may need another step to be done first
                    left.append(step)
                    problems[step.subject] = error
            if not left or len(left) == len(tried):
                break
        if checks:
            problems |= {name: Refused(text) for name, text in attempt.dependency_problems().items()}
        if len(problems) == 1:
            raise next(iter(problems.values()))
        if problems:
            raise Refused("\n".join(f"{name}: {error}" for name, error in problems.items()))
        self.database.notify(connection)
        return Undone(attempt.tasks, attempt.others)

    def _lock(self, connection: Connection, steps: Sequence[Step]) -> None:
        ids = sorted({step.first.task_id for step in steps if step.first.task_id is not None})
        present = {task.id: task for task in tasks.by_ids(connection, ids)}
        targets = [(step.first.task_id, step.first.state_before) for step in steps if step.first.has_states]
        pairs = [
            (present.get(task_id or 0), target.definition if target else None) for task_id, target in targets
        ]
        dependency_rules.lock_if_affected(connection, self.database, pairs)
        tasks.lock(connection, ids)


class _Attempt:
    """Undoes steps in one transaction."""

    def __init__(self, connection: Connection, undo: Undo, *, force: bool) -> None:
        self.tasks: list[TaskChange] = []
        self.others: list[RecordedChange] = []
        self._connection = connection
        self._undo = undo
        self._force = force
        self._writer = TaskWriter(connection, undo.database, undo.author, postpones=True)

    def undo(self, step: Step) -> None:
        """Restore the state before the step. Raises LaterChanges, Refused or UsageError."""
        self._writer.undoes = step.last.id
        if step.first.has_states:
            if change := self._undo_task(step):
                self.tasks.append(change)
        elif self._undo_other(step):
            self.others.append(step.last)

    def dependency_problems(self) -> dict[str, str]:
        """Return, by name, what would be wrong with the dependencies of these tasks."""
        return self._writer.dependency_problems()

    def _undo_task(self, step: Step) -> TaskChange | None:
        task_id = step.last.task_id
        assert task_id is not None
        task = tasks.by_id(self._connection, task_id)
        present = state_of(task) if task else None
        target = _without_past_pause(step.first.state_before, self._writer.now)
        if _is_same(present, target):
            return None
        # Earlier versions recorded the source of an adopted task as it was before.
        owned_alike = "applied" in (step.last.after or {})
        if not self._force and not _is_same(present, step.last.state_after, owned_alike=owned_alike):
            later = changes.of_task_after(self._connection, task_id, step.last.id)
            raise LaterChanges(step.subject, later)
        if target is None:
            assert task
            self._writer.remove(task)
            return TaskChange(task, None)
        if task is None:
            last = changes.last_of_task(self._connection, task_id)
            version = (last.version if last else None) or 1
            return TaskChange(None, self._writer.put_back(task_id, target, version + 1))
        return TaskChange(task, self._writer.revert(task, target))

    def _undo_other(self, step: Step) -> bool:
        """Restore a calendar, a queue, a setting, a node or a freeze; return whether it was different."""
        kind, name = step.first.kind, step.subject
        target = _values(step.first.before, kind, name)
        present = _present(self._connection, kind, name)
        if present == target:
            return False
        if not self._force and present != _values(step.last.after, kind, name):
            raise LaterChanges(f"{kind} {name}", ())
        write = _WRITERS[kind]
        write(self, name, target)
        self._record_other(step, present, target)
        return True

    def _record_other(
        self, step: Step, present: Mapping[str, Any] | None, target: Mapping[str, Any] | None
    ) -> None:
        connection, now, author = self._connection, self._writer.now, self._undo.author
        kind, name, undoes = step.first.kind, step.subject, step.last.id
        if kind == "setting":
            before, after = (values and values["value"] for values in (present, target))
            audit_log.record_setting(connection, now, author, name, before, after, undoes=undoes)
            return
        action = "rm" if target is None else "add" if present is None else "set"
        if kind == "node":
            action = "drain" if target and target["draining"] else "undrain"
        if kind == "freeze":
            action = "freeze" if target else "thaw"
        audit_log.record_other(
            connection, now, author, kind, action, name, before=present, after=target, undoes=undoes
        )

    def _write_calendar(self, name: str, values: Mapping[str, Any] | None) -> None:
        if values is not None:
            calendars.put(
                self._connection,
                StoredCalendar(
                    name=name,
                    content=values["content"],
                    changed_at=self._writer.now,
                    changed_by=self._undo.actor,
                ),
            )
            return
        if using := calendars.users(self._connection, name, 1):
            raise Refused(f"calendar {name} is used by {using[0]}; change this task first")
        calendars.remove(self._connection, name)

    def _write_queue(self, name: str, values: Mapping[str, Any] | None) -> None:
        assert values
        queues.put(self._connection, name, values["max_running"], self._writer.now, self._undo.actor)

    def _write_setting(self, name: str, values: Mapping[str, Any] | None) -> None:
        if values is None:
            settings.remove(self._connection, name)
        else:
            settings.put(self._connection, name, values["value"], self._writer.now, self._undo.actor)

    def _write_node(self, name: str, values: Mapping[str, Any] | None) -> None:
        if not nodes.is_alive(self._connection, name):
            raise Refused(f"node {name} is gone")
        nodes.drain(self._connection, name, draining=bool(values and values["draining"]))

    def _write_freeze(self, name: str, values: Mapping[str, Any] | None) -> None:
        freeze = freezes.by_name(self._connection, name)
        if freeze is None:
            raise Refused(f"{name} is gone")
        if values is None:
            freezes.thaw(self._connection, [freeze.id], self._writer.now, self._undo.actor)
        elif freeze.until_at is not None and freeze.until_at <= self._writer.now:
            raise Refused(f"{name} would be over by now")
        else:
            freezes.reopen(self._connection, freeze.id)


_WRITERS = {
    "calendar": _Attempt._write_calendar,
    "queue": _Attempt._write_queue,
    "setting": _Attempt._write_setting,
    "node": _Attempt._write_node,
    "freeze": _Attempt._write_freeze,
}


@dataclass(frozen=True)
class _LastUndo:
    """The last link of a chain: a change, its undo, the undo of that undo, and so on."""

    change: RecordedChange
    is_undo: bool = False
    """Whether the first change is undone: the change itself is no undo, and neither is a redo."""


def _last_undos(connection: Connection, found: Iterable[RecordedChange]) -> dict[int, _LastUndo]:
    """Return the last undo or redo of each of these changes, or the change itself, by their ids."""
    lasts = {each.id: _LastUndo(each) for each in found}
    ids = {each: each for each in lasts}
    while ids:
        undos = changes.undos_of(connection, list(ids))
        for undone, undo in undos.items():
            lasts[ids[undone]] = _LastUndo(undo, not lasts[ids[undone]].is_undo)
        ids = {undo.id: ids[undone] for undone, undo in undos.items()}
    return lasts


def _states_of(step: Step) -> tuple[Definition | None, Definition | None]:
    """Return the task as it is, and as it becomes."""
    before, after = step.last.state_after, step.first.state_before
    return before.definition if before else None, after.definition if after else None


def _steps(found: Sequence[RecordedChange]) -> Iterator[Step]:
    """Yield one step for each task and so on, the latest first. Raises Refused for what cannot be undone."""
    steps: dict[tuple[str, int | str], Step] = {}
    for change in sorted(found, key=lambda each: each.id):
        if change.action == "retire":
            raise Refused(f"{change.subject} was a one-off whose run has succeeded; add it again")
        if not _can_undo(change):
            raise Refused(f"change {change.id} ({change.action}) cannot be undone: it is no change of a task")
        key = _subject_key(change)
        steps[key] = replace(steps[key], last=change) if key in steps else Step(change, change)
    yield from sorted(steps.values(), key=lambda step: -step.last.id)


def _no_change_of_a_task(name: str, newest: RecordedChange, last: RecordedChange) -> str:
    """Return why the last entry of a task's history cannot be undone, and what can be."""
    instead = f"`dcron undo --change {last.id}` undoes the change before it ({what(last)})"
    if newest.action == BACKFILL:
        instead = f"`dcron undo --change {newest.id}` cancels what waits of it, and {instead}"
    return (
        f"the last entry of {name} is change {newest.id} ({what(newest)}), which is no change of the task;"
        f" nothing was done; {instead}"
    )


def _can_undo(change: RecordedChange) -> bool:
    return change.has_states or change.kind in OTHERS


def _subject_key(change: RecordedChange) -> tuple[str, int | str]:
    """Return a key that all changes of one task, calendar, queue, setting, node or freeze share."""
    return change.kind, change.task_id if change.has_states and change.task_id else change.subject


def _is_same(state: TaskState | None, other: TaskState | None, *, owned_alike: bool = True) -> bool:
    return other is None if state is None else state.is_like(other, owned_alike=owned_alike)


def _without_past_pause(state: TaskState | None, now: datetime) -> TaskState | None:
    """Return the state; a pause that has ended by now is left out."""
    if state and state.pause and state.pause.until and state.pause.until <= now:
        return replace(state, pause=None)
    return state


def _values(recorded: Mapping[str, Any] | None, kind: str, name: str) -> dict[str, Any] | None:
    """Return the values in a change as `_present` has them."""
    if not recorded:
        return {"max_running": None} if kind == "queue" else None
    if kind == "setting":
        return {"value": recorded[name]}
    return {key: value for key, value in recorded.items() if key != "name"}


def _present(connection: Connection, kind: str, name: str) -> dict[str, Any] | None:
    """Return the present values of a calendar, queue, setting, node or freeze; None if there are none."""
    if kind == "setting":
        setting = settings.by_name(connection, name)
        return {"value": setting.value} if setting else None
    if kind == "calendar":
        calendar = calendars.by_name(connection, name)
        return {"content": calendar.content} if calendar else None
    if kind == "freeze":
        freeze = freezes.by_name(connection, name)
        return freezes.values_of(freeze) if freeze and freeze.thawed_at is None else None
    if kind == "queue":
        return {"max_running": queues.limits(connection).get(name)}
    draining = nodes.is_draining(connection, name)
    return None if draining is None else {"draining": draining}


def _as_option(change: RecordedChange) -> str:
    """Return the option of `dcron undo` that takes back this change and all of its batch."""
    return f"--batch {change.batch}" if change.batch else f"--change {change.id}"
