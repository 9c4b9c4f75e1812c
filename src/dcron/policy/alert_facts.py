"""What is known about an alert: its runs, its task, and the change before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.model import Alert, Run
from dcron.policy.history import RecordedChange


@dataclass(frozen=True)
class Origin:
    """A run, where it ran, and what it had there."""

    run: Run
    version: str | None
    """The release of the node; None if the node is unknown."""
    began_at: datetime | None
    """When the node started."""
    tzdata: str | None


@dataclass(frozen=True)
class AlertFacts:
    """An alert, and what is known of its task and its runs."""

    alert: Alert
    run: Run | None = None
    """The last run that it is about; None where it was pruned, or is about none."""
    timezone: str | None = None
    """That of the task; None if it was removed."""
    success: Origin | None = None
    """The last success of the task; None where none of the latest runs succeeded."""
    next_run_at: datetime | None = None
    change: RecordedChange | None = None
    """The last change of the task before the alert was opened."""
    output: Sequence[bytes] = ()
    """The last lines that the run wrote; empty unless requested."""
    first_bad: Origin | None = None
    """The first run that it is about."""

    @property
    def last_success(self) -> Run | None:
        """The run of the last success."""
        return self.success.run if self.success else None
