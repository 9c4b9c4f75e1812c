"""Undo changes: write the former state as a new change. The undo of that change is the redo."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron.errors import Conflict, DcronError, NotFound, Refused, UsageError
from dcron.model import LAST_RUN, Task, TaskState
from dcron.policy.history import RecordedChange
from dcron.presentation.differences import what
from dcron.schedule.effort import repeatable
from dcron.services import recorded_values, task_names
from dcron.services.changes.changeset import Change, Rules, TaskChange, lock, write_changes
from dcron.services.changes.transactions import in_transactions, rest
from dcron.services.history import batch_of
from dcron.services.service import Service
from dcron.store import changes, tasks_deleted_by_sql
from dcron.store.changes import ChangeFilter
from dcron.store.tasks import rows as tasks
from dcron.values.lists import WaitingRuns

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
                tasks_deleted_by_sql.record(connection, self.database.now(connection), [removed])

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
        others = [step for step in steps if not step.first.has_states]
        wanted = self._changes([step for step in steps if step.first.has_states], force=force)
        pages = [wanted] if others else in_transactions(wanted)
        undone = Undone([], [])
        for number, page in enumerate(pages):
            if number:
                rest()
            rules = Rules(asks_owner=False, has_dependencies=len(pages) == 1 or not dry_run)
            part = self._undo_page(page, others, rules, force=force, dry_run=dry_run)
            undone = Undone([*undone.tasks, *part.tasks], [*undone.others, *part.others])
        if not (undone.tasks or undone.others):
            raise Refused("there is nothing to undo: all is as it was before")
        return undone

    def _changes(self, steps: Sequence[Step], *, force: bool) -> list[Change]:
        """Return the changes that undo these steps of tasks. Raises LaterChanges."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            found = (self._change(connection, step, now, force=force) for step in steps)
            return [change for change in found if change]

    def _change(self, connection: Connection, step: Step, now: datetime, *, force: bool) -> Change | None:
        task_id = step.last.task_id
        assert task_id is not None
        task = tasks.by_id(connection, task_id)
        present = task.state() if task else None
        target = self._target(step.first.state_before, now)
        if _is_same(present, target):
            return None
        # Earlier versions recorded the source of an adopted task as it was before.
        owned_alike = "applied" in (step.last.after or {})
        if not force and not _is_same(present, step.last.state_after, owned_alike=owned_alike):
            raise LaterChanges(step.subject, changes.of_task_after(connection, task_id, step.last.id))
        put_back = None
        if task is None:
            last = changes.last_of_task(connection, task_id)
            put_back = task_id, ((last.version if last else None) or 1) + 1
        return Change(task, target, undoes=step.last.id, put_back=put_back)

    def _target(self, state: TaskState | None, now: datetime) -> TaskState | None:
        """Return the state to restore: a pause begins now, and one that is over by now is left out."""
        if state is None or state.pause is None:
            return state
        pause = state.pause
        is_over = pause.until is not None and pause.until <= now
        restored = None if is_over else replace(pause, by=pause.by or self.actor, at=None)
        return replace(state, pause=restored)

    @repeatable
    def _undo_page(
        self, page: Sequence[Change], others: Sequence[Step], rules: Rules, *, force: bool, dry_run: bool
    ) -> Undone:
        """Make these changes, and undo these steps of other things, in one transaction."""
        with self.database.write(keeps=not dry_run) as connection, connection.begin_nested() as savepoint:
            if any(step.first.kind == "freeze" for step in others):
                self.database.lock_out_starts(connection)
            lock(connection, self, page)
            attempt = _Others(connection, self, force=force)
            left, _ = attempt.undo(others)  # such as a calendar that is used as yet
            written = write_changes(connection, self, page, rules)
            for overtaken in written.overtaken:
                raise overtaken.error
            _, problems = attempt.undo(left)
            _require_none(problems | written.problems)
            self.database.notify(connection)
            if dry_run:
                savepoint.rollback()
        return Undone(written.done, attempt.undone)


def _require_none(problems: Mapping[str, DcronError]) -> None:
    if len(problems) > 1:
        raise Refused("\n".join(f"{name}: {error}" for name, error in problems.items()))
    for error in problems.values():
        raise error


class _Others:
    """Undoes steps of calendars, queues, settings, nodes and freezes in one transaction."""

    def __init__(self, connection: Connection, undo: Undo, *, force: bool) -> None:
        self.undone: list[RecordedChange] = []
        self._connection = connection
        self._undo = undo
        self._force = force

    def undo(self, steps: Sequence[Step]) -> tuple[list[Step], dict[str, DcronError]]:
        """Restore the states before these steps; return those that cannot be undone as yet, and why."""
        left, problems = [], dict[str, DcronError]()
        for step in steps:
            try:
                with self._connection.begin_nested():
                    self._undo_one(step)
            except (UsageError, Refused) as error:
                left.append(step)
                problems[step.subject] = error
        return left, problems

    def _undo_one(self, step: Step) -> None:
        kind, name = step.first.kind, step.subject
        target = _values(step.first.before, kind, name)
        present = recorded_values.present(self._connection, kind, name) or _values(None, kind, name)
        if present == target:
            return
        if not self._force and present != _values(step.last.after, kind, name):
            raise LaterChanges(f"{kind} {name}", ())
        recorded_values.change(self._connection, self._undo, kind, name, target, undoes=step.last.id)
        self.undone.append(step.last)


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
    return change.has_states or change.kind in recorded_values.KINDS


def _subject_key(change: RecordedChange) -> tuple[str, int | str]:
    """Return a key that all changes of one task, calendar, queue, setting, node or freeze share."""
    return change.kind, change.task_id if change.has_states and change.task_id else change.subject


def _is_same(state: TaskState | None, other: TaskState | None, *, owned_alike: bool = True) -> bool:
    return other is None if state is None else state.is_like(other, owned_alike=owned_alike)


def _values(recorded: Mapping[str, Any] | None, kind: str, name: str) -> dict[str, Any] | None:
    """Return the values in a change as `recorded_values` has them."""
    if not recorded:
        return {"max_running": None} if kind == "queue" else None
    if kind == "setting":
        return {"value": recorded[name]}
    return {key: value for key, value in recorded.items() if key != "name"}


def _as_option(change: RecordedChange) -> str:
    """Return the option of `dcron undo` that takes back this change and all of its batch."""
    return f"--batch {change.batch}" if change.batch else f"--change {change.id}"
