"""What is wrong with a task: it has not succeeded for too long, or no node serves its runs."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from dcron.model import Node
from dcron.policy.conditions.runs import Freezes, has_waited
from dcron.policy.starting.lanes import Lane, why_unschedulable


def is_stale(
    since: datetime, not_after: datetime | None, within: float | None, now: datetime, freezes: Freezes
) -> bool:
    """Return whether a task should have succeeded again `within` seconds `since` its last success.

    A task whose window is over, or of which nothing is expected, is not stale.
    """
    has_ended = not_after is not None and not_after < now
    return within is not None and not has_ended and has_waited(since, within, now, freezes)


def unserved(lanes: Iterable[Lane], living: Sequence[Node]) -> dict[str, str]:
    """Return why none of these nodes takes the runs of a lane, by lane."""
    found = ((str(lane), why_unschedulable(lane, living)) for lane in lanes)
    return {lane: why for lane, why in found if why}
