"""How the agent's loops go on when the database goes away, and stop when they are told to."""

import logging
import math
import random
import threading
from collections.abc import Callable

from dcron.errors import DatabaseError

log = logging.getLogger("dcron.agent")

_FIRST_PAUSE = 0.2


class Outage:
    """One loop's view of a database that is away: says so once, waits ever longer, says when it is back."""

    def __init__(self, loop: str, longest_pause: float, patience: float = math.inf) -> None:
        """`patience` is for how many seconds it is waited for, to be told."""
        self._loop = loop
        self._patience = f"for {patience:g}s" if patience < math.inf else "until it answers"
        self._longest = longest_pause
        self._pause = 0.0

    def failed(self, error: DatabaseError) -> float:
        """Note a failure; the seconds to wait before the next try."""
        if not self._pause:
            log.warning("%s: %s; trying again %s", self._loop, error, self._patience)
        self._pause = min(self._longest, max(_FIRST_PAUSE, self._pause * 2))
        return self._pause * random.uniform(0.5, 1.0)

    def succeeded(self) -> None:
        """Note that all is well."""
        if self._pause:
            log.warning("%s: the database answers again", self._loop)
            self._pause = 0.0


def keep_going(
    loop: str,
    step: Callable[[], float],
    wake: threading.Event,
    stop: threading.Event,
    longest_pause: float,
) -> None:
    """Repeat `step`, which returns the seconds to pause, until `stop`; `wake` ends a pause early.

    A database that is away is waited for. Any other error ends the loop: it is the caller's to see.
    """
    outage = Outage(loop, longest_pause)
    while not stop.is_set():
        try:
            pause = step()
            outage.succeeded()
        except DatabaseError as error:
            pause = outage.failed(error)
        wake.wait(pause)
        wake.clear()
