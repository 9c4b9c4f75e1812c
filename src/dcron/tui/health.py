"""How the line to the database is: what the bar says of it, and what its clock shows."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dcron.errors import DatabaseError

SLOW = 1.0
"""Seconds without an answer before it is said."""
FIRST_RETRY = 1.0
LONGEST_RETRY = 30.0


@dataclass
class Health:
    """What the reader knows of the database. Written by its thread, read by the screen's."""

    interval: float = 2.0
    """Seconds between two looks."""
    paused: bool = False
    asked_at: float | None = None
    """When the question was put that is being answered; a monotonic time, like the others."""
    lost_at: float | None = None
    retry_at: float = 0.0
    error: DatabaseError | None = None
    heard_at: float | None = None
    """When the database last answered."""
    _retry_after: float = FIRST_RETRY
    _seen: datetime | None = field(default=None, repr=False)
    """What the database's clock showed."""
    _seen_at: float = 0.0

    def heard(self, now: datetime | None = None) -> None:
        """The database has answered, and said what its clock shows."""
        self.heard_at = time.monotonic()
        self.lost_at, self.error, self._retry_after = None, None, FIRST_RETRY
        if now:
            self._seen, self._seen_at = now, self.heard_at

    def failed(self, error: DatabaseError) -> float:
        """The database has not answered; seconds until it should be asked again."""
        wait = self._retry_after
        self._retry_after = min(wait * 2, LONGEST_RETRY)
        moment = time.monotonic()
        self.lost_at = self.lost_at or moment
        self.error, self.retry_at = error, moment + wait
        return wait

    def now(self) -> datetime:
        """What the database's clock shows by now, as far as it is known."""
        if self._seen is None:
            return datetime.now(UTC)
        return self._seen + timedelta(seconds=time.monotonic() - self._seen_at)

    @property
    def is_old(self) -> bool:
        """Whether what is shown is older than it should be."""
        if self.lost_at is not None:
            return True
        return self.heard_at is not None and self._waiting() > max(SLOW, 3 * self.interval)

    def told(self) -> str:
        """`* live 2s`, `= paused`, `~ slow 3s`, `x lost 12s (retry 8s)`."""
        moment = time.monotonic()
        if self.lost_at is not None:
            retry = max(0, round(self.retry_at - moment))
            return f"x lost {moment - self.lost_at:.0f}s (retry {retry}s)"
        if self._waiting() > SLOW:
            return f"~ slow {self._waiting():.0f}s" if self.heard_at else f"~ opening {self._waiting():.0f}s"
        if self.heard_at is None:
            return "~ opening"
        return "= paused" if self.paused else f"* live {self.interval:g}s"

    def _waiting(self) -> float:
        return time.monotonic() - self.asked_at if self.asked_at is not None else 0.0
