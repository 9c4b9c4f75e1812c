"""The history of the crontab: who changed what, and the crontab as it was at a time."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from dcron.errors import NotFound, UsageError
from dcron.model import LAST_RUN, Definition, Task, TaskState
from dcron.policy.history import RecordedChange, state_at
from dcron.policy.selectors import Selector
from dcron.policy.starting import occurrences
from dcron.services import task_names
from dcron.services.name_prefix import ENOUGH, unique_match
from dcron.services.service import Service
from dcron.services.tasks.rows import TaskRow
from dcron.store import changes
from dcron.store.changes import ChangeFilter
from dcron.store.tasks import calendars
from dcron.store.tasks import rows as tasks

PAGE = 200


@dataclass(frozen=True)
class PastCrontab:
    """The tasks as they were at a time, in the order of names."""

    at: datetime
    tasks: list[Task]
    begins_at: datetime | None
    """When the history begins; None if there is none. What was there before may be unknown."""

    @property
    def is_complete(self) -> bool:
        """Whether the history reaches back to that time."""
        return self.begins_at is not None and self.begins_at <= self.at

    @property
    def exported(self) -> list[Definition]:
        """The definitions of all tasks but one-offs."""
        return [task.definition() for task in self.tasks if not task.once]

    def find(self, name: str) -> Task:
        """Return the task of this name, or the only one whose name begins with it.

        Raises NotFound or UsageError.
        """
        by_name = {task.name: task for task in self.tasks}
        if name not in by_name:
            beginning = [each for each in by_name if each.startswith(name)]
            name = unique_match(name, beginning[:ENOUGH]) or name
        if name not in by_name:
            raise NotFound(f"there was no task {name!r} at {self.at:%Y-%m-%dT%H:%M:%SZ}")
        return by_name[name]


class History(Service):
    """Reads the audit log. It writes nothing."""

    def changes(
        self,
        limit: int,
        name: str | None = None,
        *,
        by: str | None = None,
        since: datetime | None = None,
        batch: str | None = None,
        selector: Selector | None = None,
    ) -> Iterator[RecordedChange]:
        """Yield the newest changes that match, read a page at a time.

        `name` is that of a task, which may be removed, or a prefix that fits no other. `by` is the beginning
        of an actor or a database login. `selector` is about the labels that tasks have now.

        Raises NotFound or UsageError.
        """
        with self.database.read() as connection:
            task_id = None if name is None else task_names.id_of(connection, name)
            wanted = ChangeFilter(task_id, name, by, since, batch and batch_of(connection, batch), selector)
        return islice(self._pages(wanted, min(limit, PAGE)), limit)

    def page(self, limit: int, name: str | None = None, before_id: int | None = None) -> list[RecordedChange]:
        """Return the newest changes, of everything or of the task of this name, which may be removed.

        With `before_id`, return those before this one. Raises NotFound.
        """
        with self.database.read() as connection:
            task_id = None if name is None else task_names.id_of(connection, name)
            return changes.page(connection, ChangeFilter(task_id, name), limit, before_id)

    def _pages(self, criteria: ChangeFilter, size: int) -> Iterator[RecordedChange]:
        before_id = None
        while True:
            with self.database.read() as connection:
                found = changes.page(connection, criteria, size, before_id)
            yield from found
            if len(found) < size:
                return
            before_id = found[-1].id

    def crontab_at(self, at: datetime) -> PastCrontab:
        """Return the tasks as they were at this time."""
        with self.database.read() as connection:
            last = changes.last_until(connection, at)
            first = changes.first_of_others(connection, at)
            found = [(change, state_at(change, None, None)) for change in last]
            found += [(change, state_at(None, change, None)) for change in first]
            then = [_task(change, state) for change, state in found if state]
            ids = changes.without_changes(connection)
            for start in range(0, len(ids), PAGE):
                known = tasks.by_ids(connection, ids[start : start + PAGE])
                then += [task for task in known if task.changed_at <= at]
            begins = changes.begins_at(connection)
            then = _with_calendars(connection, then, at)
        return PastCrontab(at, sorted(then, key=lambda task: task.name), begins)


def row_at(task: Task, at: datetime) -> TaskRow:
    """Return the row of a task as it was at this time, with when it then ran next; its runs are left out."""
    try:
        first = (
            occurrences.next_not_excluded(task, at) if task.enabled and occurrences.is_timed(task) else None
        )
        next_at = first and occurrences.due_at(task, first)
    except UsageError:  # agents could not run it either
        next_at = None
    return TaskRow(task, None, None, (), next_at, None, failed=False, dead=False)


def batch_of(connection: Connection, text: str) -> str:
    """Return the batch of this name, or that of the change with this number. Raises NotFound."""
    if text.isascii() and text.isdigit():
        change = changes.by_id(connection, min(int(text), LAST_RUN))
        if change and change.batch:
            return change.batch
    elif changes.of_batch(connection, text):
        return text
    raise NotFound(f"there is no batch {text[:40]!r}; `dcron history` shows the batches")


def _with_calendars(connection: Connection, then: Sequence[Task], at: datetime) -> list[Task]:
    """Return the tasks with the calendars that they name, as these were at this time."""
    names = {name for task in then for name in (task.except_calendar, task.only_calendar) if name}
    past = changes.calendars_at(connection, at) if names else {}
    contents = calendars.contents(connection, names - past.keys())
    contents |= {name: json.dumps(content) for name, content in past.items() if content is not None}
    return [
        replace(
            task,
            except_content=contents.get(task.except_calendar or ""),
            only_content=contents.get(task.only_calendar or ""),
        )
        for task in then
    ]


def _task(change: RecordedChange, state: TaskState) -> Task:
    """Return the task as it was; what a change does not record is empty."""
    version = change.version or 1
    return Task(
        **vars(state.definition),
        **state.columns(),
        id=change.task_id or 0,
        version=version,
        planned_version=version,
        error=None,
        changed_at=change.at,
        changed_by=change.actor,
    )
