"""Dump a whole crontab without its history to a value, and restore it.

A restore is checked first (`compare`) and then done (`apply`), in one transaction, completely or not at all.
It adds and changes tasks; it removes nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from dcron.errors import Conflict, Refused, UsageError, unexpected
from dcron.model import DEFINITION_FIELDS, Pause, Task
from dcron.policy.validation import MOST_RUNNING, require_name, require_queue
from dcron.presentation import differences
from dcron.schedule.calendars import Calendar, calendar_from_json
from dcron.schedule.effort import repeatable
from dcron.services import recorded_values
from dcron.services.calendars import require_reasonable
from dcron.services.changes.changeset import Change, Rules, write_changes
from dcron.services.service import Service
from dcron.settings import registry
from dcron.sources.dump import Dump, DumpedTask, task_json
from dcron.store.planning import planning
from dcron.store.tasks import calendars, queues, settings
from dcron.store.tasks import rows as tasks
from dcron.values.unreadable import Unreadable

PAGE = 500
PAUSED_REASON = "restored with --paused"
RULES = Rules(is_checked=False, asks_owner=False, has_dependencies=False, restores=True)
KINDS = ("setting", "calendar", "queue", "task")
"""The parts of a dump, in the order in which they are restored."""


@dataclass(frozen=True)
class Difference:
    """A value that differs between the crontab and the dump; both as JSON has them."""

    kind: str
    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def lines(self) -> Iterator[str]:
        """Yield the differing keys: `-` before the value in the crontab, `+` before the one in the dump."""
        return differences.of_values(self.before, self.after)


@dataclass(frozen=True)
class Restoration:
    """The effect of a restore: names by kind."""

    added: Mapping[str, Sequence[str]]
    changed: Sequence[Difference]
    unchanged: Mapping[str, Sequence[str]]
    versions: Mapping[str, int] = field(default_factory=dict)
    """The versions of the changed tasks when they were compared."""

    def changed_names(self, kind: str) -> list[str]:
        """Return the names of this kind that are changed."""
        return [each.name for each in self.changed if each.kind == kind]


@dataclass(frozen=True)
class Restored:
    """Results of a restore that `compare` cannot know."""

    expired: Sequence[str]
    """Tasks whose only time has passed: they have no next run."""
    suspended: Mapping[str, str]
    """Tasks that agents cannot run, with the reason."""


class DumpService(Service):
    """Dumps of a crontab. Every method is one transaction."""

    def dump(self) -> Dump:
        """Return the crontab as of one transaction. Raises Refused for a value whose JSON cannot be read."""
        with self.database.snapshot() as connection:
            return self._current(connection)

    def compare(self, dump: Dump, *, paused: bool = False) -> Restoration:
        """Return what a restore of the dump would do. Raises UsageError for an invalid dump."""
        _require_valid(dump)
        with self.database.snapshot() as connection:
            return self._compare(connection, dump, paused=paused)[0]

    @repeatable
    def apply(self, dump: Dump, agreed: Restoration, *, paused: bool = False) -> Restored:
        """Restore the dump if that has the `agreed` effect; with `paused`, pause all tasks that it writes.

        Raises UsageError, or Conflict if another user has changed the crontab since.
        """
        _require_valid(dump)
        with self.database.write() as connection:
            self.database.lock_dependencies(connection)
            planned, restored = self._compare(connection, dump, paused=paused)
            if planned != agreed:
                raise Conflict("the crontab was changed meanwhile; look at the differences again")
            try:
                return self._write(connection, restored, agreed)
            except IntegrityError as error:
                raise UsageError(
                    f"the dump has values that no crontab takes: {str(error.orig).splitlines()[0]}"
                ) from None

    # ------------------------------------------------------------------------------------------------

    def _current(self, connection: Connection, names: Collection[str] | None = None) -> Dump:
        """Return the crontab; with `names`, only these of its tasks."""
        found = list(tasks.every(connection) if names is None else tasks.by_names(connection, sorted(names)))
        following: dict[int, datetime] = {}
        for start in range(0, len(found), PAGE):
            ids = [task.id for task in found[start : start + PAGE]]
            following |= planning.next_occurrences(connection, ids)
        return Dump(
            settings={
                each.name: _readable(each.value, f"setting {each.name}")
                for each in settings.every(connection)
            },
            calendars=_calendars(connection),
            queues=queues.limits(connection),
            tasks={task.name: _dumped(task, following.get(task.id)) for task in found},
        )

    def _compare(self, connection: Connection, dump: Dump, *, paused: bool) -> tuple[Restoration, Dump]:
        """Return the effect of a restore, and the dump with the pauses that the restore adds."""
        current = self._current(connection, dump.tasks)
        dump = self._with_pauses(dump, current) if paused else dump
        added: dict[str, list[str]] = {kind: [] for kind in KINDS}
        unchanged: dict[str, list[str]] = {kind: [] for kind in KINDS}
        changed: list[Difference] = []
        for kind in KINDS:
            before, after = _comparable(current, kind), _comparable(dump, kind)
            for name in sorted(after):
                if name not in before:
                    added[kind].append(name)
                elif before[name] == after[name]:
                    unchanged[kind].append(name)
                else:
                    changed.append(Difference(kind, name, before[name], after[name]))
        names = [each.name for each in changed if each.kind == "task"]
        versions = {task.name: task.version for task in tasks.by_names(connection, names)}
        return Restoration(added, changed, unchanged, versions), dump

    def _with_pauses(self, dump: Dump, current: Dump) -> Dump:
        """Pause every task of the dump that would run and is not in the crontab already as the dump has it.

        A task that is paused now keeps its pause and its reason.
        """
        restored = dict(dump.tasks)
        for name, task in dump.tasks.items():
            existing = current.tasks.get(name)
            if task.state.pause is None and (existing is None or existing.state != task.state):
                pause = existing.state.pause if existing else None
                state = replace(task.state, pause=pause or Pause(PAUSED_REASON, self.actor))
                restored[name] = replace(task, state=state)
        return replace(dump, tasks=restored)

    def _write(self, connection: Connection, dump: Dump, agreed: Restoration) -> Restored:
        for kind in ("setting", "calendar", "queue"):
            wanted = _comparable(dump, kind)
            for name in (*agreed.added[kind], *agreed.changed_names(kind)):
                values = {"content": wanted[name]} if kind == "calendar" else wanted[name]
                recorded_values.change(connection, self, kind, name, values, action="restore")
        names = [*agreed.added["task"], *agreed.changed_names("task")]
        present = {task.name: task for task in tasks.by_names(connection, names)}
        dumped = [(name, dump.tasks[name]) for name in names]
        changes = [Change(present.get(name), each.state, next=each.next) for name, each in dumped]
        written = write_changes(connection, self, changes, RULES)
        for overtaken in written.overtaken:
            raise overtaken.error
        suspended = {task.name: task.error for task in tasks.by_names(connection, names) if task.error}
        return Restored(written.expired, suspended)


def _calendars(connection: Connection) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    after = ""
    while page := calendars.page(connection, after, PAGE):
        found |= {each.name: _readable(each.content, f"calendar {each.name}") for each in page}
        after = page[-1].name
    return found


def _dumped(task: Task, next_occurrence: datetime | None) -> DumpedTask:
    for name in DEFINITION_FIELDS:
        _readable(getattr(task, name), f"task {task.name}: {name}")
    return DumpedTask(state=task.state(), next=next_occurrence)


def _readable(value: Any, where: str) -> Any:
    if isinstance(value, Unreadable):
        raise Refused(f"{where}: {value.text[:100]!r} is not JSON that can be read; fix it first")
    return value


def _comparable(dump: Dump, kind: str) -> dict[str, dict[str, Any]]:
    """Return one kind of a dump by name, as it is compared: without the next runs of tasks, which move on."""
    if kind == "task":
        return {name: task_json(replace(task, next=None)) for name, task in dump.tasks.items()}
    if kind == "calendar":
        return {name: dict(content) for name, content in dump.calendars.items()}
    if kind == "queue":
        return {name: {"max_running": limit} for name, limit in dump.queues.items()}
    return {name: {"value": value} for name, value in dump.settings.items()}


def _calendar(name: str, content: Mapping[str, Any]) -> Calendar:
    try:
        calendar = calendar_from_json(name, content)
        if unknown := sorted(content.keys() - calendar.to_json().keys()):
            raise ValueError(f"there is no field {unknown[0]!r}")
        return calendar
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"calendar {name[:100]!r} cannot be read: {unexpected(error)}") from None


def _require_valid(dump: Dump) -> None:
    """Raise UsageError for values that no crontab can hold. A task that agents cannot run is suspended."""
    for name, value in dump.settings.items():
        try:
            registry.find(name).read(value)
        except UsageError as error:
            raise UsageError(f"setting {name[:60]!r}: {error}") from None
    for name, content in dump.calendars.items():
        require_reasonable(_calendar(name, content))
    for name, limit in dump.queues.items():
        require_queue("queue", name)
        if limit is not None and not 0 <= limit <= MOST_RUNNING:
            raise UsageError(f"queue {name}: {limit} is not 0 to {MOST_RUNNING:,}")
    for name in dump.tasks:
        require_name(name)
