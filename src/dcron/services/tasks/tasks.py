"""Read and change the tasks of a crontab: list, view, add, edit, remove, pause, resume and import them."""

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from dcron.errors import NotFound, UsageError
from dcron.model import Definition, Task
from dcron.policy.selectors import NamedTasks, Selector, is_pattern
from dcron.policy.validation import require_valid
from dcron.schedule.effort import repeatable
from dcron.services import task_names
from dcron.services.changes.changeset import (
    TOGETHER,
    Change,
    Rules,
    Written,
    edited,
    paused,
    resumed,
    write_changes,
)
from dcron.services.changes.imported import Import, Imported, NotAgreed
from dcron.services.changes.task_writer import TaskWriter
from dcron.services.changes.transactions import each_alone
from dcron.services.service import Service
from dcron.services.tasks import rows as task_rows
from dcron.services.tasks.rows import TaskRow
from dcron.store import listings, selectors
from dcron.store.planning import dependencies, planning
from dcron.store.tasks import rows as tasks
from dcron.values.lists import Term

PAGE = 500
COUNTED = 100
"""Most tasks of one minute that are counted; more make no difference."""


class Tasks(Service):
    """The tasks of a crontab."""

    # Read -------------------------------------------------------------------------------------------

    def names(self, beginning: str, limit: int) -> list[str]:
        """Return the first names with this beginning, in order."""
        with self.database.read() as connection:
            return tasks.names_beginning(connection, beginning, limit)

    def get(self, name: str) -> Task:
        """Return the task of exactly this name. Raises NotFound, as NotExact where names begin with it."""
        with self.database.read() as connection:
            return task_names.exact(connection, name)

    def find(self, name: str) -> Task:
        """Return the task of this name, or the only one whose name begins with it.

        Raises NotFound or UsageError.
        """
        with self.database.read() as connection:
            return task_names.find(connection, name)

    def view(self, name: str) -> TaskRow:
        """Return the task with its next, last and living runs. Raises NotFound or UsageError."""
        with self.database.read() as connection:
            task_id = task_names.find(connection, name).id
            return task_rows.read(connection, [task_id], self.database.now(connection))[0]

    def task_ids(
        self, terms: Sequence[Term] = (), order: str = "name", *, reverse: bool = False, coming: bool = False
    ) -> "array[int]":
        """Return the ids of the tasks that match all terms, by one of TASK_ORDERS.

        With `coming`, only tasks that run now or have a run to come.
        """
        with self.database.read() as connection:
            now = self.database.now(connection)
            return listings.task_ids(connection, terms, order, now, reverse=reverse, coming=coming)

    def list_tasks(
        self, terms: Sequence[Term] = (), order: str = "name", *, reverse: bool = False
    ) -> Iterator[TaskRow]:
        """Yield the same tasks with their runs; each page is a short transaction of its own."""
        return self.rows(self.task_ids(terms, order, reverse=reverse))

    def rows(self, ids: Sequence[int]) -> Iterator[TaskRow]:
        """Yield the tasks of these ids with their runs; each page is a short transaction of its own."""
        for start in range(0, len(ids), PAGE):
            with self.database.read() as connection:
                now = self.database.now(connection)
                rows = task_rows.read(connection, ids[start : start + PAGE], now)
            yield from rows

    def tasks(self) -> Iterator[Task]:
        """Return all tasks in the order of names; each page is a transaction of its own."""
        return self._by_name(tasks.page, PAGE)

    def tasks_by_id(self, task_ids: Collection[int]) -> dict[int, Task]:
        """Return the tasks of these ids, by id; removed tasks are left out."""
        with self.database.read() as connection:
            return {task.id: task for task in tasks.by_ids(connection, task_ids)}

    def selected(self, selector: Selector) -> list[Task]:
        """Return the tasks that the selector chooses, in the order of names."""
        with self.database.read() as connection:
            return tasks.selected(connection, selector)

    def named(self, words: Sequence[str], *, whole: bool = False, removed: bool = True) -> NamedTasks:
        """Look up tasks by names, beginnings of names, and patterns such as `shop-*`.

        Also those that were removed, unless `removed` is False. With `whole`, only tasks that exist, and
        names in full. Raises NotFound or UsageError.
        """
        with self.database.read() as connection:
            names = tasks.names(connection) if any(map(is_pattern, words)) else {}
            ids: set[int] = set()
            for word in words:
                if is_pattern(word):
                    found = {task_id for task_id, name in names.items() if fnmatchcase(name, word)}
                    if not found:
                        raise NotFound(f"no task has a name like {word!r}; `dcron list` shows what there is")
                    ids |= found
                elif whole:
                    ids.add(task_names.exact(connection, word).id)
                else:
                    ids.add(
                        task_names.id_of(connection, word)
                        if removed
                        else task_names.find(connection, word).id
                    )
        trials = {-task_id for task_id in ids}
        return NamedTasks((), tuple(words), frozenset(ids | trials))

    def events(self, limit: int) -> list[str]:
        """Return the first names of events that tasks wait for, in order."""
        with self.database.read() as connection:
            return tasks.events(connection, limit)

    def labels(self, beginning: str, limit: int) -> list[str]:
        """Return the first labels of tasks with this beginning, such as `team=shop`, in order."""
        with self.database.read() as connection:
            pairs = (f"{key}={value}" for key, value in selectors.pairs(connection))
            return list(islice((pair for pair in pairs if pair.startswith(beginning)), limit))

    def planned_occurrences(self, task_ids: Sequence[int]) -> dict[int, datetime]:
        """Return the occurrences of the scheduled runs of these tasks, by task id, where there is one."""
        found: dict[int, datetime] = {}
        for start in range(0, len(task_ids), PAGE):
            with self.database.read() as connection:
                found |= planning.next_occurrences(connection, task_ids[start : start + PAGE])
        return found

    def due_with(self, row: TaskRow) -> list[Task]:
        """Return up to COUNTED tasks that are due in the minute of this task's next scheduled run."""
        with self.database.read() as connection:
            return planning.due_with(connection, row.task, row.next_run, COUNTED)

    def dependency_graph(self, task: Task) -> Mapping[str, Sequence[str]]:
        """Return the dependency graph around the task: for each name the names of its upstream tasks."""
        with self.database.read() as connection:
            return dependencies.graph_around(connection, task.name)

    def task_id(self, name: str) -> int:
        """Return the task id of the runs under this name, also of a removed task. Raises NotFound."""
        with self.database.read() as connection:
            return task_names.id_of(connection, name)

    def exact_task_id(self, name: str) -> tuple[int, str]:
        """Return the same for exactly this name, and the name. Raises NotFound, as `get` does."""
        with self.database.read() as connection:
            removed = task_names.removed_id(connection, name)
            return (task_names.exact(connection, name).id if removed is None else removed), name

    # Change -----------------------------------------------------------------------------------------

    @repeatable
    def add(
        self,
        definition: Definition,
        *,
        once: bool = False,
        numbered: bool = False,
        since: datetime | None = None,
    ) -> Task:
        """Add a task and plan its first run. Raises UsageError, or Refused when the name is taken.

        With `numbered`, a taken name becomes `name-2`, `name-3` and so on. With `since`, the task counts as
        added at that time: an occurrence between then and now is due at once, not missed.
        """
        with self.database.write() as connection:
            writer = TaskWriter(connection, self.database, self.author)
            return writer.add_valid(definition, once=once, numbered=numbered, since=since).task

    def edit(self, task: Task, changed: Mapping[str, Any]) -> Task:
        """Set fields of the task as it was read. Raises UsageError, Refused, or Conflict when it changed."""
        return self.change([edited(task, changed)]).tasks[0]

    def remove(self, *removed: Task) -> None:
        """Remove the tasks; their waiting runs are skipped. Raises Refused or Conflict."""
        self.change([Change(task, None) for task in removed])

    def pause(self, task: Task, reason: str | None = None, until: datetime | None = None) -> Task:
        """Pause the task until it is resumed, or until `until`. Raises Refused or Conflict."""
        return self.change([paused(task, reason, until, self.actor)]).tasks[0]

    def resume(self, task: Task) -> Task:
        """End the pause, and record what it missed in one skipped run. Raises Refused or Conflict."""
        return self.change([resumed(task)]).tasks[0]

    def change(self, changes: Sequence[Change], rules: Rules = TOGETHER) -> Written:
        """Make these changes of tasks as they were read, all or none. Raises why the first cannot be made.

        By the rules ALONE, those that cannot be made are left out, and each page is a transaction of its own.
        """
        written = Written()
        for page in each_alone(changes) if rules.each_alone else [changes]:
            written.add(self._change(page, rules))
        return written

    @repeatable
    def _change(self, changes: Sequence[Change], rules: Rules) -> Written:
        with self.database.write() as connection:
            written = write_changes(connection, self, changes, rules)
            if not rules.each_alone:
                written.require_all()
        return written

    # Files ------------------------------------------------------------------------------------------

    @repeatable
    def import_tasks(
        self,
        definitions: Sequence[Definition],
        source: str | None = None,
        *,
        prefix: str = "",
        adopt: bool = False,
        by_root: bool = False,
        agreed: Imported | None = None,
        dry_run: bool = False,
    ) -> Imported:
        """Add new tasks and change those that differ, in one transaction; nothing is removed.

        Only tasks of this source are changed; with `adopt`, all tasks of these names, and the source becomes
        theirs. A definition whose name belongs to another source becomes a task with a number behind its
        name. `prefix` is put before all names. `by_root` says that root imports. `agreed` holds the changes
        that the person agreed to; None allows all.

        Raises InvalidTasks for tasks that agents cannot run, Refused where a task of a source would run as
        root although it names no account, and NotAgreed where the import changes more than was agreed. Then
        nothing is written.
        """
        self._compute_ahead(definitions)
        with self.database.write(keeps=not dry_run) as connection, connection.begin_nested() as attempt:
            work = Import(connection, self, source, definitions, prefix, adopt=adopt)
            imported = work.write()
            if source:
                work.refuse_open_accounts(imported, by_root=by_root)
            if agreed and not imported.is_agreed(agreed):
                raise NotAgreed(imported)
            if dry_run:
                attempt.rollback()
        return imported

    def export_tasks(self, selector: Selector | None = None) -> list[Definition]:
        """Return the definitions of all tasks but one-offs, in the order of names; or of those selected."""
        with self.database.read() as connection:
            found = tasks.every(connection) if selector is None else tasks.selected(connection, selector)
            return [task.definition() for task in found if not task.once]

    def paused_names(self) -> list[str]:
        """Return the names of all paused tasks, in their order."""
        with self.database.read() as connection:
            return [task.name for task in tasks.every(connection, paused=True)]

    # ------------------------------------------------------------------------------------------------

    def _compute_ahead(self, definitions: Sequence[Definition]) -> None:
        """Compute the times of these schedules, so that the transaction finds them in the cache."""
        now = self.now()
        for definition in definitions:
            with suppress(UsageError):  # the transaction reports it
                require_valid(definition, now)
