"""When the guard kills everything: only if the warden is frozen and something had to end meanwhile.

Until the deadline that is shortly behind the deadline. A warden that is still killing then postpones it a
little. Afterwards only kept runs are left, and the guard has to act if one outlives its timeout.
"""

from collections.abc import Iterable
from math import inf

from dcron.warden.linux import IntervalTimer, boottime
from dcron.warden.run import CommandRun

_SLACK = 2.0
"""Seconds behind the SIGKILL of a kept run: less than the shortest lease, which its row waits in addition."""
_GUARD_ACTS = 5.0
"""Seconds for which the guard may still kill after its alarm: looks at /proc take long on busy machines."""
_KILLING = 1.0
"""Seconds after which a SIGKILL that the warden sent has worked, or never will."""


class GuardAlarm:
    """The alarm that the warden sets and postpones, and the guard hears."""

    def __init__(self, timer: IntervalTimer) -> None:
        self._timer = timer
        self._deadline = inf
        self._grace = 0.0
        self._at = inf
        self._last_rang = -inf
        """When an alarm that had rung was last set again. The guard may act until a while after."""

    def follow(self, deadline: float, grace: float) -> None:
        """Ring behind a new deadline. There the warden sends SIGTERM, and `grace` seconds later SIGKILL."""
        self._deadline, self._grace = deadline, grace
        self._set(deadline + 1.5 * grace)

    def postpone(self, runs: Iterable[CommandRun], *, is_sweeping: bool) -> None:
        """Ring later: the warden lives, and has begun to end what the deadline ends, or has ended it."""
        now = boottime()
        if is_sweeping:
            self._set(max(self._deadline + 1.5 * self._grace, now + 0.5 * self._grace))
        else:
            self._set(min((_overdue_at(run, now) for run in runs), default=inf))

    def may_have_rung(self) -> bool:
        """Return whether a signal that the warden did not send may be the guard's."""
        now = boottime()
        return now >= self._at or now - self._last_rang < _GUARD_ACTS

    def _set(self, at: float) -> None:
        if boottime() >= self._at:
            self._last_rang = boottime()
        if at != self._at:
            self._at = at
            self._timer.set(at)


def _overdue_at(run: CommandRun, now: float) -> float:
    """Return when the run must be over; infinity if it has no timeout, or if the warden has done its part."""
    if run.exited:
        return inf
    if run.ending:
        return run.ending.kill_at + _SLACK if now < run.ending.kill_at + _KILLING else inf
    return run.timeout.when + run.grace + _SLACK if run.timeout else inf
