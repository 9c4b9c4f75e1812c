"""Call functions at given times."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count

from dcron.warden.linux import IntervalTimer, boottime


class Timer:
    """A call at a given time, unless it is cancelled."""

    __slots__ = ("call", "order", "when")

    def __init__(self, when: float, order: int, call: Callable[[], None]) -> None:
        self.when = when
        self.order = order
        self.call: Callable[[], None] | None = call

    def __lt__(self, other: "Timer") -> bool:
        return (self.when, self.order) < (other.when, other.order)


class Timers:
    """All timers of the warden behind one alarm on CLOCK_BOOTTIME, including the lease's deadline."""

    def __init__(self) -> None:
        self._alarm = IntervalTimer()
        self._armed = math.inf
        self._heap: list[Timer] = []
        self._cancelled = 0
        self._order = count()

    @property
    def fd(self) -> int:
        """Readable when a call is due."""
        return self._alarm.fd

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call a function at a time (`linux.boottime` seconds). Raises ValueError unless the time is finite.

        NaN is neither before nor after any number, so it would delay every timer behind it.
        """
        if not math.isfinite(when):
            raise ValueError(f"no timer can be set to {when}")
        timer = Timer(when, next(self._order), call)
        heappush(self._heap, timer)
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """Cancel a call. One that was made or cancelled already is ignored."""
        if timer is None or timer.call is None:
            return
        timer.call = None
        self._cancelled += 1
        if self._cancelled > 64 + len(self._heap) // 2:  # else the timeouts of ended runs would pile up
            self._heap = [each for each in self._heap if each.call]
            heapify(self._heap)
            self._cancelled = 0

    def arm(self) -> None:
        """Set the alarm for the next call. An alarm that is too early stays: that is cheaper."""
        while self._heap and self._heap[0].call is None:
            heappop(self._heap)
            self._cancelled -= 1
        if self._heap and self._heap[0].when < self._armed:
            self._armed = self._heap[0].when
            self._alarm.set(self._armed)

    def run_due(self) -> None:
        """Make the calls that are due."""
        with suppress(BlockingIOError):
            os.read(self._alarm.fd, 8)
        self._armed = math.inf
        now = boottime()
        while self._heap and self._heap[0].when <= now:
            timer = heappop(self._heap)
            if timer.call is None:
                self._cancelled -= 1
                continue
            call, timer.call = timer.call, None
            call()
