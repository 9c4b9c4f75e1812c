"""What every question about one task needs: the task, its history, the time, and the database."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import UsageError, ZoneError
from dcron.model import DEFINITION_FIELDS, TIMES_FIELDS, Definition, Node, NodeState, Run, RunState, Task
from dcron.policy import INSTANT
from dcron.policy.freezes import FrozenTime
from dcron.schedule import Schedule, clock_transitions, zone
from dcron.services.why.run_causes import Cause, Clock
from dcron.store import freezes, history, nodes, tasks
from dcron.store.audit_log import definition_in
from dcron.store.history import AuditEntry

_LONGEST_BACK = timedelta(days=50 * 366)
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class Context:
    """One task that is asked about, in one transaction that only reads."""

    connection: Connection
    now: datetime
    name: str
    task_id: int
    here: tzinfo | None = None
    """The zone of times in sentences; None for the task's."""

    @cached_property
    def task(self) -> Task | None:
        """The task as it is; None once it is removed."""
        return tasks.by_id(self.connection, self.task_id)

    @cached_property
    def past(self) -> "Past":
        """What was changed about the task."""
        return Past(history.task_changes(self.connection, self.task_id), self.task)

    @cached_property
    def latest(self) -> Definition | None:
        """The task as it is, or as it was last; None when no record has it."""
        return self.task or next(
            (known for each in reversed(self.past.changes) if (known := self.past.definition_at(each.at))),
            None,
        )

    @cached_property
    def unfinished(self) -> list[Run]:
        """The task's runs that wait or are alive, the alive ones first."""
        return history.unfinished(self.connection, self.task_id)

    @property
    def alive(self) -> list[Run]:
        """The task's claimed and running runs."""
        return [run for run in self.unfinished if run.state is not RunState.WAITING]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes that were not declared dead, with what they run."""
        return nodes.listing(self.connection, self.now)

    @property
    def fleet(self) -> list[Node]:
        """The living nodes; those that drain take nothing new."""
        living = (NodeState.ALIVE, NodeState.DRAINING)
        return [node for node in self.nodes if node.state(self.now) in living]

    @cached_property
    def clock(self) -> Clock:
        """Times as sentences have them."""
        return Clock(self.here or self._zone(), self.now)

    def _zone(self) -> tzinfo:
        """Return the task's zone."""
        try:
            return zone(self.latest.timezone) if self.latest else UTC
        except ZoneError:
            return UTC

    def time(self, at: datetime) -> str:
        """Return the time as sentences have it."""
        return self.clock.time(at)

    def by_whom(self, change: AuditEntry) -> str:
        """Return `by ann@desk, 2027-06-01 12:05 UTC`."""
        return f"by {change.author}, {self.time(change.at)}"

    @cached_property
    def frozen_time(self) -> FrozenTime:
        """When the crontab was, is and will be frozen."""
        return freezes.past_and_coming(self.connection)

    def problem(self, definition: Definition) -> str | None:
        """Return why agents cannot compute the times of this definition; None when they can."""
        try:
            policy.next_occurrence(definition, self.now)
        except UsageError as error:
            return str(error)
        return None

    # Causes about the task itself -------------------------------------------------------------------

    def cause(
        self, at: datetime | None, code: str, text: str, facts: Mapping[str, Any] | None = None
    ) -> Cause:
        """Return a cause about one time of the task, or about all when `at` is None."""
        return Cause(code, text, {"at": at, **(facts or {})}, self.time(at) if at else "")

    def paused(self, at: datetime | None = None) -> Cause:
        """Return the pause of a task that is paused now; `at` is the time that it does not run."""
        task = self.task
        assert task
        since = task.paused_at or task.changed_at
        by = f" by {task.paused_by}" if task.paused_by else ""
        until = f", until {self.time(task.paused_until)}" if task.paused_until else ""
        reason = f": {task.paused_reason}" if task.paused_reason else ""
        text = f"{task.name} is paused{by} since {self.time(since)}{until}{reason}"
        facts = {"by": task.paused_by, "since": since, "until": task.paused_until}
        return self.cause(at, "paused", text, {**facts, "reason": task.paused_reason})

    def frozen(self, time: datetime, at: datetime | None = None) -> Cause | None:
        """Return the freeze at this time, if there is one; `at` is the occurrence that it is about."""
        freeze = self.frozen_time.at(time)
        if freeze is None:
            return None
        by = f" by {freeze.created_by}" if freeze.created_by else ""
        until = f" until {self.time(freeze.until_at)}" if freeze.until_at else ""
        reason = f": {freeze.reason}" if freeze.reason else ""
        verb = "is" if freeze.from_at <= self.now else "will be"
        since = f" {'since' if freeze.from_at <= self.now else 'from'} {self.time(freeze.from_at)}"
        text = (
            f"the crontab {verb} frozen{by}{since}{until}{reason}; nothing starts by itself then,"
            f" and `dcron thaw {freeze.id}` ends it"
        )
        facts = {"freeze": freeze.id, "by": freeze.created_by, "since": freeze.from_at}
        return self.cause(at, "frozen", text, {**facts, "until": freeze.until_at, "reason": freeze.reason})

    def suspended(self, problem: str, at: datetime | None = None) -> Cause:
        """Return the cause of a task that agents cannot plan or run."""
        text = f"{self.name} is suspended, because agents cannot run it as it is written: {problem}"
        return self.cause(at, "suspended", text, {"reason": problem})

    def removed(self, at: datetime | None = None) -> Cause:
        """Return the cause of a task that is no longer in the crontab."""
        removal = self.past.removal()
        if removal is None:
            text = f"{self.name} was a one-off, and left the crontab when its run had succeeded"
            return self.cause(at, "removed", text)
        return self.cause(at, "removed", f"{self.name} was removed {self.by_whom(removal)}", author(removal))


def author(change: AuditEntry) -> dict[str, Any]:
    """Return the facts about who made a change, and when."""
    return {"by": change.actor, "login": change.login, "since": change.at}


# The task's history -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """When a task was added, changed, paused and removed, by the audit log."""

    changes: Sequence[AuditEntry]
    """The oldest first."""
    present: Task | None
    """The task as it is now; None once it is removed."""

    def definition_at(self, at: datetime) -> Definition | None:
        """Return the definition by which an occurrence at this time was planned; None when there was none.

        An occurrence is strictly later than the change that planned it.
        """
        before = self.last_until(at - INSTANT)
        after = self.first_after(at - INSTANT)
        if after is None:
            # A task written with SQL has no audit entry.
            return self.present or (
                None if before is None or _removes(before) else definition_in(before.after)
            )
        if before is not None and _removes(before):
            return None
        # Where an entry cannot be read, assume that the task was as it is now.
        return definition_in(after.before) or (None if after.action == "add" else self.present)

    def last_until(self, at: datetime, *actions: str) -> AuditEntry | None:
        """Return the latest change up to this time, of these kinds if any are given."""
        found = [each for each in self.changes if each.at <= at]
        return next((each for each in reversed(found) if not actions or each.action in actions), None)

    def first_after(self, at: datetime, *actions: str) -> AuditEntry | None:
        """Return the first change after this time, of these kinds if any are given."""
        found = (each for each in self.changes if each.at > at)
        return next((each for each in found if not actions or each.action in actions), None)

    def removal(self) -> AuditEntry | None:
        """Return the change that removed the task; None for a one-off that went by itself."""
        last = self.changes[-1] if self.changes else None
        return last if last and _removes(last) else None

    def edits_since(self, at: datetime) -> list[AuditEntry]:
        """Return the edits after this time."""
        return [each for each in self.changes if each.at > at and each.action == "set"]

    def periods(self, first: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, Definition]]:
        """Yield begin, end and definition of each period between changes, from `first` to before `end`."""
        start = first
        for stop in [*(each.at + INSTANT for each in self.changes if first <= each.at < end), end]:
            if definition := self.definition_at(start):
                yield start, stop, definition
            start = stop


def definitions_of(change: AuditEntry) -> tuple[Definition | None, Definition | None]:
    """Return the task before and after the change."""
    return definition_in(change.before), definition_in(change.after)


def changed_fields(change: AuditEntry) -> list[str]:
    """Return the names of the fields that an edit has changed."""
    before, after = change.before or {}, change.after or {}
    return [name for name in DEFINITION_FIELDS if before.get(name) != after.get(name)]


def changes_times(change: AuditEntry) -> bool:
    """Return whether an edit affects when the task runs."""
    return any(name in (*TIMES_FIELDS, "name") for name in changed_fields(change))


def _removes(change: AuditEntry) -> bool:
    return change.action == "rm"


# The times of a task ----------------------------------------------------------------------------------


def schedule_of(task: Definition) -> Schedule:
    """Return the task's schedule. Raises ScheduleError."""
    return policy.schedule_of(task.schedule, task.name)


def occurs(task: Definition, at: datetime) -> bool:
    """Return whether the task has an occurrence at this time. Raises ScheduleError or ZoneError."""
    return policy.next_occurrence(task, at - INSTANT) == at


def occurrences_between(task: Definition, first: datetime, end: datetime, limit: int) -> list[datetime]:
    """Return the task's first `limit` occurrences from `first` to before `end`."""
    found: list[datetime] = []
    following = policy.next_occurrence(task, first - INSTANT)
    while following and following < end and len(found) < limit:
        found.append(following)
        following = policy.next_occurrence(task, following)
    return found


def previous_occurrence(task: Definition, at: datetime) -> datetime | None:
    """Return the task's last occurrence before `at`, within fifty years.

    Searches backwards in doubling steps, then halves the interval.
    """

    def is_before(start: datetime) -> bool:
        following = policy.next_occurrence(task, start)
        return following is not None and following < at

    step = _SECOND
    while not is_before(at - step):
        step *= 2
        if step > _LONGEST_BACK:
            return None
    low, high = at - step, at
    while high - low > _SECOND / 2:
        middle = low + (high - low) / 2
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return policy.next_occurrence(task, low)


def clock_change_at(task: Definition, at: datetime) -> str | None:
    """Return what a clock change does to an occurrence at this time; None as a rule.

    `at` is the end of a gap, where an occurrence in the gap runs, or lies in the second pass of a fold.
    """
    here = zone(task.timezone)
    near = clock_transitions(schedule_of(task), here, at - timedelta(days=1), policy.rules_of(task), count=1)
    change = next(iter(near), None)
    if change is None or change.at > at or at - change.at > timedelta(days=1):
        return None
    comes_again = at.astimezone(here).fold == 1
    return change.text if change.at == at or comes_again else None
