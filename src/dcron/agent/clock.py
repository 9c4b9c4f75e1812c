"""Detect steps of the database's clock by a clock of this machine that cannot be set."""

from datetime import datetime

TOLERANCE = 2.0
"""Seconds. A smaller difference comes from the network or from a clock that is adjusted slowly."""


class ClockWatch:
    """Compares the time that passed on the database's clock with the time that passed here."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float, float] | None = None

    def step(self, now: datetime, before: float, after: float) -> float:
        """Return by how many seconds the clock was set since the last call: negative if set back, 0 if not
        set.

        `now` is the database's time. `before` and `after` are seconds of a clock that cannot be set, read
        just before and just after it.
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
