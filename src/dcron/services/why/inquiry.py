"""What every question about one line needs: the line, its life, the time, and the database to look in."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import UsageError, ZoneError
from dcron.model import Definition, Node, NodeState, Run, RunState, Task
from dcron.schedule import zone
from dcron.services.why.causes import Cause, Clock
from dcron.services.why.lifetime import Lifetime
from dcron.store import history, nodes, tasks
from dcron.store.history import AuditEntry


@dataclass(frozen=True)
class Inquiry:
    """One line under inquiry, in one transaction that only reads."""

    connection: Connection
    now: datetime
    name: str
    task_id: int

    @cached_property
    def task(self) -> Task | None:
        """The line as it is; None when it is gone."""
        return tasks.by_id(self.connection, self.task_id)

    @cached_property
    def life(self) -> Lifetime:
        """What was changed about the line."""
        return Lifetime(history.line_changes(self.connection, self.task_id), self.task)

    @cached_property
    def line(self) -> Definition | None:
        """The line as it is, or as it was last; None when nobody knows it."""
        return self.task or next(
            (line for each in reversed(self.life.changes) if (line := self.life.definition_at(each.at))),
            None,
        )

    @cached_property
    def unfinished(self) -> list[Run]:
        """The line's runs that wait or are alive, the alive ones first."""
        return history.unfinished(self.connection, self.task_id)

    @property
    def alive(self) -> list[Run]:
        """The line's live runs."""
        return [run for run in self.unfinished if run.state is not RunState.WAITING]

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes that nobody has declared dead, with what they run."""
        return nodes.listing(self.connection, self.now)

    @property
    def fleet(self) -> list[Node]:
        """The living nodes; those that drain take nothing new."""
        living = (NodeState.ALIVE, NodeState.DRAINING)
        return [node for node in self.nodes if node.state(self.now) in living]

    @cached_property
    def clock(self) -> Clock:
        """Times in the line's zone."""
        return Clock(self._zone(), self.now)

    def _zone(self) -> tzinfo:
        try:
            return zone(self.line.timezone) if self.line else UTC
        except ZoneError:
            return UTC

    # Sentences about the line itself -------------------------------------------------------------

    def paused(self, at: datetime | None = None) -> Cause:
        """The pause of a line that rests now; `at` is the time it keeps from running."""
        task = self.task
        assert task
        since = task.paused_at or task.changed_at
        by = f" by {task.paused_by}" if task.paused_by else ""
        until = f", until {self.clock.time(task.paused_until)}" if task.paused_until else ""
        reason = f": {task.paused_reason}" if task.paused_reason else ""
        sentence = f"{task.name} is paused{by} since {self.clock.time(since)}{until}{reason}"
        facts: dict[str, Any] = {"by": task.paused_by, "since": since, "until": task.paused_until}
        facts |= {"reason": task.paused_reason}
        return self.told(at, "paused", sentence, facts)

    def suspended(self, problem: str, at: datetime | None = None) -> Cause:
        """A line of which agents cannot tell when, or how, to run it."""
        sentence = f"{self.name} is suspended, for agents cannot run it as it is written: {problem}"
        return self.told(at, "suspended", sentence, {"reason": problem})

    def removed(self, at: datetime | None = None) -> Cause:
        """A line that is gone."""
        removal = self.life.removal()
        if removal is None:
            sentence = f"{self.name} was a one-off, and left the crontab when its run had succeeded"
            return self.told(at, "removed", sentence)
        sentence = f"{self.name} was removed {self.by_whom(removal)}"
        return self.told(
            at, "removed", sentence, {"by": removal.actor, "login": removal.login, "since": removal.at}
        )

    def by_whom(self, change: AuditEntry) -> str:
        """`by ann@desk, 2027-06-01 12:05 UTC`."""
        return f"by {change.author}, {self.clock.time(change.at)}"

    def told(
        self, at: datetime | None, code: str, sentence: str, facts: dict[str, Any] | None = None
    ) -> Cause:
        """A cause, about one time of the line or about all."""
        begin = f"{self.clock.time(at)}: " if at else ""
        return Cause(code, begin + sentence, {"at": at, **(facts or {})})

    def problem(self, line: Definition) -> str | None:
        """What keeps agents from telling the line's times."""
        try:
            policy.next_occurrence(line, self.now)
        except UsageError as error:
            return str(error)
        return None
