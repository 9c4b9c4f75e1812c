"""The facts about one task from which its causes follow. Each is read at most once."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from dcron.errors import UsageError, ZoneError
from dcron.model import Definition, Node, NodeState, Run, RunState, Task, Trigger
from dcron.policy.history import RecordedChange, TaskHistory
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.freezes import FrozenTime
from dcron.policy.starting.near import occurrences_between
from dcron.policy.starting.occurrences import schedule_of
from dcron.presentation.why import Cause, Clock
from dcron.schedule.kinds import Schedule
from dcron.schedule.zones import zone
from dcron.store import changes, freezes, history
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import rows as tasks

MOST_TIMES = 200
"""Times of a task that one answer explains."""
NEAR_RUNS = 5
_MOST_ROWS = 1000
_SCHEDULED = (Trigger.SCHEDULE, Trigger.NODE)


@dataclass(frozen=True)
class Facts:
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
    def past(self) -> TaskHistory:
        """What was changed about the task."""
        present = self.task.state() if self.task else None
        return TaskHistory(changes.typed_of_task(self.connection, self.task_id), present)

    @cached_property
    def latest(self) -> Definition | None:
        """The task as it is, or as it was last; None when no record has it."""
        states = (each.state_before for each in reversed(self.past.changes))
        return self.task or next((state.definition for state in states if state), None)

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

    def times_in(self, first: datetime, end: datetime) -> "list[TimeFacts]":
        """Return the times from `first` to `end` that the task had, or has runs of, as far as needed."""
        of_each: dict[datetime, list[Run]] = {}
        for run in self._rows(first, end):
            of_each.setdefault(run.scheduled_for, []).append(run)
        for start, stop, task in self.past.periods(first, end):
            with suppress(UsageError):  # the explanation of the task says so
                for at in occurrences_between(task, start, stop, MOST_TIMES + 1):
                    of_each.setdefault(at, [])
        return [TimeFacts(self, at, of_each[at]) for at in sorted(of_each)]

    def time(self, at: datetime) -> "TimeFacts":
        """Return what is known about one time of the task."""
        return TimeFacts(self, at, self._rows(at, at + INSTANT))

    def _rows(self, first: datetime, end: datetime) -> list[Run]:
        rows = history.finished(self.connection, self.task_id, first, end, _MOST_ROWS)
        rows += [run for run in self.unfinished if first <= run.scheduled_for < end]
        return sorted(rows, key=lambda run: run.id)

    @cached_property
    def frozen_time(self) -> FrozenTime:
        """When the crontab was, is and will be frozen."""
        return freezes.past_and_coming(self.connection)

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

    # Causes -----------------------------------------------------------------------------------------

    def cause(
        self,
        code: str,
        form: str = "",
        words: Mapping[str, Any] | None = None,
        /,
        subject: Run | None = None,
        **facts: Any,
    ) -> Cause:
        """Return a cause: about a run, the time `at`, or neither. Only its sentence has the `words`."""
        if subject:
            facts = {**about(subject), **facts}
        time = subject.scheduled_for if subject else facts.get("at")
        words = {"name": self.name, "subject": subject, **(words or {})}
        return Cause(code, self.clock, facts, time, form, words)

    def paused(self, at: datetime | None = None) -> Cause:
        """Return the pause of a task that is paused now; `at` is the time that it does not run."""
        task = self.task
        assert task
        pause: dict[str, Any] = {
            "by": task.paused_by,
            "since": task.paused_at or task.changed_at,
            "until": task.paused_until,
        }
        return self.cause("paused", at=at, **pause, reason=task.paused_reason)

    def frozen(self, time: datetime, at: datetime | None = None) -> Cause | None:
        """Return the freeze at this time, if there is one; `at` is the occurrence that it is about."""
        freeze = self.frozen_time.at(time)
        if freeze is None:
            return None
        form = "frozen" if freeze.from_at <= self.now else "frozen-later"
        span: dict[str, Any] = {"since": freeze.from_at, "until": freeze.until_at, "reason": freeze.reason}
        return self.cause("frozen", form, at=at, freeze=freeze.id, by=freeze.created_by, **span)

    def suspended(self, problem: str, at: datetime | None = None) -> Cause:
        """Return the cause of a task that agents cannot plan or run."""
        return self.cause("suspended", at=at, reason=problem)

    def removed(self, at: datetime | None = None) -> Cause:
        """Return the cause of a task that is no longer in the crontab."""
        removal = self.past.removal()
        if removal is None:
            return self.cause("removed", "left", at=at)
        return self.cause("removed", "", {"change": removal}, at=at, **author(removal))


def author(change: RecordedChange) -> dict[str, Any]:
    """Return the facts about who made a change, and when."""
    return {"by": change.actor, "login": change.login, "since": change.at}


def about(run: Run) -> dict[str, Any]:
    """Return the facts that every cause about a run has."""
    return {
        "at": run.scheduled_for,
        "run": run.id,
        "state": run.state.value,
        "trigger": run.trigger.value,
        "attempt": run.attempt,
        "node": run.owner or run.for_node,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "flow": run.flow,
    }


@dataclass(frozen=True)
class TimeFacts:
    """What is known about one time of the task."""

    facts: Facts
    at: datetime
    rows: Sequence[Run]
    """The task's runs of that time."""

    @cached_property
    def definition(self) -> Definition | None:
        """The task by which an occurrence of that time was planned; None when there was none."""
        return self.facts.past.planned_for(self.at)

    @property
    def task(self) -> Definition:
        """The same, where there was one."""
        assert self.definition
        return self.definition

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule of that definition. Raises ScheduleError."""
        return schedule_of(self.task)

    @cached_property
    def runs_before(self) -> list[Run]:
        """The finished scheduled runs for times up to it, the latest first."""
        return history.scheduled_runs_before(self.facts.connection, self.facts.task_id, self.at, NEAR_RUNS)

    @cached_property
    def runs_after(self) -> list[Run]:
        """The finished scheduled runs for later times, the earliest first."""
        return history.scheduled_runs_after(self.facts.connection, self.facts.task_id, self.at, NEAR_RUNS)

    @cached_property
    def before(self) -> Run | None:
        """The last finished run for an earlier time."""
        return history.nearest(self.facts.connection, self.facts.task_id, self.at, later=False)

    @cached_property
    def after(self) -> Run | None:
        """The first finished run for a later time."""
        return history.nearest(self.facts.connection, self.facts.task_id, self.at, later=True)

    @cached_property
    def following(self) -> Run | None:
        """The first run on record for a later time, finished or not."""
        later = [run for run in self.facts.unfinished if run.scheduled_for > self.at]
        later += [self.after] if self.after else []
        return min(later, key=lambda run: run.scheduled_for, default=None)

    @property
    def unfinished_before(self) -> list[Run]:
        """The scheduled runs for earlier times that wait or are alive."""
        found = self.facts.unfinished
        return [run for run in found if run.trigger in _SCHEDULED and run.scheduled_for < self.at]
