"""Decide whether a due run may start: the limit of its task, and what happens at that limit."""

from dataclasses import dataclass
from datetime import datetime

from dcron.model import Block, Definition, Task, Trigger
from dcron.policy.starting.skip_reasons import Skip, expired_skip, overlap_skip

_SKIPPED = (Trigger.SCHEDULE, Trigger.MANUAL, Trigger.REBOOT, Trigger.NODE)
"""Runs that another run will follow, or a person watches: these may be skipped. All others wait."""


@dataclass(frozen=True)
class Admit:
    """The run may start now."""


@dataclass(frozen=True)
class Wait:
    """The run is blocked until the cause is gone."""

    block: Block
    replaces: bool = False
    """Whether the oldest live run of the task is stopped for it."""


def admit(
    task: Definition, trigger: Trigger, alive: int, *, in_backlog: bool, backfilled: int = 0
) -> Admit | Skip | Wait:
    """Decide about a due run while `alive` runs of its task are alive, `backfilled` of them backfills.

    Overlap skips only a scheduled run, or one that a person asked for. A retry, an event, a step of a flow or
    a backfill waits instead, because no other run would follow it.
    """
    if isinstance(task, Task) and not task.enabled and trigger is not Trigger.MANUAL:
        return Wait(Block.PAUSED)
    if task.max_running is None or alive < task.max_running:
        return Admit()
    if trigger not in (*_SKIPPED, Trigger.EVENT) or in_backlog:
        return Wait(Block.LIMIT)
    if task.overlap == "skip" and alive - backfilled < task.max_running:
        return Wait(Block.LIMIT)  # backfills give way to what is due
    if task.overlap == "skip" and trigger is not Trigger.EVENT:
        return overlap_skip(alive)
    return Wait(Block.LIMIT, replaces=task.overlap == "replace")


def expired(task: Definition, expires_at: datetime | None, now: datetime) -> Skip | None:
    """Return the skip of a run that is too late to start; None while it may start."""
    if expires_at is None or now <= expires_at:
        return None
    return expired_skip(task)
