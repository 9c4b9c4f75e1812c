"""Why a run is skipped: a code for programs, and a sentence for people.

Sentences that only the claim or the end of a run needs are in `store/claims/claims.py` and
`store/claims/finishing.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dcron.model import Definition, Freeze, RunState, SkipCode, Task
from dcron.policy.starting.catch_up import MissedRange
from dcron.policy.starting.freezes import reason_of
from dcron.values.quantities import format_duration


@dataclass(frozen=True)
class Skip:
    """A run, or several occurrences together, that will not run."""

    code: SkipCode
    reason: str
    caused_by: int | None = None
    """The other run because of which it is skipped."""
    covers: MissedRange | None = None
    """The occurrences that are skipped together; None for a single run."""

    @property
    def text(self) -> str:
        """Return the reason, with the occurrences that it covers."""
        return f"{self.reason} ({self.covers})" if self.covers else self.reason


def missed_skip(task: Definition, missed: MissedRange, *, too_old: bool) -> Skip:
    """Return the skip of missed occurrences; `too_old` when the catch-up rule leaves all of them out."""
    reason = "missed: no agent could start it"
    if too_old and task.catch_up == "skip":
        reason += ", and catch-up is skip"
    elif too_old:
        reason += f" within the catch-up window of {format_duration(task.catch_up_window or 0)}"
    return Skip(SkipCode.MISSED, reason, covers=missed)


def frozen_skip(freeze: Freeze, missed: MissedRange | None) -> Skip:
    """Return the skip of occurrences that were missed while the crontab was frozen."""
    return Skip(SkipCode.FROZEN, reason_of(freeze), covers=missed)


def paused_skip(task: Task, missed: MissedRange | None = None) -> Skip:
    """Return the skip of what a paused task does not run."""
    by = f" by {task.paused_by}" if task.paused_by else ""
    reason = f": {task.paused_reason}" if task.paused_reason else ""
    return Skip(SkipCode.PAUSED, f"paused{by}{reason}", covers=missed)


def overlap_skip(alive: int) -> Skip:
    """Return the skip of a run while `alive` runs of its task are alive."""
    runs = "the previous run is" if alive == 1 else f"{alive} runs are"
    return Skip(SkipCode.OVERLAP, f"overlap: {runs} still alive")


def overlapped_skip(missed: MissedRange) -> Skip:
    """Return the skip of occurrences that came while an earlier run was alive."""
    return Skip(SkipCode.OVERLAP, "overlap: the run before was still alive", covers=missed)


def expired_skip(task: Definition) -> Skip:
    """Return the skip of a run that was not started before its deadline."""
    within = f" within {format_duration(task.deadline)}" if task.deadline else " in time"
    return Skip(SkipCode.EXPIRED, f"expired: not started{within}")


def suspended_skip(problem: str) -> Skip:
    """Return the skip of a run whose task agents cannot run."""
    return Skip(SkipCode.SUSPENDED, f"suspended: {problem}")


def removed_skip(by: str | None = None) -> Skip:
    """Return the skip of a run whose task was removed by this actor."""
    return Skip(SkipCode.REMOVED, "no longer wanted: removed" + (f" by {by}" if by else ""))


NO_LONGER_WANTED = Skip(SkipCode.EDITED, "no longer wanted")
"""An edit left the task without this run."""
REPLACED = Skip(SkipCode.EDITED, "replaced by an edit")
NODE_GONE = Skip(SkipCode.NODE_GONE, "its node is gone")

_ENDS = {
    RunState.FAILED: "failed",
    RunState.LOST: "was lost",
    RunState.CANCELLED: "was cancelled",
    RunState.SKIPPED: "was skipped",
}


def upstream_skip(task: str, state: RunState, run_id: int) -> Skip:
    """Return the skip of the tasks that come after this run, which did not succeed."""
    return Skip(SkipCode.UPSTREAM, f"{task} {_ENDS[state]} (run {run_id})", caused_by=run_id)


def flow_begun_again_skip(absent: Sequence[str], task: str, run_id: int) -> Skip:
    """Return the skip of a task that waits in a flow for absent tasks, while this run begins a new flow."""
    return Skip(
        SkipCode.FLOW_CLOSED, f"{', '.join(absent)} did not run before {task} ran again (run {run_id})"
    )


def flow_suspended_skip(name: str, error: str) -> Skip:
    """Return the skip of a suspended task in a flow, and of what comes after it."""
    return Skip(SkipCode.FLOW_CLOSED, f"{name} is suspended: {error}")


def outside_flow_skip(names: Sequence[str], flow: int) -> Skip:
    """Return the skip of a task that waits for tasks which this flow does not have."""
    are = "is" if len(names) == 1 else "are"
    return Skip(
        SkipCode.FLOW_CLOSED, f"{', '.join(names)} {are} not part of flow {flow}, which began further on"
    )


def payload_skip(event_id: int, problem: str) -> Skip:
    """Return the skip of a run whose event has a payload that no command can get."""
    return Skip(SkipCode.OTHER, f"no command can be given what event {event_id} carries: {problem}")
