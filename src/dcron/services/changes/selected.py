"""Change many tasks that a selector has chosen: exactly those that were shown, as they were shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from dcron.errors import Conflict, DcronError, NotFound, Refused, UsageError
from dcron.model import Definition, Run, Task
from dcron.policy.validation import require_runnable, require_text, require_valid
from dcron.schedule.effort import repeatable
from dcron.services.changes import dependency_rules
from dcron.services.changes.owned_tasks import require_changes_allowed
from dcron.services.changes.writing import TaskWriter
from dcron.services.service import Service
from dcron.store import audit_log
from dcron.store.planning import planning
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks

PAGE = 250
"""Tasks in one transaction: each locks a SQLite file for some milliseconds, and agents have to wait."""
T = TypeVar("T")
_REFUSALS = (Conflict, NotFound, Refused, UsageError)


@dataclass
class BulkResult(Generic[T]):
    """What was done to many tasks."""

    done: list[T] = field(default_factory=list)
    left: dict[str, DcronError] = field(default_factory=dict)
    """Why other tasks were left alone, by name."""


class Bulk(Service):
    """Changes of many tasks: a page is a transaction, and all pages are one batch of the audit log.

    A task that is no longer as it was read, or that cannot be changed, is left alone and reported.
    """

    def edit(self, edits: Sequence[tuple[Task, Mapping[str, Any]]]) -> BulkResult[Task]:
        """Set fields of these tasks."""
        definitions = {task.id: replace(task.definition(), **changed) for task, changed in edits}

        def edit(writer: TaskWriter, task: Task) -> Task:
            require_valid(definitions[task.id], writer.now, task)
            return writer.replace(task, definitions[task.id])

        return self._pages([task for task, _ in edits], edit, lambda task: definitions[task.id])

    def remove(self, removed: Sequence[Task]) -> BulkResult[Task]:
        """Remove these tasks. An upstream task goes after its downstream tasks."""
        result, left = BulkResult[Task](), list(removed)
        while left:
            tried = self._pages(left, _remove, lambda task: None)
            result.done += tried.done
            result.left = tried.left
            if not tried.done:
                break
            left = [task for task in left if isinstance(tried.left.get(task.name), Refused)]
        return result

    def pause(
        self, pauses: Sequence[tuple[Task, datetime | None]], reason: str | None = None
    ) -> BulkResult[Task]:
        """Pause these tasks, each until its own time, or until it is resumed. Raises UsageError."""
        if reason is not None:
            require_text("reason", reason)
        ends = {task.id: until for task, until in pauses}
        chosen = [task for task, _ in pauses]
        return self._pages(chosen, lambda writer, task: writer.pause(task, reason, ends[task.id]))

    def resume(self, paused: Sequence[Task]) -> BulkResult[Task]:
        """End the pauses of these tasks, and record what each missed."""
        return self._pages(paused, lambda writer, task: writer.resume(task))

    def run(self, chosen: Sequence[Task], payload: str | None = None) -> BulkResult[Run]:
        """Make a run of each of these tasks that is due now, paused or not. Raises UsageError."""
        if payload is not None:
            require_text("payload", payload)

        def run(writer: TaskWriter, task: Task) -> Run:
            require_runnable(task)
            run_id = planning.run_now(writer.connection, task, writer.now, payload)
            detail = {"run": run_id}
            audit_log.record_run(
                writer.connection, writer.now, self.author, "run", task.id, task.name, detail
            )
            made = runs.by_id(writer.connection, run_id)
            assert made
            return made

        return self._pages(chosen, run)

    # ------------------------------------------------------------------------------------------------

    def _pages(
        self,
        chosen: Sequence[Task],
        act: Callable[[TaskWriter, Task], T],
        definition: Callable[[Task], Definition | None] | None = None,
    ) -> BulkResult[T]:
        """Act on all tasks, a page at a time; `definition` returns what a task becomes, if that changes."""
        result = BulkResult[T]()
        for start in range(0, len(chosen), PAGE):
            page = self._page(chosen[start : start + PAGE], act, definition)
            result.done += page.done
            result.left |= page.left
        return result

    @repeatable
    def _page(
        self,
        page: Sequence[Task],
        act: Callable[[TaskWriter, Task], T],
        definition: Callable[[Task], Definition | None] | None,
    ) -> BulkResult[T]:
        result = BulkResult[T]()
        with self.database.write() as connection:
            if definition:
                changes = [(task, definition(task)) for task in page]
                dependency_rules.lock_if_affected(connection, self.database, changes)
            writer = TaskWriter(connection, self.database, self.author)
            tasks.lock(connection, [task.id for task in page])
            now = {task.id: task.version for task in tasks.by_ids(connection, [task.id for task in page])}
            for task in page:
                if now.get(task.id) != task.version:
                    result.left[task.name] = writer.conflict(task)
                    continue
                try:
                    with connection.begin_nested():
                        if definition:
                            require_changes_allowed(connection, [task])
                        result.done.append(act(writer, task))
                except _REFUSALS as error:
                    result.left[task.name] = error
            self.database.notify(connection)
        return result


def _remove(writer: TaskWriter, task: Task) -> Task:
    writer.remove(task)
    return task
