"""Measures how the database's clock steps, against a clock of this machine that cannot be set."""

from datetime import datetime

TOLERANCE = 2.0
"""Seconds: a smaller difference is the network's, or a clock being adjusted slowly."""


class ClockWatch:
    """Compares two looks at the database's clock with the time that passed between them."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float, float] | None = None

    def step(self, now: datetime, before: float, after: float) -> float:
        """Return the seconds by which the clock was set since the last look, negative when set back; else 0.

        `now` was read between `before` and `after`, in seconds of a clock that cannot be set.
        """
        last, self._last = self._last, (now, before, after)
        if last is None:
            return 0.0
        then, then_before, then_after = last
        passed = (now - then).total_seconds()
        least, most = before - then_after, after - then_before
        if passed < least - TOLERANCE:
            return passed - least
        return passed - most if passed > most + TOLERANCE else 0.0
