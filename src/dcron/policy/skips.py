"""Why a run is skipped: a code for programs, and a sentence for people."""

from dataclasses import dataclass

from dcron.model import Definition, SkipCode, Task
from dcron.policy.catch_up import MissedRange
from dcron.quantities import format_duration


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


def paused_skip(task: Task, missed: MissedRange | None = None) -> Skip:
    """Return the skip of what a paused task does not run."""
    by = f" by {task.paused_by}" if task.paused_by else ""
    reason = f": {task.paused_reason}" if task.paused_reason else ""
    return Skip(SkipCode.PAUSED, f"paused{by}{reason}", covers=missed)
