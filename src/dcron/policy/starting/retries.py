"""Retries: whether a failed run is retried, when, and on which nodes."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dcron.model import Definition, Node, RunState
from dcron.policy.starting.lanes import Lane, served_by
from dcron.policy.starting.occurrences import fraction

SPREAD = 0.25
"""By how much of itself a retry delay may be longer, so that runs that failed together spread out."""
NEVER_BEGUN = 1.0
"""Least seconds until a run whose command never started is due again."""
MOST_REFUSALS = 5
"""How many nodes may refuse one attempt: what five cannot start, a sixth hardly can."""
LONGEST_LANE = 2_000
"""Characters; an index of Postgres accepts little more."""


def retry_at(
    task: Definition, run_id: int, attempt: int, state: RunState, ended_at: datetime
) -> datetime | None:
    """Return when the next attempt is due after number `attempt` failed or was lost; None for no more."""
    if not state.is_failure or attempt >= task.tries:
        return None
    if state is RunState.LOST and task.on_lost != "retry":
        return None
    return ended_at + timedelta(seconds=retry_delay(task, run_id, attempt))


def begin_again_at(task: Definition, run_id: int, attempt: int, ended_at: datetime) -> datetime:
    """Return when a run is due again whose command certainly never started. This costs no attempt."""
    return ended_at + timedelta(seconds=max(NEVER_BEGUN, retry_delay(task, run_id, attempt)))


def lane_after_refusal(lane: Lane, refused_by: Mapping[str, str], nodes: Iterable[Node]) -> Lane | None:
    """Return the lane of a run whose command these nodes, by their IDs, could not start; None to give up.

    The run goes on while one of `nodes`, all living ones, is eligible and has not refused it. A run that
    belongs to one node goes to no other.
    """
    further = lane.after_refusals(refused_by)
    if lane.node or len(refused_by) > MOST_REFUSALS or len(str(further)) > LONGEST_LANE:
        return None
    return further if has_node(further, nodes) else None


def has_node(lane: Lane, nodes: Iterable[Node]) -> bool:
    """Return whether one of these living nodes is eligible for the lane and does not drain."""
    return any(served_by(lane, node) for node in nodes if not node.draining)


def retry_delay(task: Definition, run_id: int, attempt: int) -> float:
    """Return the seconds between two attempts: growing, spread, at most `backoff_max`."""
    if not task.backoff:
        return 0.0
    grown = _grown(task.backoff, task.backoff_factor, attempt, task.backoff_max)
    return min(task.backoff_max, grown * (1 + SPREAD * fraction(f"retry of {run_id}")))


def notification_delay(tries: int) -> timedelta:
    """Return the time until a notification is tried again: 30 s, 2 min, 8 min, then every 32 min."""
    return timedelta(seconds=_grown(30.0, 4, tries, 1920.0))


def _grown(first: float, factor: float, number: int, longest: float) -> float:
    try:
        return min(longest, first * factor ** (number - 1))
    except OverflowError:
        return longest
