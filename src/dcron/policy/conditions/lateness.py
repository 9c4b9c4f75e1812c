"""Which due runs are late, and which a freeze holds back."""

from datetime import datetime

from dcron.model import LATE_AFTER, Run
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.policy.starting.lanes import read_lane


def late_before(now: datetime, frozen: FrozenTime) -> datetime | None:
    """Return the time before which a late run was due; None while a freeze holds all runs back.

    A run is late when it has waited for longer than LATE_AFTER since it was due. Frozen time does not count.
    For runs that a person requested, `frozen` is NEVER: a freeze does not hold them back.
    """
    return None if frozen.at(now) else frozen.waiting_since(LATE_AFTER, now)


def is_late(due: datetime, now: datetime, frozen: FrozenTime) -> bool:
    """Return whether a waiting run that was due at this time is late."""
    before = late_before(now, frozen)
    return before is not None and due < before


def frozen_for(run: Run, frozen: FrozenTime) -> FrozenTime:
    """Return the times in which a freeze holds this run back: none if a person requested it."""
    lane = read_lane(run.lane)
    return NEVER if lane and lane.is_requested else frozen
