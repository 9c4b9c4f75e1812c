"""Tasks, runs, nodes and other records as plain values. Times are aware and in UTC, durations in seconds."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple

LAST_RUN = 2**63 - 1
"""The highest id that a run can have in either database."""
LONGEST_DURATION = 36_525 * 86_400
"""Seconds in a century: the upper bound of every duration that people type."""
LONGEST_JITTER = 86_400
"""Seconds in a day."""
MOST_TRIES = 1000
MOST_BACKOFF_FACTOR = 1000
MOST_NOTIFY_AFTER = 1000


LATE_AFTER = timedelta(seconds=15)
"""A task is late when a run of it that nothing holds back has been due for longer than this."""


class RunState(StrEnum):
    """The state of a run (the chart is in docs/architecture.md)."""

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
        """Return whether the run has ended."""
        return self not in (RunState.WAITING, RunState.CLAIMED, RunState.RUNNING)

    @property
    def is_failure(self) -> bool:
        """Return whether the run ended badly: it failed, or it was lost."""
        return self in (RunState.FAILED, RunState.LOST)


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    """An occurrence of its schedule is due."""
    MANUAL = "manual"
    """A person ran the task with `dcron run`."""
    REBOOT = "reboot"
    """A node started."""
    RETRY = "retry"
    """An attempt before it failed, or was lost."""
    EVENT = "event"
    """A person or program sent an event that its schedule names."""
    AFTER = "after"
    """The upstream tasks of its schedule have succeeded."""
    BACKFILL = "backfill"
    """A person backfilled an occurrence of the past."""
    NODE = "node"
    """A run on every node: another node has started the same occurrence."""


class SkipCode(StrEnum):
    """Why a run was skipped. `dcron why` shows these codes, so they never change (docs/cli.md)."""

    OVERLAP = "overlap"
    """As many runs of its task as allowed were alive."""
    MISSED = "missed"
    """No agent could start it at its time, and catch-up does not run it."""
    EXPIRED = "expired"
    """It was not started before its deadline."""
    PAUSED = "paused"
    """Its task was paused."""
    FROZEN = "frozen"
    """The crontab was frozen, and catch-up does not run it."""
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
    """Why a waiting run cannot be claimed. What ends the cause clears the block."""

    PAUSED = "paused"
    """Its task is paused."""
    LIMIT = "limit"
    """As many runs of its task are alive as its limit allows."""
    DELAY = "delay"
    """The previous run, from whose end its time is counted, has not ended."""


class AlertKind(StrEnum):
    """What an alert is about. People write these words with `--notify-on`, so they never change."""

    FAILING = "failing"
    """A run of its task ended badly, and nothing more is tried."""
    LATE = "late"
    """A run of its task is due and has not started."""
    TOO_LONG = "too-long"
    """A run of its task takes, or took, longer than expected."""
    TOO_SHORT = "too-short"
    """A run of its task succeeded sooner than expected."""
    STALE = "stale"
    """Its task has not succeeded for longer than expected."""
    MISSED = "missed"
    """Occurrences of its task were skipped because no agent could start them in time."""
    FLAPPING = "flapping"
    """Another alert of its task was opened several times within a short time."""
    UNHEARD = "unheard"
    """No node has heard of a run of its task whose command may still run."""
    NODE_LOST = "node-lost"
    """A node died: it stopped without saying so."""
    UNSERVED = "unserved"
    """No living node can take the next run of its task."""
    MAINTENANCE_BEHIND = "maintenance-behind"
    """A maintenance job fails, or has not been done for a long time."""
    UNDELIVERABLE = "undeliverable"
    """A channel could not send a message."""
    CLOCK = "clock"
    """The clock of the database, or of a node, is wrong."""
    DATABASE = "database"
    """The database needs attention."""


class ClosedAs(StrEnum):
    """Why an alert was closed. Programs read these words, so they never change."""

    RECOVERED = "recovered"
    """Its cause is gone."""
    REMOVED = "removed"
    """Its task was removed."""
    PAUSED = "paused"
    """Its task was paused after the alert was opened."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A task as a person writes it. fields/registry.py says how each field is typed, shown and checked."""

    name: str
    schedule: str
    timezone: str
    command: str
    """A shell line. With `argv`, the same words, quoted for reading."""
    argv: tuple[str, ...] | None = None
    """The words to execute without a shell. None: `shell` runs `command`."""
    stdin: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    shell: str = "/bin/sh"
    user: str | None = None
    """The account that runs the command. None: the agent's own."""
    timeout: float | None = None
    """Seconds after which the agent stops the command and all its children."""
    max_running: int | None = 1
    """How many of its runs may be alive at once; with `every_node`, on each node. None: no limit."""
    overlap: Literal["skip", "queue", "replace"] = "skip"
    """What happens to a run that is due while `max_running` are alive: skip it, keep it waiting, or stop the
    oldest for it."""
    tries: int = 1
    """Number of attempts, the first included."""
    backoff: float = 1.0
    """Seconds before the second attempt. Each further delay is `backoff_factor` times longer."""
    backoff_factor: float = 2.0
    backoff_max: float = 3600.0
    """Longest delay between attempts, in seconds."""
    on_lost: Literal["dead", "retry"] = "dead"
    """A run whose node died becomes a dead letter, or is retried like one that failed."""
    on_disconnect: Literal["stop", "keep"] | None = None
    """What happens to its command when its node cannot reach the database for most of a lease: the node ends
    it, or lets it go on and records its end later. None: the setting `on-disconnect`."""
    deadline: float | None = None
    """Seconds after its time after which a run is skipped instead of started."""
    catch_up: Literal["skip", "last", "all"] = "last"
    """Which missed occurrences are caught up on."""
    catch_up_window: float | None = None
    """How many seconds back missed occurrences are caught up on. None: no bound."""
    jitter: float | None = None
    """Longest delay of a start, in seconds. The delay of one occurrence is the same on every node."""
    priority: Literal["high", "normal", "low"] = "normal"
    queue: str = "default"
    """The queue whose limit its runs count against. An agent serves all queues or some."""
    require: tuple[str, ...] = ()
    """The tags that a node must have to run it."""
    every_node: bool = False
    """Repeat each scheduled run once on every eligible node."""
    need: Mapping[str, float] = field(default_factory=dict)
    """Part of its node's capacity that a run takes, by name. Memory is in bytes."""
    limit: Mapping[str, int] = field(default_factory=dict)
    """Limits of the operating system by the names in `warden.limits`, in bytes, seconds and counts."""
    gap: Literal["after", "skip"] = "after"
    """A local time that the clock skips: run when the gap ends, or not at all."""
    fold: Literal["first", "both"] = "first"
    """A local time that the clock shows twice: run the first time, or both times."""
    not_before: datetime | None = None
    not_after: datetime | None = None
    """The window in which the schedule applies. An occurrence exactly at its end still runs."""
    except_calendar: str | None = None
    """Calendar on whose dates, in the task's zone, occurrences are skipped."""
    only_calendar: str | None = None
    """Calendar on whose dates alone occurrences run. The others are skipped."""
    describe: str | None = None
    keep: Mapping[str, float | str] = field(default_factory=dict)
    """How long its history is kept where that differs from the settings `keep.*`, by the names in
    `fields.retention`: seconds, a number of runs, or `none`."""
    notify: tuple[str, ...] = ()
    """The channels that get messages about it. Empty: those of the setting `notify.default`."""
    notify_on: tuple[str, ...] = ()
    """The kinds of alerts that cause messages, and `output`. Empty: those of the setting `notify.on`."""
    notify_after: int | None = None
    """How many runs in a row have to fail before it counts as failing. None: the setting `notify.after`."""
    expect: Mapping[str, float | str] = field(default_factory=dict)
    """What is expected of its runs where that differs from the settings `expect.*`, by the names in
    `fields.expectations`."""
    ping: str | None = None
    """The URL that is requested when a run starts and ends, in the form of Healthchecks."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Words by which people choose tasks (`-l team=shop`). They change no run."""

    def spec(self) -> dict[str, Any]:
        """Return what a run copies: all that decides when and how the command runs.

        Defaults are left out. Times are texts.
        """
        values = vars(self)
        return {
            name: str(value) if isinstance(value, datetime) else value
            for name, default in _SPEC_DEFAULTS
            if (value := values[name]) != default
        }


def _default(of: Field[Any]) -> Any:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return None if of.default is MISSING else of.default


DEFINITION_FIELDS = tuple(each.name for each in fields(Definition))
TIMES_FIELDS = ("schedule", "timezone", "gap", "fold", "not_before", "not_after", "jitter")
"""What decides when a task runs. Calendars do not belong here: they are read when a run is due."""
COMMAND_FIELDS = ("command", "argv", "shell", "stdin", "env", "cwd", "user", "timeout", "limit")
SPEC_FIELDS = TIMES_FIELDS + COMMAND_FIELDS
REQUIRED_FIELDS = ("name", "schedule", "timezone", "command")
SPEC_DEFAULTS: Mapping[str, Any] = {each.name: _default(each) for each in fields(Definition)}
_SPEC_DEFAULTS = [(name, SPEC_DEFAULTS[name]) for name in SPEC_FIELDS]


class Ownership(NamedTuple):
    """The columns of a task that say whose it is."""

    source: str | None = None
    applied: str | None = None


UNOWNED = Ownership()


@dataclass(frozen=True)
class Pause:
    """A pause, as a change has it."""

    reason: str | None = None
    by: str | None = None
    at: datetime | None = None
    until: datetime | None = None

    def is_like(self, other: "Pause | None") -> bool:
        """Return whether the other pause has the same reason and end; who began it when does not count."""
        return other is not None and (self.reason, self.until) == (other.reason, other.until)


@dataclass(frozen=True)
class TaskState:
    """A task before or after a change: all that a person has decided about it."""

    definition: Definition
    pause: Pause | None = None
    """None: it was not paused."""
    once: bool = False
    ownership: Ownership = UNOWNED

    def columns(self) -> dict[str, Any]:
        """Return the columns of a task beside its definition."""
        pause = self.pause or Pause()
        return {
            "once": self.once,
            **self.ownership._asdict(),
            "enabled": self.pause is None,
            "paused_reason": pause.reason,
            "paused_by": pause.by,
            "paused_at": pause.at,
            "paused_until": pause.until,
        }

    def is_like(self, other: "TaskState | None", *, owned_alike: bool = True) -> bool:
        """Return whether the other state is the same; with `owned_alike`, also whose the task is."""
        if other is None or self.definition != other.definition or self.once != other.once:
            return False
        if owned_alike and self.ownership != other.ownership:
            return False
        return self.pause.is_like(other.pause) if self.pause else other.pause is None


@dataclass(frozen=True, kw_only=True)
class Task(Definition):
    """A task in the crontab."""

    id: int
    version: int
    """Grows with every edit. An edit of an older version is refused."""
    planned_version: int
    enabled: bool
    paused_reason: str | None
    paused_by: str | None
    paused_at: datetime | None
    paused_until: datetime | None
    once: bool
    """Made by `at`. It leaves the crontab when its run has succeeded."""
    error: str | None
    """Why its next run cannot be planned."""
    changed_at: datetime
    changed_by: str | None
    except_content: str | None = None
    only_content: str | None = None
    """The calendars of these names, as JSON. None: it names no calendar, or one that does not exist."""
    source: str | None = None
    """The file it was imported from, `import:HOST:ACCOUNT:PATH`. None: a person typed it."""
    applied: str | None = None
    """The digest of the definition that `apply` wrote. None: it did not."""

    def definition(self) -> Definition:
        """Return the task as a person wrote it."""
        return Definition(**{name: getattr(self, name) for name in DEFINITION_FIELDS})

    def ownership(self) -> Ownership:
        """Return the columns that say whose it is."""
        return Ownership(self.source, self.applied)

    def state(self) -> TaskState:
        """Return all that a person has decided about it."""
        pause = Pause(self.paused_reason, self.paused_by, self.paused_at, self.paused_until)
        return TaskState(self.definition(), None if self.enabled else pause, self.once, self.ownership())


@dataclass(frozen=True, kw_only=True)
class Run:
    """One attempt to run the command of a task."""

    id: int
    task_id: int
    """The id of its task. Of a trial it is negated, so nothing that reads the runs of a task finds it."""
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
    """When it became a dead letter: it failed, and no further attempt follows."""
    cancel_requested_by: str | None
    payload: str | None
    spec: Mapping[str, Any]
    lane: str
    """What it requires of a node, and its priority (`policy.Lane`)."""
    queue: str
    blocked: Block | None
    expires_at: datetime | None
    """When it is too late to start it."""
    backlog_until: datetime | None
    """Occurrences up to this time are queued, and each still gets a run."""
    flow: int | None
    """The id of the root run of its flow."""
    event_id: int | None
    refused_by: Mapping[str, str] | None = None
    """Why nodes that claimed it could not start its command, by their ids. None: no node failed to."""
    skip_code: SkipCode | None = None
    """Why it was skipped; None where it was not, or where an agent of an earlier version skipped it."""
    caused_by: int | None = None
    """The other run because of which it was skipped."""
    covers_from: datetime | None = None
    covers_until: datetime | None = None
    """The first and last of the occurrences that the row covers; None if it covers only its own."""
    covers_count: int | None = None
    """How many these are; `policy.COUNT_LIMIT` where there are at least as many."""
    timed_out: bool | None = None
    """Whether it failed because it took longer than it may."""
    on_disconnect: str | None = None
    """`keep` if its command goes on while its node cannot reach the database. None: it is ended then."""
    unheard_since: datetime | None = None
    """Since when no node has heard of it: its node was declared dead, and its command may still run."""
    lost_after: datetime | None = None
    """When an unheard run counts as lost. None: once a person says so, or its node comes back."""

    @property
    def is_trial(self) -> bool:
        """Return whether it runs something other than the saved task: a tried change, or a former run."""
        return self.task_id < 0

    @property
    def is_unheard(self) -> bool:
        """Return whether its node was declared dead and its command may still run."""
        return self.state is RunState.RUNNING and self.unheard_since is not None

    @property
    def about_task(self) -> int:
        """Return the id of the task that it runs, or of whose definition it tries another one."""
        return abs(self.task_id)

    @property
    def covers(self) -> tuple[datetime, datetime] | None:
        """Return the first and last of the occurrences that the row covers, if there are several."""
        if self.covers_from is None or self.covers_until is None:
            return None
        return self.covers_from, self.covers_until

    @property
    def node(self) -> str | None:
        """Return the name of the owner's node."""
        return node_name(self.owner) if self.owner else None

    def duration(self, now: datetime) -> float | None:
        """Return the seconds that it ran, or has been running until `now`."""
        if self.started_at is None:
            return None
        return max(0.0, ((self.finished_at or now) - self.started_at).total_seconds())


class NodeState(StrEnum):
    """The state of a node."""

    ALIVE = "alive"
    DRAINING = "draining"
    LATE = "late"
    """Its lease has expired and no node has declared it dead yet."""
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One agent process, from its start to its end."""

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
    """The queues it serves. Empty: all."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """What tasks can need of it, by name. Memory is in bytes."""
    lease: float | None = None
    """Seconds that a renewal lasts. None: an agent of an earlier version."""
    account: str | None = None
    """The account that it runs as, and runs commands as. None: an agent of an earlier version."""
    uid: int | None = None
    any_account: bool | None = None
    """Whether it may also run commands as other accounts."""
    channels: tuple[str, ...] = ()
    """The names of the channels by which it can send messages."""
    accepted_accounts: tuple[str, ...] | None = None
    """The accounts that its policy accepts, as `accounts.accepts` reads them. None: an earlier version."""
    policy_digest: str | None = None
    """What identifies the rules that it has published; None without further rules than accounts."""
    policy_error: str | None = None
    """Why the present policy file is not in force; None if it is."""
    running: int = 0
    unheard: int = 0
    """Its runs that it was not heard of with since it was declared dead: their commands may still run."""
    unheard_since: datetime | None = None

    @property
    def may_be_root(self) -> bool:
        """Return whether it may run commands as root. An agent of an earlier version may."""
        if self.accepted_accounts is not None:
            return "root" in self.accepted_accounts
        return self.any_account is not False

    @property
    def accounts(self) -> tuple[str, ...] | None:
        """Return the accounts it runs commands as, by name and by number. None: all, or unknown.

        `*` is every account but root.
        """
        if self.accepted_accounts is not None:
            return self.accepted_accounts
        if self.account is None or self.any_account is not False:
            return None
        return (self.account, str(self.uid))

    @property
    def used_slots(self) -> int:
        """Return how many slots to show as used.

        A run whose end is being recorded has left its slot, and the next run may have it already. So up to
        twice as many runs as slots use all slots. A greater number is shown: then ends are not recorded.
        """
        return self.running if self.running > 2 * self.slots else min(self.running, self.slots)

    def state(self, now: datetime) -> NodeState:
        """Return the state at `now` by the database's clock."""
        if self.died_how:
            return NodeState(self.died_how)
        if self.alive_until < now:
            return NodeState.LATE
        return NodeState.DRAINING if self.draining else NodeState.ALIVE


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A limit that tasks share, over all nodes."""

    name: str
    max_running: int | None
    alive: int = 0


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event that tasks can wait for."""

    id: int
    name: str
    payload: str | None
    key: str | None
    """A second event with the same name and key is a duplicate and is ignored."""
    created_at: datetime
    created_by: str | None
    handled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Alert:
    """Something that is wrong, or was. There is one open alert per kind and subject."""

    id: int
    kind: str
    """An `AlertKind`, or a word that a later version has written."""
    subject: str
    """What it is about: `task:ID`, `node:NAME`, `job:NAME`, `channel:NAME` or `cluster`."""
    task_id: int | None
    task: str | None
    """The name of its task; of one that was removed, its name when the alert was opened."""
    opened_at: datetime
    run_id: int | None
    """The run that opened it."""
    times: int
    """How often its cause was seen."""
    last_at: datetime
    last_run_id: int | None
    notified_at: datetime | None
    """When the last notification of it was written. None: none was."""
    remind_at: datetime | None
    """When the next reminder is due."""
    acknowledged_by: str | None
    acknowledged_at: datetime | None
    acknowledged_note: str | None
    silent_until: datetime | None
    """Until then it causes no reminders."""
    closed_at: datetime | None
    closed_as: str | None
    """A `ClosedAs`, or a word that a later version has written; None while it is open."""
    facts: Mapping[str, Any]
    """What messages about it say beyond the columns."""


NotificationKind = Literal["opened", "reminder", "closed", "output"]


@dataclass(frozen=True, kw_only=True)
class Notification:
    """One thing to be sent by one channel. A message has all that wait for their channel."""

    id: int
    alert_id: int | None
    run_id: int | None
    task_id: int | None
    channel: str
    kind: str
    """A `NotificationKind`, or a word that a later version has written."""
    created_at: datetime
    due_at: datetime
    tries: int
    holder: str | None
    """The node that is sending it, until `held_until`."""
    held_until: datetime | None
    sent_at: datetime | None
    sent_by: str | None
    gave_up_at: datetime | None
    error: str | None
    """Why the last try failed."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A time in which no run starts by itself."""

    id: int
    from_at: datetime
    until_at: datetime | None
    """Its end. None: it ends when a person thaws it."""
    reason: str | None
    selector: str | None
    """The labels of the tasks that it is about. None: all tasks."""
    created_at: datetime
    created_by: str | None
    thawed_at: datetime | None
    thawed_by: str | None


@dataclass(frozen=True, kw_only=True)
class StoredCalendar:
    """A named set of local dates, as the database stores it."""

    name: str
    content: Mapping[str, Any]
    """What `schedule.calendar_from_json` reads."""
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, kw_only=True)
class StoredSetting:
    """A setting of the crontab, as the database stores it."""

    name: str
    value: Any
    """The value of its JSON; `Unreadable` if that cannot be read."""
    changed_at: datetime
    changed_by: str | None


NODE_SUFFIX = 9
"""A node's ID is its name, a dash and eight random hexadecimal digits."""


def node_name(node_id: str) -> str:
    """Return the name within a node ID."""
    return node_id[:-NODE_SUFFIX]
