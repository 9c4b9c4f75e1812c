"""The clock of a Postgres server, without a round trip for each look at it."""

from datetime import UTC, datetime, timedelta
from time import CLOCK_BOOTTIME, clock_gettime

_FRESH = 2.0
"""Seconds after which the clock is read again. Until then clocks of two machines do not drift apart."""


class ServerClock:
    """The last reading of the server's clock, plus the time that has passed here since.

    That is never ahead of the server's clock, and behind it by less than the reply took.
    """

    def __init__(self) -> None:
        self._reading: tuple[datetime, float] | None = None

    def read(self, at: datetime) -> datetime:
        """Note a reading that has just arrived; return it in UTC."""
        self._reading = at.astimezone(UTC), clock_gettime(CLOCK_BOOTTIME)
        return self._reading[0]

    def forget(self) -> None:
        """Forget the last reading: another server may answer from now on."""
        self._reading = None

    def now(self) -> datetime | None:
        """Return the server's time; None if the last reading is too old."""
        if self._reading is None:
            return None
        at, read_at = self._reading
        passed = clock_gettime(CLOCK_BOOTTIME) - read_at
        return at + timedelta(seconds=passed) if passed < _FRESH else None
