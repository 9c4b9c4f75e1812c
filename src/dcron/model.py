"""The things dcron speaks of, as plain values. Times are aware and in UTC; durations are seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


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


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    REBOOT = "reboot"


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
    describe: str | None = None
