"""Whether a due run may start: the limit of its line, and what happens when that is reached."""

from dataclasses import dataclass
from datetime import datetime

from dcron.model import Block, SkipCode, Task, Trigger
from dcron.policy.skips import Skip
from dcron.quantities import format_duration

_TURNS = (Trigger.SCHEDULE, Trigger.MANUAL, Trigger.REBOOT, Trigger.NODE)
"""Runs that another one will follow, or somebody is watching: these may be skipped. All others wait."""


@dataclass(frozen=True)
class Admit:
    """It may start now."""


@dataclass(frozen=True)
class Wait:
    """Not now; it is looked at again when the cause is gone."""

    block: Block
    replaces: bool = False
    """The oldest run that is alive is stopped for it."""


def admit(
    task: Task, trigger: Trigger, alive: int, *, in_backlog: bool, backfilled: int = 0
) -> Admit | Skip | Wait:
    """What becomes of a run whose time has come while `alive` runs of its task are, `made_up` of them for
    the past.

    Only a turn of the clock, or one that somebody asked for, is ever skipped because of overlap: a retry, an
    event, a step of a flow or an occurrence that is made up for waits instead, for nothing would follow it.
    """
    if not task.enabled and trigger is not Trigger.MANUAL:
        return Wait(Block.PAUSED)
    if task.max_running is None or alive < task.max_running:
        return Admit()
    if trigger not in (*_TURNS, Trigger.EVENT) or in_backlog:
        return Wait(Block.LIMIT)
    if task.overlap == "skip" and alive - backfilled < task.max_running:
        return Wait(Block.LIMIT)  # what is made up for comes behind what is due
    if task.overlap == "skip" and trigger is not Trigger.EVENT:
        runs = "the previous run is" if alive == 1 else f"{alive} runs are"
        return Skip(SkipCode.OVERLAP, f"overlap: {runs} still alive")
    return Wait(Block.LIMIT, replaces=task.overlap == "replace")


def expired(task: Task, expires_at: datetime | None, now: datetime) -> Skip | None:
    """Return the skip of a run that is too late to start; None while it may start."""
    if expires_at is None or now <= expires_at:
        return None
    within = f" within {format_duration(task.deadline)}" if task.deadline else " in time"
    return Skip(SkipCode.EXPIRED, f"expired: not started{within}")
