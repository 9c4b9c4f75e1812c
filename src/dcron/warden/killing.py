"""Kill runs step by step: SIGTERM, their grace, SIGKILL, until none of their processes is left.

One run is killed when it is cancelled or takes too long. A *sweep* kills everything below the warden: when
the lease ends, or when the agent or the guard is gone. When the lease ends, it spares kept runs.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from dcron.warden.descendants import Process, Processes
from dcron.warden.escalation import NO_RUN, ORPHAN_GRACE, Escalation, members
from dcron.warden.journal import Reason
from dcron.warden.linux import boottime
from dcron.warden.orphans import Orphans
from dcron.warden.run import CommandRun
from dcron.warden.timers import Timer, Timers

_ROUNDS = 20
"""Looks at /proc without a pause while new processes keep appearing."""
_WATCH_PAUSE = 0.1
"""Seconds between looks at processes that got SIGTERM."""
_KILL_PAUSE = 0.02
"""Seconds between looks at processes that got SIGKILL."""
_STUCK_PAUSE = 0.5
"""The same for those that do not die within _STUCK seconds (uninterruptible sleep)."""
_STUCK = 2.0
_CLEAN_LOOKS = 5
"""Looks at /proc in a row that find nothing left, beside kept runs: one look may miss a new process."""


class Killer:
    """Ends runs, and everything below the warden in a sweep."""

    def __init__(
        self,
        timers: Timers,
        runs: Mapping[int, CommandRun],
        orphans: Orphans,
        reap: Callable[[], None],
        settle: Callable[[CommandRun], None],
        on_swept: Callable[[], None],
    ) -> None:
        """`reap` reaps dead children, `settle` finishes a run that is gone, `on_swept` follows each sweep."""
        self._timers = timers
        self._runs = runs
        self._orphans = orphans
        self._reap = reap
        self._settle = settle
        self._on_swept = on_swept
        self._pid = os.getpid()
        self._timer: Timer | None = None
        self._sweep: Escalation | None = None
        self._left: Escalation | None = None
        """Ends the orphans of runs that are over."""
        self._spares_kept = False
        """Whether the sweep leaves the runs that go on when the lease ends."""
        self._clean_looks = 0

    @property
    def is_sweeping(self) -> bool:
        """Whether everything below the warden is being killed."""
        return self._sweep is not None

    def end(self, run: CommandRun, reason: Reason, kill_at: float) -> None:
        """Begin to end a run, or kill it earlier. Call `advance_soon` afterwards."""
        if run.ending:
            run.ending.hasten(kill_at)
        elif not run.exited:  # else it ended by itself, and only its output is still to come
            run.reason = reason
            run.ending = Escalation(kill_at, run.cgroup)

    def sweep(self, reason: Reason, kill_at: float, *, spares_kept: bool = False) -> None:
        """End everything below the warden, whichever run it belongs to; with `spares_kept`, except kept runs.

        A sweep that spares nothing makes one under way spare nothing, too.
        """
        if self._sweep is None:
            self._sweep = Escalation(kill_at)
            self._spares_kept = spares_kept
        self._spares_kept &= spares_kept
        self._clean_looks = 0
        self._sweep.hasten(kill_at)
        for run in self._runs.values():
            if run.run_id not in self._spared():
                self.end(run, reason, kill_at)
        self.advance_soon()

    def end_left_orphans(self) -> None:
        """End the orphans whose possible runs are all over, of which one was killed."""
        self._left = self._left or Escalation(boottime() + ORPHAN_GRACE)
        self.advance_soon()

    def _spared(self) -> frozenset[int]:
        """Return the runs that the sweep leaves. One that is being ended for another reason is none."""
        if not self._spares_kept:
            return frozenset()
        return frozenset(run_id for run_id, run in self._runs.items() if run.start.keeps and not run.ending)

    def advance_soon(self) -> None:
        """Take all endings one step further in the next turn of the loop."""
        self._advance_at(boottime())

    def _advance_at(self, when: float) -> None:
        if self._timer and self._timer.call and self._timer.when <= when:
            return
        self._timers.cancel(self._timer)
        self._timer = self._timers.at(when, self._advance)

    def _advance(self) -> None:
        began = boottime()
        for _ in range(_ROUNDS):  # again while processes fork faster than /proc is read
            if not self._step():
                break
        endings = [run.ending for run in self._runs.values() if run.ending and not run.gone]
        endings += filter(None, (self._sweep, self._left))
        if endings:
            now = boottime()
            pause = min(_pause(ending.kill_at, now) for ending in endings)
            self._advance_at(now + max(pause, 4 * (now - began)))  # on a busy machine /proc is slow

    def _step(self) -> bool:
        """Send the signals that are due; return whether a process got its first SIGKILL."""
        spared = self._spared()
        of_runs, others = members(Processes(), self._pid, self._runs.values(), self._orphans, spared)
        now = boottime()
        killed = False
        swept = True
        for run in list(self._runs.values()):
            mine = of_runs.get(run.run_id, [])
            if not run.ending:
                if run.run_id not in spared:
                    others += mine  # background processes of a run that has exited; only a sweep ends them
                continue
            left = run.ending.left(mine)
            if run.exited and not left:
                run.gone = run.ending.finish()
                self._settle(run)
                continue
            killed |= run.ending.step(left, now, None if run.exited else run.pid)
            swept &= run.is_unkillable and not left
        orphaned = of_runs.get(NO_RUN, [])
        if self._left:
            left = self._left.left(orphaned)
            killed |= self._left.step(left, now, None)
            if not left:
                self._left = None
        return self._step_sweep(others + orphaned, swept, now) or killed

    def _step_sweep(self, others: list[Process], swept: bool, now: float) -> bool:
        """Do the same for processes of no run. The sweep is over once nothing is left that can be killed."""
        if not self._sweep:
            return False
        left = self._sweep.left(others)
        killed = self._sweep.step(left, now, None)
        is_clean = swept and not left
        self._clean_looks = self._clean_looks + 1 if is_clean else 0
        if is_clean and ((self._spared() and self._clean_looks >= _CLEAN_LOOKS) or self._has_no_children()):
            self._sweep = None
            self._spares_kept = False
            self._on_swept()
        return killed

    def _has_no_children(self) -> bool:
        """Return whether nothing is left below us: the kernel knows for sure, /proc is read bit by bit.

        Processes of another user cannot be killed, so they do not count.
        """
        self._reap()
        with suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            endings = [self._sweep, *(run.ending for run in self._runs.values())]
            return any(ending.spared for ending in endings if ending)
        return True


def _pause(kill_at: float, now: float) -> float:
    """Return the seconds until the next look at processes that get SIGKILL at `kill_at`."""
    if now < kill_at:
        return min(_WATCH_PAUSE, kill_at - now)
    return _KILL_PAUSE if now < kill_at + _STUCK else _STUCK_PAUSE
