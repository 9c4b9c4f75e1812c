"""Enumerate the local times of canonical cron expressions with croniter.

croniter does one thing here, which it does reliably: step from one naive local time to the next of an
expression made of numbers. Its own parser reads `5-5` as every value and loses hours in `22-4/3`, and its
time zones fire twice or not at all. So it never sees what people type, nor a zone.
"""

import platform
import struct
from datetime import datetime
from functools import cache, lru_cache
from threading import Lock
from types import ModuleType

from dcron.schedule.effort import spend

LAST_LOCAL_TIME = datetime(9997, 1, 1)  # noqa: DTZ001 a local time
"""The search ends here, so that results with any offset still fit into a datetime."""

_CALL, _YEAR = 50, 100
"""Steps (see `effort`) of one call, and of each year without a match."""
HORIZON_YEARS = 50
"""Years without a match after which a schedule never fires. 29 February on one weekday takes up to 40."""


@cache
def load_croniter() -> ModuleType:
    """Import croniter, without the program that its import executes.

    It asks for the word size of this machine, and `platform` executes the `file` that PATH finds first.
    """
    asked = platform.architecture
    platform.architecture = lambda *_, **__: (f"{8 * struct.calcsize('P')}bit", "")
    try:
        import croniter
    finally:
        platform.architecture = asked
    return croniter  # type: ignore[no-any-return]


class Enumerator:
    """The local times of several expressions together, in order."""

    def __init__(self, expressions: tuple[str, ...]) -> None:
        croniter = load_croniter().croniter
        start = datetime(2000, 1, 1)  # noqa: DTZ001 a local time; each call names its own start
        self._lock = Lock()  # a croniter keeps its position
        self._iterators = [
            croniter(
                expression,
                start,
                # Day of month AND weekday. The OR of cron is two expressions here.
                day_or=False,
                max_years_between_matches=HORIZON_YEARS,
                second_at_beginning=True,
            )
            for expression in expressions
        ]

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """Return the first local time after this one; None if 50 years, or the calendar, hold none."""
        if local_time >= LAST_LOCAL_TIME:
            return None
        with self._lock:
            local_times = [_next(iterator, local_time) for iterator in self._iterators]
        return min((local_time for local_time in local_times if local_time is not None), default=None)


def _next(iterator: object, local_time: datetime) -> datetime | None:
    try:
        found: datetime = iterator.get_next(datetime, start_time=local_time)  # type: ignore[attr-defined]
        spend(_CALL + _YEAR * (found.year - local_time.year))
        return found
    except (ValueError, OverflowError):  # no match within the horizon, or past the year 9999
        spend(_CALL + _YEAR * HORIZON_YEARS)
        return None


@lru_cache(maxsize=4096)
def enumerator(expressions: tuple[str, ...]) -> Enumerator:
    """Return the shared enumerator of these expressions: making one costs as much as three of its steps."""
    return Enumerator(expressions)
