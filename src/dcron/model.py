"""The things dcron speaks of, as plain values. Times are aware and in UTC; durations are seconds."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal


class RunState(StrEnum):
    """Where a run stands (the chart is in docs/architecture.md)."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self not in (RunState.WAITING, RunState.CLAIMED, RunState.RUNNING)


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    """Its time came."""
    MANUAL = "manual"
    """Somebody said `run`."""
    REBOOT = "reboot"
    """A node started."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A line of the shared crontab as a person writes it."""

    name: str
    schedule: str
    timezone: str
    command: str
    """A shell line; with `argv`, the same words quoted for reading."""
    argv: tuple[str, ...] | None = None
    """The words to execute without a shell, or None to hand `command` to `shell`."""
    shell: str = "/bin/sh"
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None
    """The account the command runs as; None is the agent's own."""
    timeout: float | None = None
    """Seconds after which the command and all its children are stopped."""
    max_running: int | None = 1
    """How many runs of this task may be alive at once; None is no limit."""
    gap: Literal["after", "skip"] = "after"
    """A wall time that the clock leaves out: run when the gap ends, or not at all."""
    fold: Literal["first", "both"] = "first"
    """A wall time that the clock shows twice: run the first time, or both times."""
    not_before: datetime | None = None
    not_after: datetime | None = None
    """The window in which the schedule holds; an occurrence exactly at its end still runs."""
    except_calendar: str | None = None
    """The calendar on whose dates, by the task's zone, occurrences are skipped."""
    only_calendar: str | None = None
    """The calendar on whose dates alone occurrences run; the others are skipped."""
    describe: str | None = None

    def spec(self) -> dict[str, Any]:
        """What a run copies: everything that decides when and how the command is executed.

        Values that `add` gives by default are left out; times stand as texts.
        """
        values = {name: getattr(self, name) for name in SPEC_FIELDS}
        return {
            name: str(value) if isinstance(value, datetime) else value
            for name, value in values.items()
            if value != SPEC_DEFAULTS[name]
        }


DEFINITION_FIELDS = tuple(each.name for each in fields(Definition))
TIMES_FIELDS = ("schedule", "timezone", "gap", "fold", "not_before", "not_after")
"""What decides when a line runs; calendars are asked only when the time has come."""
COMMAND_FIELDS = ("command", "argv", "shell", "stdin", "env", "cwd", "user", "timeout")
SPEC_FIELDS = TIMES_FIELDS + COMMAND_FIELDS
SPEC_DEFAULTS: Mapping[str, Any] = {
    each.name: {} if each.name == "env" else None if each.default is MISSING else each.default
    for each in fields(Definition)
}


@dataclass(frozen=True, kw_only=True)
class Task(Definition):
    """A line that stands in the crontab."""

    id: int
    version: int
    """Grows with every edit; an edit that was made from an older one is refused."""
    planned_version: int
    enabled: bool
    paused_reason: str | None
    paused_by: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    once: bool
    """Made by `at` or `in`: leaves the crontab when its run has ended."""
    error: str | None
    """Why it has no next run although it should."""
    changed_at: datetime
    changed_by: str | None
    except_content: str | None = None
    only_content: str | None = None
    """What the calendars of these names hold, as JSON; None where it names none, or one that is gone."""

    def definition(self) -> Definition:
        """The line as it was written."""
        return Definition(**{name: getattr(self, name) for name in DEFINITION_FIELDS})


@dataclass(frozen=True, kw_only=True)
class Run:
    """One turn of a task: one attempt to execute its command."""

    id: int
    task_id: int
    task: str
    trigger: Trigger
    state: RunState
    reason: str | None
    attempt: int
    retry_of: int | None
    scheduled_for: datetime
    due_at: datetime
    for_node: str | None
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    owner: str | None
    exit_code: int | None
    signal: int | None
    dead_at: datetime | None
    cancel_requested_by: str | None
    payload: str | None
    spec: Mapping[str, Any]

    @property
    def node(self) -> str | None:
        """The name of the owner's node."""
        return node_name(self.owner) if self.owner else None

    def duration(self, now: datetime) -> float | None:
        """Seconds it ran, or has been running until `now`."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or now) - self.started_at).total_seconds())


class NodeState(StrEnum):
    """Where a node stands."""

    ALIVE = "alive"
    DRAINING = "draining"
    LATE = "late"
    """Its lease is over and nobody has declared it dead yet."""
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One running agent, from its start to its end."""

    id: str
    name: str
    host: str
    pid: int
    slots: int
    version: str
    tzdata: str
    tzdata_fingerprint: str | None = None
    started_at: datetime
    alive_until: datetime
    draining: bool
    died_at: datetime | None
    died_how: str | None
    clock_offset: float | None
    running: int = 0

    def state(self, now: datetime) -> NodeState:
        """What the node is at `now` (the database's clock)."""
        if self.died_how:
            return NodeState(self.died_how)
        if self.alive_until < now:
            return NodeState.LATE
        return NodeState.DRAINING if self.draining else NodeState.ALIVE


@dataclass(frozen=True, kw_only=True)
class StoredCalendar:
    """A named set of local dates, as the database has it."""

    name: str
    content: Mapping[str, Any]
    """What `schedule.calendar_from_json` reads."""
    changed_at: datetime
    changed_by: str


NODE_SUFFIX = 9
"""A node's ID is its name, a dash and eight random hexadecimal digits."""


def node_name(node_id: str) -> str:
    """The name within a node ID."""
    return node_id[:-NODE_SUFFIX]
