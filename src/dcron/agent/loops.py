"""Run the agent's loops: wait while the database is unreachable, and stop when asked to."""

import math
import random
import threading
import time
from collections.abc import Callable

from dcron.agent.counters import LoopStatus
from dcron.agent.log import log
from dcron.database import is_refusal, lacks_tables
from dcron.errors import DatabaseError, DatabaseReplaced, SchemaVersionError

_FIRST_PAUSE = 0.2
_TABLES_AWAY = 60.0
"""Seconds for which a loop waits for missing tables: a restore drops them and creates them again."""


class Outage:
    """One loop's view of an unreachable database: report it once, wait longer each time, report its end."""

    def __init__(self, loop: str, longest_pause: float, patience: float = math.inf) -> None:
        """`patience`: seconds, from now, for which to wait."""
        self._loop = loop
        self._give_up = time.monotonic() + patience
        self._longest = longest_pause
        self._pause = 0.0
        self._since = 0.0

    @property
    def left(self) -> float:
        """Seconds for which to go on waiting."""
        return max(0.0, self._give_up - time.monotonic())

    def failed(self, error: DatabaseError) -> float:
        """Note a failure; return the seconds until the next attempt."""
        left = self.left
        if not self._pause:
            self._since = time.monotonic()
            how_long = f"for {left:.0f}s" if left < math.inf else "until it answers"
            log.warning("%s: %s; trying again %s", self._loop, error, how_long, event="database-away")
        self._pause = min(self._longest, max(_FIRST_PAUSE, self._pause * 2))
        return min(left, self._pause * random.uniform(0.5, 1.0))

    def is_hopeless(self, error: DatabaseError) -> bool:
        """Return whether waiting cannot help: a right or a column is missing, or the tables stay away."""
        lasted = time.monotonic() - self._since if self._pause else 0.0
        return (
            isinstance(error, SchemaVersionError)
            or is_refusal(error)
            or (lacks_tables(error) and lasted > _TABLES_AWAY)
        )

    def succeeded(self) -> None:
        """Note a success."""
        if self._pause:
            log.warning("%s: the database answers again", self._loop, event="database-back")
            self._pause = 0.0


def run_loop(
    status: LoopStatus,
    step: Callable[[], float],
    wake: threading.Event,
    stop: threading.Event,
    longest_pause: float,
) -> None:
    """Repeat `step`, which returns the seconds to pause, until `stop` is set. `wake` ends a pause early.

    If the database is unreachable, try again. Any other error ends the loop and is raised: the database
    file was replaced, a right is missing, the tables are of another version.
    """
    outage = Outage(status.name, longest_pause)
    while not stop.is_set():
        status.turns()
        try:
            pause = step()
            outage.succeeded()
        except DatabaseReplaced:
            raise
        except DatabaseError as error:
            if outage.is_hopeless(error):
                raise
            status.database_errors += 1
            pause = outage.failed(error)
        status.pauses(pause)
        wake.wait(pause)
        wake.clear()
