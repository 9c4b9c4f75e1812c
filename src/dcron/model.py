"""The things dcron speaks of, as plain values. Times are aware and in UTC; durations are seconds."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

LAST_RUN = 2**63 - 1
"""The highest id that a run can have in either database."""
LONGEST_DURATION = 36_525 * 86_400
"""Seconds in a century: the upper bound of every duration that people type."""
LONGEST_JITTER = 86_400
"""Seconds in a day."""
MOST_TRIES = 1000
MOST_BACKOFF_FACTOR = 1000


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
    RETRY = "retry"
    """An attempt before it failed, or was lost."""
    EVENT = "event"
    """An event that its schedule names was sent."""
    AFTER = "after"
    """The tasks it comes after have succeeded."""
    BACKFILL = "backfill"
    """Somebody asked for an occurrence of the past."""
    NODE = "node"
    """Its turn, taken on another node, belongs to every node."""


class SkipCode(StrEnum):
    """Why a run was skipped. `dcron why` shows these codes, so they never change (docs/cli.md)."""

    OVERLAP = "overlap"
    """As many runs of its task as allowed were alive."""
    MISSED = "missed"
    """No agent was there, or free, at its time, and catch-up does not run it."""
    EXPIRED = "expired"
    """It was not started before its deadline."""
    PAUSED = "paused"
    """Its task was paused."""
    RAN_EARLY = "ran-early"
    """Its occurrence already ran while the database's clock was ahead."""
    CALENDAR = "calendar"
    """A calendar excludes its date, or is missing."""
    SUSPENDED = "suspended"
    """Agents cannot run its task, or it, as it is written."""
    REMOVED = "removed"
    """Its task was removed."""
    EDITED = "edited"
    """An edit of its task replaced it."""
    NODE_GONE = "node-gone"
    """The only node that could run it is gone."""
    CALLED_OFF = "called-off"
    """It was a retry of a run that had not failed after all."""
    UPSTREAM = "upstream"
    """A task that its task comes after did not succeed."""
    FLOW_CLOSED = "flow-closed"
    """Its flow ended without it."""
    OTHER = "skipped"
    """Only the reason says why."""


class Block(StrEnum):
    """Why a waiting run is not looked at; whatever ends the cause lets it go on."""

    PAUSED = "paused"
    """Its line is paused."""
    LIMIT = "limit"
    """As many runs of its line as may are alive."""
    DELAY = "delay"
    """The run before it, from whose end it is counted, is not over."""


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
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    shell: str = "/bin/sh"
    user: str | None = None
    """The account the command runs as; None is the agent's own."""
    timeout: float | None = None
    """Seconds after which the command and all its children are stopped."""
    max_running: int | None = 1
    """How many runs of it may be alive at once (for one of every node: on each); None is no limit."""
    overlap: Literal["skip", "queue", "replace"] = "skip"
    """A turn that comes while so many are alive: left out, kept waiting, or the oldest is stopped for it."""
    tries: int = 1
    """How many attempts a turn has, the first included."""
    backoff: float = 1.0
    """Seconds from the first attempt's end to the second; each further wait is `backoff_factor` longer."""
    backoff_factor: float = 2.0
    backoff_max: float = 3600.0
    """Seconds that no wait exceeds."""
    on_lost: Literal["dead", "retry"] = "dead"
    """A run whose node died while it ran: told to people, or tried again like one that failed."""
    deadline: float | None = None
    """Seconds after its time beyond which a run is not started any more."""
    catch_up: Literal["skip", "last", "all"] = "last"
    """Which of the occurrences that nobody could run are made up for."""
    catch_up_window: float | None = None
    """Seconds into the past beyond which nothing is made up for; None is no bound."""
    jitter: float | None = None
    """Seconds over which the task's starts are spread, each always by the same amount."""
    priority: Literal["high", "normal", "low"] = "normal"
    queue: str = "default"
    """The queue whose limit its runs count against, and which an agent may or may not serve."""
    require: tuple[str, ...] = ()
    """The tags a node must have to run it."""
    every_node: bool = False
    """Run each turn once on every node that may."""
    need: Mapping[str, float] = field(default_factory=dict)
    """What it takes of its node's capacity while it runs, by name; memory in bytes."""
    limit: Mapping[str, int] = field(default_factory=dict)
    """What the system holds the command to, by the names of `warden.limits`; bytes, seconds and counts."""
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


def _default(of: Field[Any]) -> Any:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return None if of.default is MISSING else of.default


DEFINITION_FIELDS = tuple(each.name for each in fields(Definition))
TIMES_FIELDS = ("schedule", "timezone", "gap", "fold", "not_before", "not_after", "jitter")
"""What decides when a line runs; calendars are asked only when the time has come."""
COMMAND_FIELDS = ("command", "argv", "shell", "stdin", "env", "cwd", "user", "timeout", "limit")
SPEC_FIELDS = TIMES_FIELDS + COMMAND_FIELDS
REQUIRED_FIELDS = ("name", "schedule", "timezone", "command")
SPEC_DEFAULTS: Mapping[str, Any] = {each.name: _default(each) for each in fields(Definition)}


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
    source: str | None = None
    """The file it belongs to, `import:HOST:ACCOUNT:PATH`; None for a task that was typed."""

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
    """When it was put among the dead letters: it failed, and nothing more is tried."""
    cancel_requested_by: str | None
    payload: str | None
    spec: Mapping[str, Any]
    lane: str
    """What a node must be and have to take it, and how urgent it is (`policy.Lane`)."""
    queue: str
    blocked: Block | None
    expires_at: datetime | None
    """When it is too late to start it."""
    backlog_until: datetime | None
    """Occurrences up to then were kept waiting; each still gets its turn."""
    flow: int | None
    """The run with which the flow began that it is part of."""
    event_id: int | None
    refused_by: Mapping[str, str] | None = None
    """Why the nodes that took it before could not begin its command, by their IDs; None where none did."""
    skip_code: SkipCode | None = None
    """Why it was skipped; None where it was not, or where an agent of an earlier version skipped it."""
    caused_by: int | None = None
    """The other run because of which it was skipped."""
    covers_from: datetime | None = None
    covers_until: datetime | None = None
    """The first and the last of several occurrences that the row stands for; None where it is one alone."""
    covers_count: int | None = None
    """How many these are; `policy.COUNT_LIMIT` where there are at least as many."""
    timed_out: bool | None = None
    """Whether it failed because it took longer than it may."""

    @property
    def covers(self) -> tuple[datetime, datetime] | None:
        """Return the first and the last of the occurrences that the row stands for, if these are several."""
        if self.covers_from is None or self.covers_until is None:
            return None
        return self.covers_from, self.covers_until

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
    tags: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    """The queues it serves; none means all."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """What it has for tasks that need something, by name; memory in bytes."""
    lease: float | None = None
    """Seconds that a renewal lasts; None of an agent of an earlier version."""
    account: str | None = None
    """The account it runs as, and as which it runs commands; None where an older agent does not say."""
    uid: int | None = None
    any_account: bool | None = None
    """Whether it may run commands as other accounts, too."""
    running: int = 0

    @property
    def may_be_root(self) -> bool:
        """Whether it may run commands as root; also where it does not say."""
        return self.any_account is not False

    @property
    def accounts(self) -> tuple[str, ...] | None:
        """The accounts it runs commands as, its own by name and by number; None for all, or unknown."""
        if self.account is None or self.any_account is not False:
            return None
        return (self.account, str(self.uid))

    def state(self, now: datetime) -> NodeState:
        """What the node is at `now` (the database's clock)."""
        if self.died_how:
            return NodeState(self.died_how)
        if self.alive_until < now:
            return NodeState.LATE
        return NodeState.DRAINING if self.draining else NodeState.ALIVE


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A limit that many tasks share, over all nodes."""

    name: str
    max_running: int | None
    alive: int = 0


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, and that tasks may wait for."""

    id: int
    name: str
    payload: str | None
    key: str | None
    """Of two events with one name and one key the second is not taken in."""
    created_at: datetime
    created_by: str | None
    handled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class StoredCalendar:
    """A named set of local dates, as the database has it."""

    name: str
    content: Mapping[str, Any]
    """What `schedule.calendar_from_json` reads."""
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, kw_only=True)
class StoredSetting:
    """A setting of the crontab, as the database has it."""

    name: str
    value: Any
    """What its JSON says; `Unreadable` where that cannot be read."""
    changed_at: datetime
    changed_by: str | None


NODE_SUFFIX = 9
"""A node's ID is its name, a dash and eight random hexadecimal digits."""


def node_name(node_id: str) -> str:
    """The name within a node ID."""
    return node_id[:-NODE_SUFFIX]
