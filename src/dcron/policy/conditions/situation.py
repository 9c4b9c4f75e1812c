"""What is wrong with the crontab at one time, and whether the cause of an open alert is gone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from dcron.model import AlertKind, ClosedAs, Definition, Node, RunState
from dcron.policy.conditions import nodes, runs, tasks
from dcron.policy.conditions.rules import Rules, rules_of
from dcron.policy.conditions.runs import Freezes
from dcron.policy.starting.lanes import Lane, idle

CLUSTER = "cluster"
_LONGEST_NAME = 200
_LONGEST_ERROR = 500
_WITHOUT_END = (RunState.CANCELLED, RunState.LOST)
"""States of runs that say nothing of how long a run takes."""
_RUNNING = (AlertKind.TOO_LONG, AlertKind.UNHEARD)
"""Kinds of alerts that go on while their run does, also after a pause."""
OF_RULES = ("expect", "notify", "notify_on", "notify_after", "labels")
"""The columns of a task from which its rules are made."""


class Problem(NamedTuple):
    """What opens an alert about the crontab itself."""

    kind: AlertKind
    subject: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Situation:
    """The crontab at one time, as far as it concerns all its tasks.

    Rows of tasks, runs and alerts have the names of the columns; those of tasks, what rules are made of.
    """

    now: datetime
    settings: Mapping[str, Any]
    nodes: Sequence[Node]
    """The living nodes, and those that died lately."""
    lanes: Sequence[Lane]
    """The lanes with due runs, or with runs to come."""
    jobs: Mapping[str, str]
    """What is wrong with maintenance jobs, by name."""
    database: str | None
    """What is wrong with the database."""
    freezes: Freezes

    @property
    def living(self) -> list[Node]:
        """The nodes whose leases hold."""
        return [node for node in self.nodes if node.died_how is None and node.alive_until >= self.now]

    @cached_property
    def unserved(self) -> Mapping[str, str]:
        """Why no living node takes the runs of a lane; empty if none runs at all: then they are late."""
        return {} if idle(self.living) else tasks.unserved(self.lanes, self.living)

    def rules(self, task: Any = None) -> Rules:
        """Return the rules of the task in this row, or those of the crontab itself."""
        if task is None:
            return rules_of(self.settings)
        own = {name: getattr(task, name) for name in OF_RULES}
        return rules_of(self.settings, Definition(name="", schedule="", timezone="", command="", **own))

    def problems(self, unheard: Mapping[str, int]) -> Iterator[Problem]:
        """Yield what is wrong with nodes, jobs and the database.

        `unheard` are the numbers of runs of which no node has heard since their nodes died.
        """
        names = {node.name for node in self.living}
        for node in self.nodes:
            if nodes.is_lost(node, names) and node.died_at:
                lost = {"unheard": unheard[node.id]} if unheard.get(node.id) else {}
                died = {"node": node.id, "died_at": node.died_at.isoformat()}
                yield Problem(AlertKind.NODE_LOST, _of_node(node), died | lost)
        for node in filter(nodes.is_clock_off, self.living):
            yield Problem(AlertKind.CLOCK, _of_node(node), {"node": node.id, "offset": node.clock_offset})
        for job, error in self.jobs.items():
            yield Problem(AlertKind.MAINTENANCE_BEHIND, _of_job(job), {"error": error[:_LONGEST_ERROR]})
        if self.database:
            yield Problem(AlertKind.DATABASE, CLUSTER, {"problem": self.database})

    def is_overdue(self, run: Any, rules: Rules) -> bool:
        """Return whether a waiting run should have started by now."""
        return runs.is_overdue(run.due_at, run.lane, rules.start, self.now, self.freezes)

    def is_stale(self, task: Any, within: float | None) -> bool:
        """Return whether a task should have succeeded by now, so many seconds after its last success."""
        since = task.succeeded_at or task.changed_at
        return tasks.is_stale(since, task.not_after, within, self.now, self.freezes)

    # What closes alerts -----------------------------------------------------------------------------

    def closed_as(self, alert: Any) -> ClosedAs | None:
        """Return why an open alert, with its task and its run, is to be closed; None if it is not."""
        if alert.task_id is not None and alert.id is None:
            return ClosedAs.REMOVED
        if alert.task_id is not None and not alert.enabled:
            is_running = alert.kind in _RUNNING and alert.state == RunState.RUNNING
            if alert.paused_at >= alert.opened_at and not is_running:
                return ClosedAs.PAUSED
        return ClosedAs.RECOVERED if self._is_over(alert) else None

    def _is_over(self, alert: Any) -> bool:
        """Return whether the cause of an open alert is gone."""
        match alert.kind:
            case AlertKind.LATE:
                return not (self._waits(alert) and self.is_overdue(alert, self.rules(alert)))
            case AlertKind.UNSERVED:
                return not (self._waits(alert) and alert.lane in self.unserved)
            case AlertKind.TOO_LONG:
                has_no_end = alert.state in _WITHOUT_END and alert.run_id == alert.last_run_id
                return has_no_end or self.rules(alert).runtime is None
            case AlertKind.FLAPPING:
                window = self.rules(alert).flapping
                return window is None or alert.last_at <= self.now - timedelta(seconds=window)
            case AlertKind.UNHEARD:
                return alert.state != RunState.RUNNING or alert.unheard_since is None
            case AlertKind.STALE:
                return not alert.enabled or self.rules(alert).success is None
            case AlertKind.NODE_LOST:
                is_back = any(_of_node(node) == alert.subject for node in self.living)
                return is_back or nodes.is_lost_no_more(alert.opened_at, self.now)
            case AlertKind.CLOCK:
                return alert.subject not in map(_of_node, filter(nodes.is_clock_off, self.living))
            case AlertKind.MAINTENANCE_BEHIND:
                return alert.subject not in map(_of_job, self.jobs)
            case AlertKind.DATABASE:
                return self.database is None
        return False

    def _waits(self, alert: Any) -> bool:
        return bool(alert.enabled) and alert.state == RunState.WAITING


def _of_node(node: Node) -> str:
    return f"node:{node.name[:_LONGEST_NAME]}"


def _of_job(name: str) -> str:
    return f"job:{name[:_LONGEST_NAME]}"
