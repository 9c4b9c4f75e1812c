"""Health of the connection to the database, for the header, and the time on the database's clock."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dcron.errors import DatabaseError

SLOW = 1.0
"""Seconds without an answer after which the header says so."""
FIRST_RETRY = 1.0
LONGEST_RETRY = 30.0


@dataclass
class Health:
    """What a database thread knows of its database. Written in that thread, read in the UI thread.

    A reader takes each field once: the thread may change it between two looks.
    """

    interval: float = 2.0
    """Seconds between two checks for changes."""
    paused: bool = False
    asked_at: float | None = None
    """Start of the request under way; a monotonic time, like the others here."""
    lost_at: float | None = None
    retry_at: float = 0.0
    error: DatabaseError | None = None
    heard_at: float | None = None
    """Time of the last answer."""
    _retry_after: float = FIRST_RETRY
    _clock: tuple[datetime, float] | None = field(default=None, repr=False)
    """A time on the database's clock, and the monotonic time at which it was seen."""

    def heard(self) -> None:
        """Record that the database has answered."""
        self.heard_at = time.monotonic()
        self.lost_at, self.error, self._retry_after = None, None, FIRST_RETRY

    def set_clock(self, now: datetime) -> None:
        """Record the time on the database's clock."""
        self._clock = now, time.monotonic()

    def failed(self, error: DatabaseError) -> float:
        """Record an error; return the seconds until the next attempt."""
        wait = self._retry_after
        self._retry_after = min(wait * 2, LONGEST_RETRY)
        monotonic_now = time.monotonic()
        self.error, self.retry_at = error, monotonic_now + wait
        self.lost_at = self.lost_at or monotonic_now
        return wait

    def now(self) -> datetime:
        """Return the time on the database's clock; before the first answer, the time on this machine's."""
        if (clock := self._clock) is None:
            return datetime.now(UTC)
        seen, seen_at = clock
        return seen + timedelta(seconds=time.monotonic() - seen_at)

    @property
    def is_old(self) -> bool:
        """Whether the data on the screen is older than it should be."""
        if self.lost_at is not None:
            return True
        return self.heard_at is not None and self._waiting() > max(SLOW, 3 * self.interval)

    def summary(self) -> str:
        """Return the state in a few words: `* live 2s`, `= paused`, `~ slow 3s`, `x lost 12s (retry 8s)`."""
        monotonic_now, lost_at, heard_at = time.monotonic(), self.lost_at, self.heard_at
        if lost_at is not None:
            retry = max(0, round(self.retry_at - monotonic_now))
            return f"x lost {monotonic_now - lost_at:.0f}s (retry {retry}s)"
        if (waiting := self._waiting()) > SLOW:
            return f"~ slow {waiting:.0f}s" if heard_at else f"~ opening {waiting:.0f}s"
        if heard_at is None:
            return "~ opening"
        return "= paused" if self.paused else f"* live {self.interval:g}s"

    def _waiting(self) -> float:
        asked_at = self.asked_at
        return time.monotonic() - asked_at if asked_at is not None else 0.0
