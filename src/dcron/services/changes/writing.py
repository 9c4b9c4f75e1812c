"""Write tasks inside one transaction: check them, plan their next runs, and record who changed what."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from dcron.database import Database
from dcron.errors import Conflict, NoCalendar, NotFound, Refused, ScheduleError, UsageError
from dcron.model import Definition, Run, Task
from dcron.policy.history import TaskState
from dcron.policy.ownership import Ownership, ownership_of
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import Graph
from dcron.policy.validation import require_valid
from dcron.services.changes import dependency_rules
from dcron.services.changes import matching as sources
from dcron.store import audit_log, changes
from dcron.store.audit_log import Author
from dcron.store.planning import planning
from dcron.store.tasks import rows as tasks

PAGE = 500
NAMES_COMPARED = 100_000


@dataclass(frozen=True)
class AddedTask:
    """A new task, and its first run if it has one."""

    task: Task
    first_run: Run | None


class TaskWriter:
    """Writes tasks in the caller's transaction, on behalf of one author.

    The caller has called `dependency_rules.lock_if_affected` before.
    """

    def __init__(
        self, connection: Connection, database: Database, author: Author, *, postpones: bool = False
    ) -> None:
        """Write through this connection; all changes bear the database's time of now.

        With `postpones`, tasks may be written in any order: the caller asks for `dependency_problems` at the
        end, and rolls back if there are any.
        """
        self.connection = connection
        self.now: datetime = database.now(connection)
        self._database = database
        self.undoes: int | None = None
        """The id of the change that the following ones undo."""
        self._author = author
        self._actor = author.name
        self._postpones = postpones
        self._postponed: set[int] = set()
        """The ids of tasks whose upstream tasks have to be checked."""
        self._freed: dict[str, None] = {}
        """The names of tasks for which no other task may wait any more."""

    def add_valid(
        self, definition: Definition, *, once: bool, numbered: bool, since: datetime | None
    ) -> AddedTask:
        """Check the definition and add it, like `add`. With `since`, it counts as added at that time."""
        self.now = since or self.now
        require_valid(definition, self.now)
        dependency_rules.lock_if_affected(self.connection, self._database, [(None, definition)])
        return self.add(definition, once=once, numbered=numbered)

    def add(self, definition: Definition, *, once: bool = False, numbered: bool = False) -> AddedTask:
        """Add a task and plan its first run. Raises UsageError, or Refused when the name is taken.

        With `numbered`, a taken name becomes `name-2`, `name-3` and so on.
        """
        task = self._insert(definition, once)
        if task is None and numbered:
            definition = replace(definition, name=self.free_name(definition.name))
            require_valid(definition, self.now)  # the times of `H` and `~` depend on the name
            task = self._insert(definition, once)
        if task is None:
            raise Refused(
                f"there is a task {definition.name!r} already;"
                " choose another name with -n, or change it with `dcron set`",
                field="name",
            )
        self._require_calendars(task, before=None)
        first_run = planning.plan_added(self.connection, task, self.now)
        audit_log.record_added(self.connection, self.now, self._author, [task])
        self._require_dependencies(task)
        self._database.notify(self.connection)
        return AddedTask(task, first_run)

    def _insert(self, definition: Definition, once: bool) -> Task | None:
        return tasks.add(self.connection, self._database, definition, self.now, self._actor, once=once)

    def add_many(
        self, definitions: Sequence[Definition], ownership: Callable[[Definition], Ownership]
    ) -> dict[str, str]:
        """Add tasks with their first runs, a page at a time. Return, by name, what is wrong with which.

        Raises Conflict when one of the names is taken.
        """
        problems: dict[str, str] = {}
        for start in range(0, len(definitions), PAGE):
            try:
                with self.connection.begin_nested():
                    page = [(each, ownership(each)._asdict()) for each in definitions[start : start + PAGE]]
                    written = tasks.add_with_state(self.connection, page, self.now, self._actor)
            except IntegrityError:
                raise Conflict("a task of one of these names was added meanwhile; repeat it") from None
            for task in written:
                try:
                    self._require_calendars(task, before=None)
                except UsageError as error:
                    problems[task.name] = str(error)
            valid = [task for task in written if task.name not in problems]
            self._postponed.update(task.id for task in valid)
            planning.plan_new(self.connection, valid, self.now)
            audit_log.record_added(self.connection, self.now, self._author, valid)
        # Only now: a task may run after one that is added later in this batch.
        if not self._postpones:
            valid_ones = [each for each in definitions if each.name not in problems]
            self._require_upstream(valid_ones, problems)
        self._database.notify(self.connection)
        return problems

    def replace(self, task: Task, definition: Definition, ownership: Ownership | None = None) -> Task:
        """Give the task this definition and plan it again. With `ownership`, say whose it is, too.

        Raises UsageError, Refused when a new name is taken or other tasks need the old one, and Conflict when
        the task is no longer as it was read.
        """
        if definition == task.definition():
            return self.set_ownership(task, ownership) if ownership else task
        state = ownership._asdict() if ownership else None
        try:
            with self.connection.begin_nested():
                replaced = tasks.replace(self.connection, task, definition, self.now, self._actor, state)
        except IntegrityError:
            if definition.name == task.name or tasks.by_name(self.connection, definition.name) is None:
                raise
            raise _name_taken(definition.name) from None
        if not replaced:
            raise self.conflict(task)
        if definition.name != task.name or definition.every_node:
            self._require_no_downstream(task)
        return self._settle(task, "set")

    def set_ownership(self, task: Task, ownership: Ownership) -> Task:
        """Say whose the task is. Raises Conflict when it is no longer as it was read."""
        if ownership == ownership_of(task):
            return task
        if not tasks.set_ownership(self.connection, task, ownership):
            raise self.conflict(task)
        owned = replace(task, **ownership._asdict())
        self._record("set", before=task, after=owned)
        return owned

    def revert(self, task: Task, state: TaskState) -> Task:
        """Give the task a former state, with its pause. Raises as `replace` does."""
        require_valid(state.definition, self.now, task)
        renamed = state.definition.name != task.name
        if renamed and tasks.by_name(self.connection, state.definition.name):
            raise _name_taken(state.definition.name)
        columns = self._pause(state) | state.ownership._asdict()
        if not tasks.replace(self.connection, task, state.definition, self.now, self._actor, columns):
            raise self.conflict(task)
        if renamed or state.definition.every_node:
            self._require_no_downstream(task)
        if state.definition != task.definition() or state.ownership != ownership_of(task):
            action = "set"
        else:
            action = "pause" if state.pause else "resume"
        reverted = self._settle(task, action)
        if not task.enabled and reverted.enabled:
            planning.record_paused(self.connection, task, self.now)
        return reverted

    def put_back(self, task_id: int, state: TaskState, version: int) -> Task:
        """Add a removed task again under its id. Raises Refused if its name is taken, or UsageError.

        Its next run is the first one from now on: what it missed stays missed.
        """
        task = tasks.put_back(
            self.connection,
            self._database,
            task_id,
            version,
            state.definition,
            {"once": state.once, **state.ownership._asdict(), **self._pause(state)},
            self.now,
            self._actor,
        )
        if task is None:
            raise _name_taken(state.definition.name)
        self._require_calendars(task, before=task)
        planning.plan(self.connection, task, self.now)
        self._require_dependencies(task)
        added = tasks.by_id(self.connection, task_id)
        assert added
        self._record("add", before=None, after=added)
        return added

    def _pause(self, state: TaskState) -> dict[str, Any]:
        """Return the columns of a pause. It begins now."""
        pause = state.pause
        return {
            "enabled": pause is None,
            "paused_reason": pause.reason if pause else None,
            "paused_by": (pause.by or self._actor) if pause else None,
            "paused_at": self.now if pause else None,
            "paused_until": pause.until if pause else None,
        }

    def remove(self, task: Task, removed: Collection[str] = ()) -> None:
        """Remove the task; its waiting runs are skipped.

        `removed` are the names of all tasks that this transaction removes. Raises Refused while other tasks
        run after this one, and Conflict when it is no longer as it was read.
        """
        self._require_no_downstream(task, removed)
        if not tasks.remove(self.connection, task):
            raise self.conflict(task)
        planning.withdraw(self.connection, task, self.now, self._actor)
        self._record("rm", before=task)

    def pause(self, task: Task, reason: str | None, until: datetime | None) -> Task:
        """Pause the task.

        Raises Refused where it is paused already, UsageError where `until` has passed, or Conflict.
        """
        if not task.enabled:
            because = f": {task.paused_reason}" if task.paused_reason else ""
            raise Refused(f"{task.name} is paused already{because}")
        if until and until <= self.now:
            raise UsageError(f"--until {until:%Y-%m-%dT%H:%M:%SZ} has passed; give a time to come")
        values: dict[str, Any] = {"enabled": False, "paused_reason": reason, "paused_by": self._actor}
        values |= {"paused_at": self.now, "paused_until": until}
        return self._change(task, values, "pause")

    def resume(self, task: Task) -> Task:
        """End the pause, and record what it missed in one skipped run. Raises Refused or Conflict."""
        if task.enabled:
            raise Refused(f"{task.name} is not paused")
        columns = ("paused_reason", "paused_by", "paused_at", "paused_until")
        resumed = self._change(task, {"enabled": True, **dict.fromkeys(columns)}, "resume")
        planning.record_paused(self.connection, task, self.now)
        return resumed

    def conflict(self, task: Task) -> Conflict | NotFound:
        """Return the error for a task that was changed or removed since it was read: by whom, and when."""
        last = changes.last_of_task(self.connection, task.id)
        who = f"{last.author}, {last.at:%Y-%m-%dT%H:%M:%SZ}, {last.action}" if last else "by an unknown user"
        if tasks.by_id(self.connection, task.id) is None:
            return NotFound(f"{task.name} was removed meanwhile ({who})")
        return Conflict(f"{task.name} was changed meanwhile ({who}); look at it again and repeat your change")

    def free_name(self, name: str) -> str:
        """Return the name, or if it is taken the first free one of `name-2`, `name-3` and so on."""
        beginning = name[: sources.NUMBERED_NAME]
        taken = tasks.names_beginning(self.connection, beginning, limit=NAMES_COMPARED)
        return sources.free_name(name, set(taken))

    def dependency_problems(self) -> dict[str, str]:
        """Return, by name, what is wrong with the dependencies that a writer with `postpones` has changed."""
        problems: dict[str, str] = {}
        self._require_upstream(tasks.by_ids(self.connection, self._postponed), problems)
        freed = list(self._freed)
        present = {task.name: task for task in tasks.by_names(self.connection, freed)}
        for name in freed:
            if (task := present.get(name)) is None or task.every_node:
                try:
                    dependency_rules.require_no_downstream(self.connection, name)
                except Refused as error:
                    problems.setdefault(name, str(error))
        return problems

    def _require_dependencies(self, task: Task) -> None:
        """Raise ScheduleError where the task waits for a missing task, or for itself."""
        if self._postpones:
            self._postponed.add(task.id)
        elif problem := dependency_rules.problem_of(self.connection, task):
            raise ScheduleError(problem)

    def _require_no_downstream(self, task: Task, removed: Collection[str] = ()) -> None:
        """Raise Refused while tasks run after this one that is renamed, removed, or on every node now."""
        if self._postpones:
            self._freed[task.name] = None
        else:
            dependency_rules.require_no_downstream(self.connection, task.name, removed)

    def _require_upstream(self, written: Sequence[Definition], problems: dict[str, str]) -> None:
        """Add to `problems`, by name, what is wrong with the upstream tasks of these tasks."""
        graphs: dict[str, Graph] = {}
        for each in written:
            if problem := dependency_rules.problem_of(self.connection, each, graphs):
                problems[each.name] = problem

    def _change(self, task: Task, values: dict[str, Any], action: str) -> Task:
        if not tasks.change(self.connection, task, values, self.now, self._actor):
            raise self.conflict(task)
        return self._settle(task, action)

    def _settle(self, before: Task, action: str) -> Task:
        """Plan the task as it now is, and record who changed it."""
        task = tasks.by_id(self.connection, before.id)
        assert task
        # Not at a pause: a task whose calendars are gone, or that waits for itself, may be paused.
        is_changed = before.definition() != task.definition()
        if is_changed:
            self._require_calendars(task, before)
        planning.plan(self.connection, task, self.now)
        if is_changed:
            self._require_dependencies(task)
        self._record(action, before=before, after=task)
        self._database.notify(self.connection)
        settled = tasks.by_id(self.connection, before.id)
        assert settled
        return settled

    def _record(self, action: str, *, before: Task | None, after: Task | None = None) -> None:
        """Record the change, and before it one with plain SQL that no agent has planned yet."""
        if before and before.planned_version != before.version:
            audit_log.record_sql_edits(self.connection, self.now, [before])
        audit_log.record(
            self.connection,
            self.now,
            self._author,
            action,
            before=before,
            after=after,
            undoes=self.undoes,
        )

    def _require_calendars(self, task: Task, before: Task | None) -> None:
        """Raise UsageError unless the task's calendars exist and leave it an occurrence."""
        for field, name, content in (
            ("except_calendar", task.except_calendar, task.except_content),
            ("only_calendar", task.only_calendar, task.only_content),
        ):
            if name and content is None:
                text = f"there is no calendar {name!r}; `dcron calendar list` shows what there is"
                raise NoCalendar(text, field=field)
        if (task.except_calendar or task.only_calendar) and not occurrences.has_ended(task, self.now):
            as_before = before and _calendars_of(before) == _calendars_of(task)
            try:
                require_valid(task, self.now, before if as_before else None)
            except ScheduleError as error:  # its schedule alone is valid: that was checked before
                named = " and ".join(filter(None, (task.except_calendar, task.only_calendar)))
                raise ScheduleError(f"{error} (calendar {named})") from None


def _name_taken(name: str) -> Refused:
    return Refused(f"there is a task {name!r} already; choose another name", field="name")


def _calendars_of(definition: Definition) -> tuple[str | None, str | None]:
    return definition.except_calendar, definition.only_calendar
