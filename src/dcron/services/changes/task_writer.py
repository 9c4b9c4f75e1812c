"""Write tasks inside one transaction: check them, plan their next runs, and record who changed what."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from dcron.database import Database
from dcron.errors import Conflict, DcronError, NoCalendar, NotFound, Refused, ScheduleError, UsageError
from dcron.model import Definition, Ownership, Run, Task, TaskState
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import Graph
from dcron.policy.validation import require_valid
from dcron.services.changes import dependency_rules, matching
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


class NameTaken(Refused):
    """Another task has the name."""

    def __init__(self, name: str) -> None:
        """Name it."""
        super().__init__(f"there is a task {name!r} already; choose another name", field="name")


class TaskWriter:
    """Writes tasks in the caller's transaction, on behalf of one author.

    Tasks may be written in any order. The caller has locked them and what they affect, asks for
    `dependency_problems` at the end, and rolls back if there are any.
    """

    def __init__(
        self, connection: Connection, database: Database, author: Author, *, restores: bool = False
    ) -> None:
        """Write through this connection; all changes bear the database's time of now.

        With `restores`, tasks come from a dump: those that agents cannot run are written, and suspended.
        """
        self.connection = connection
        self.now: datetime = database.now(connection)
        self.undoes: int | None = None
        """The id of the change that the following ones undo."""
        self._database = database
        self._author = author
        self._restores = restores
        self._written: dict[int, Task] = {}
        """By id, the tasks whose upstream tasks have to be checked."""
        self._freed: dict[str, None] = {}
        """The names of tasks for which no other task may wait any more."""

    def add_valid(
        self, definition: Definition, *, once: bool, numbered: bool, since: datetime | None
    ) -> AddedTask:
        """Check a definition, add it and plan its first run. Raises UsageError, or Refused for a taken name.

        With `numbered`, a taken name becomes `name-2`, `name-3` and so on. With `since`, it counts as added
        at that time.
        """
        self.now = since or self.now
        require_valid(definition, self.now)
        dependency_rules.lock_if_affected(self.connection, self._database, [(None, definition)])
        insert = partial(tasks.add, now=self.now, actor=self._author.name, once=once)
        task = insert(self.connection, self._database, definition)
        if task is None and numbered:
            definition = replace(definition, name=self._free_name(definition.name))
            require_valid(definition, self.now)  # the times of `H` and `~` depend on the name
            task = insert(self.connection, self._database, definition)
        if task is None:
            raise Refused(
                f"there is a task {definition.name!r} already;"
                " choose another name with -n, or change it with `dcron set`",
                field="name",
            )
        self._require_calendars(task, before=None)
        first_run = planning.plan_added(self.connection, task, self.now)
        audit_log.record_added(self.connection, self.now, self._author, [task])
        self._written[task.id] = task
        self.require_dependencies()
        self._database.notify(self.connection)
        return AddedTask(task, first_run)

    def _free_name(self, name: str) -> str:
        beginning = name[: matching.NUMBERED_NAME]
        taken = tasks.names_beginning(self.connection, beginning, limit=NAMES_COMPARED)
        return matching.free_name(name, set(taken))

    def add_many(self, states: Sequence[TaskState], problems: dict[str, DcronError]) -> list[Task]:
        """Add tasks with their first runs; add to `problems`, by name, what is wrong with others.

        Raises Conflict when one of the names is taken.
        """
        added: list[Task] = []
        for page in self._insert(states):
            for task in page:
                try:
                    self._require_calendars(task, before=None)
                except UsageError as error:
                    problems[task.name] = error
            valid = [task for task in page if task.name not in problems]
            self._written |= {task.id: task for task in valid}
            planning.plan_new(self.connection, valid, self.now)
            audit_log.record_added(self.connection, self.now, self._author, valid)
            added += valid
        return added

    def restore_many(
        self, states: Sequence[TaskState], next_runs: Mapping[str, datetime | None]
    ) -> list[str]:
        """Add tasks of a dump with their `next_runs`, by name; return those whose only time has passed.

        Raises IntegrityError for values that the table does not take.
        """
        expired: list[Task] = []
        for page in self._insert(states):
            expired += planning.plan_restored(self.connection, page, next_runs, self.now)
            audit_log.record_added(self.connection, self.now, self._author, page)
        return sorted(task.name for task in expired)

    def _insert(self, states: Sequence[TaskState]) -> Iterator[list[Task]]:
        """Insert tasks; yield them page by page. Raises Conflict or, for a dump, IntegrityError."""
        for start in range(0, len(states), PAGE):
            rows = [(each.definition, self._columns(each)) for each in states[start : start + PAGE]]
            try:
                with self.connection.begin_nested():
                    page = tasks.add_with_state(self.connection, rows, self.now, self._author.name)
            except IntegrityError:
                if self._restores:
                    raise
                raise Conflict("a task of one of these names was added meanwhile; repeat it") from None
            yield page

    def put(self, task: Task, state: TaskState) -> Task:
        """Give the task this state. It is planned again, unless only its owner is another.

        Raises NameTaken, and UsageError for its calendars.
        """
        present = task.state()
        if state == present:
            return task
        if replace(state, ownership=present.ownership) == present:
            return self._own(task, state.ownership)
        definition = None if state.definition == present.definition else state.definition
        self._change(task, self._columns(state), definition)
        is_owner_same = state.ownership == present.ownership
        action = ("pause" if state.pause else "resume") if not definition and is_owner_same else "set"
        settled = self._settle(task, action)
        if definition and (definition.name != task.name or definition.every_node):
            self._freed[task.name] = None
        return settled

    def _change(self, task: Task, columns: dict[str, Any], definition: Definition | None) -> None:
        name = definition.name if definition else task.name
        try:
            with self.connection.begin_nested() if name != task.name else nullcontext():
                tasks.change(self.connection, task, columns, self.now, self._author.name, definition)
        except IntegrityError:
            if name == task.name or tasks.by_name(self.connection, name) is None:
                raise
            raise NameTaken(name) from None

    def _own(self, task: Task, ownership: Ownership) -> Task:
        tasks.set_ownership(self.connection, task, ownership)
        owned = replace(task, **ownership._asdict())
        self._record("set", before=task, after=owned)
        return owned

    def put_back(self, task_id: int, version: int, state: TaskState) -> Task:
        """Add a removed task again under its id. Raises NameTaken or UsageError.

        Its next run is the first one from now on: what it missed stays missed.
        """
        task = tasks.put_back(
            self.connection,
            self._database,
            task_id,
            version,
            state.definition,
            self._columns(state),
            self.now,
            self._author.name,
        )
        if task is None:
            raise NameTaken(state.definition.name)
        self._require_calendars(task, before=task)
        planning.plan(self.connection, task, self.now)
        added = tasks.by_id(self.connection, task_id)
        assert added
        self._record("add", before=None, after=added)
        self._written[task_id] = added
        return added

    def _columns(self, state: TaskState) -> dict[str, Any]:
        """Return the columns beside the definition. A pause without a begin begins now."""
        begins = state.pause is not None and state.pause.at is None
        return state.columns() | ({"paused_at": self.now} if begins else {})

    def remove(self, task: Task) -> None:
        """Remove the task; its waiting runs are skipped."""
        tasks.remove(self.connection, task)
        planning.withdraw(self.connection, task, self.now, self._author.name)
        self._record("rm", before=task)
        self._freed[task.name] = None
        self._written.pop(task.id, None)

    def conflict(self, task: Task) -> Conflict | NotFound:
        """Return the error for a task that was changed or removed since it was read: by whom, and when."""
        last = changes.last_of_task(self.connection, task.id)
        who = f"{last.author}, {last.at:%Y-%m-%dT%H:%M:%SZ}, {last.action}" if last else "by an unknown user"
        if tasks.by_id(self.connection, task.id) is None:
            return NotFound(f"{task.name} was removed meanwhile ({who})")
        return Conflict(f"{task.name} was changed meanwhile ({who}); look at it again and repeat your change")

    def require_dependencies(self) -> None:
        """Raise ScheduleError or Refused if what was written has broken a dependency."""
        for error in self.dependency_problems().values():
            raise error

    def dependency_problems(self) -> dict[str, DcronError]:
        """Return, by name, what is wrong with dependencies that were written since the last call."""
        written, freed = list(self._written.values()), list(self._freed)
        self._written, self._freed = {}, {}
        problems: dict[str, DcronError] = {}
        graphs: dict[str, Graph] = {}
        for each in written:
            if problem := dependency_rules.problem_of(self.connection, each, graphs):
                problems[each.name] = ScheduleError(problem)
        present = {task.name: task for task in tasks.by_names(self.connection, freed)}
        for name in freed:
            if (task := present.get(name)) is None or task.every_node:
                try:
                    dependency_rules.require_no_downstream(self.connection, name)
                except Refused as error:
                    problems.setdefault(name, error)
        return problems

    def _settle(self, before: Task, action: str) -> Task:
        """Plan the task as it now is, and record who changed it."""
        task = tasks.by_id(self.connection, before.id)
        assert task
        # Not at a pause: a task whose calendars are gone, or that waits for itself, may be paused.
        is_checked = before.definition() != task.definition() and not self._restores
        if is_checked:
            self._require_calendars(task, before)
        planning.plan(self.connection, task, self.now)
        if task.enabled and not before.enabled:
            planning.record_paused(self.connection, before, self.now)
        self._record("restore" if self._restores else action, before=before, after=task)
        settled = tasks.by_id(self.connection, before.id)
        assert settled
        if is_checked:
            self._written[task.id] = settled
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


def _calendars_of(definition: Definition) -> tuple[str | None, str | None]:
    return definition.except_calendar, definition.only_calendar
