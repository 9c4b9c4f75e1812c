"""The warden process: one thread and one epoll loop, which waits for nothing else.

It reads what commands write into their journals, reaps everything that ends below it, and kills: one run
when it is cancelled or takes too long, all of them when the lease ends or the agent is gone.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH119

import os
import select
import signal
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from math import inf
from resource import RLIMIT_NOFILE, getrlimit, struct_rusage
from time import time
from typing import NamedTuple

from dcron.warden.alarm import GuardAlarm
from dcron.warden.cgroups import Cgroups
from dcron.warden.child import MOST_STATUS, NOT_STARTED, failure, start_timed_out
from dcron.warden.control import Control
from dcron.warden.descendants import Children, never_executed, process
from dcron.warden.escalation import ORPHAN_GRACE, Escalation
from dcron.warden.journal import ERR, OUT, PAYLOAD, JournalWriter, Reason, Result
from dcron.warden.killing import Killer
from dcron.warden.linux import IntervalTimer, boottime
from dcron.warden.orphans import Orphans
from dcron.warden.poller import Poller
from dcron.warden.protocol import Message, StartRequest, read_start
from dcron.warden.run import REFUSALS, CommandRun, not_started
from dcron.warden.spawning import StartError, spawn
from dcron.warden.timers import Timer, Timers

_PIPE_TIMEOUT = 1.0
"""Seconds after the leader's exit in which background processes may still add output."""
_LAST_READS = 32
"""Reads of a pipe that no process holds open: enough for the largest pipe (1 MiB)."""
_START_TIMEOUT = 60.0
"""Seconds a child has to become its program: more than the 45 for which a lease on a file can delay it."""
_BURST = 16
"""Starts per turn of the loop (0.5 ms each). Output, deaths and the deadline are handled in between."""
_DESCRIPTORS = 32
"""Descriptors kept free for one more command and for reading /proc."""


class Watched(NamedTuple):
    """Descriptors that become readable when something happens to another process."""

    agent: int
    """Pidfd of the agent."""
    guard: int
    """Pidfd of the guard."""
    children: int
    """Readable after SIGCHLD."""


class Journals(NamedTuple):
    """Where the warden writes output and results, and how many bytes of them (see `journal`)."""

    directory: str
    head: int
    tail: int

    @property
    def node_id(self) -> str:
        """The node that the directory is named after."""
        return os.path.basename(self.directory)

    def open(self, run_id: int) -> JournalWriter:
        """Return the writer of a run's journal."""
        return JournalWriter(f"{self.directory}/{run_id}", self.head, self.tail)


class WardenProcess:
    """State and loop of the warden."""

    def __init__(
        self,
        control: socket.socket,
        watched: Watched,
        last_alarm: IntervalTimer,
        journals: Journals,
        cgroups: Cgroups,
    ) -> None:
        """Serve the agent at the other end of `control`. At `last_alarm` the guard kills."""
        self._journals = journals
        self._node_id = journals.node_id
        self._cgroups = cgroups
        self._devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._timers = Timers()
        self._control = Control(control, self._timers)
        self._deadline = -inf
        self._has_lease_ended = False
        """Whether the end of everything but kept runs has begun, because the deadline has passed."""
        self._deadline_timer: Timer | None = None
        self._alarm = GuardAlarm(last_alarm)
        self._waiting: deque[StartRequest] = deque()
        self._runs: dict[int, CommandRun] = {}
        self._leaders: dict[int, CommandRun] = {}
        self._children = Children()
        self._orphans = Orphans()
        self._killer = Killer(
            self._timers, self._runs, self._orphans, self._reap, self._settle, self._on_swept
        )
        self._beginning: dict[int, CommandRun] = {}
        """Runs whose child has not become its program yet, by pid."""
        self._finishing: dict[int, CommandRun] = {}
        """Finished runs, by id. They are forgotten together, so that one look at our children serves all."""
        self._children_died = False
        self._leave_reason: Reason | None = None
        """Set once the warden has to end, which it does when nothing is left."""

        self._poller = Poller()
        self._poller.watch(self._control.fd, self._on_control)
        self._poller.watch(watched.agent, lambda _: self._on_agent_gone())
        self._poller.watch(watched.guard, lambda _: self._on_guard_gone())
        self._poller.watch(watched.children, lambda _: self._on_children(watched.children))
        self._watched = watched
        self._poller.watch(self._timers.fd, lambda _: self._timers.run_due())

    def serve(self, pid: int) -> None:
        """Work until the agent is gone, or stops us, and nothing is left. The agent knows us as `pid`."""
        self._control.queue({"is": "ready", "pid": pid})
        while not self._is_over():
            self._timers.arm()
            self._flush()
            self._poller.poll(0 if self._may_start() else None)
            if self._children_died:  # after the pipes: a run whose output is complete needs no timer
                self._reap()
            self._finish_some()
            self._start_some()
            if self._has_lease_ended and not self._leave_reason:
                self._alarm.postpone(self._runs.values(), is_sweeping=self._killer.is_sweeping)
        self._flush()  # as much as fits: every result is in the spool, too
        self._cgroups.close()

    def _is_over(self) -> bool:
        return bool(self._leave_reason) and not (self._killer.is_sweeping or self._runs or self._waiting)

    # -- the agent

    def _on_control(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._poller.await_room(self._control.fd, waits=False)
            self._control.unblock()
        for message in self._control.receive():
            self._handle_message(message)
        if self._control.closed:
            self._on_agent_gone()

    def _flush(self) -> None:
        if not self._control.flush():
            self._poller.await_room(self._control.fd, waits=True)

    def _handle_message(self, message: Message) -> None:
        match message["do"]:
            case "start":
                self._waiting.append(read_start(message))
            case "kill":
                for run_id in message["runs"]:
                    self._kill(run_id, message["reason"], message["grace"])
            case "deadline":
                self._set_deadline(message["at"] if message["at"] is not None else inf, message["grace"])
                self._control.queue({"is": "alive"})
            case "stop":
                self._leave("stopped", message["grace"])
            case unknown:
                raise ValueError(f"the agent asks for {unknown!r}")

    def _on_agent_gone(self) -> None:
        self._poller.unwatch(self._watched.agent)
        self._poller.unwatch(self._control.fd)
        self._control.stop_sending()
        self._leave("agent gone", ORPHAN_GRACE)

    def _on_guard_gone(self) -> None:
        """Leave while the agent can still kill what we leave behind; it then starts another warden."""
        self._poller.unwatch(self._watched.guard)
        self._leave("guard gone", ORPHAN_GRACE)

    # -- the lease

    def _set_deadline(self, when: float, grace: float) -> None:
        self._timers.cancel(self._deadline_timer)
        self._deadline = when
        self._has_lease_ended = False
        self._deadline_timer = None
        if when != inf:
            self._deadline_timer = self._timers.at(when, partial(self._end_lease, grace))
        self._alarm.follow(when, grace)

    def _end_lease(self, grace: float) -> None:
        """End everything except the runs that go on without the database."""
        self._has_lease_ended = True
        self._begin_sweep("lease", grace, spares_kept=True)

    def _may_guard_have_ended(self, run: CommandRun) -> bool:
        """Return whether a signal that the warden did not send may be the guard's, after the lease."""
        if run.reason or run.signal not in (signal.SIGKILL, signal.SIGTERM):
            return False
        return self._alarm.may_have_rung()

    def _leave(self, reason: Reason, grace: float) -> None:
        if self._leave_reason not in ("agent gone", "guard gone"):
            self._leave_reason = reason
        self._begin_sweep(reason, grace)

    def _begin_sweep(self, reason: Reason, grace: float, *, spares_kept: bool = False) -> None:
        """End everything below the warden, whichever run it belongs to, or all but the kept runs."""
        kill_at = boottime() + grace
        while self._waiting:
            self._refuse(self._waiting.popleft(), reason)
        self._killer.sweep(reason, kill_at, spares_kept=spares_kept)

    def _on_swept(self) -> None:
        """Give up on commands that cannot be killed, if the warden is leaving."""
        if self._leave_reason:
            for run in [run for run in self._runs.values() if run.is_unkillable]:
                self._finish(run)

    # -- starting

    def _may_start(self) -> bool:
        """Return whether a command can start now. During a sweep after the lease ended, starts wait."""
        return bool(self._waiting) and (not self._killer.is_sweeping or self._refusal() is not None)

    def _refusal(self) -> Reason | None:
        if self._leave_reason:
            return self._leave_reason
        # By the clock, not the timer: after a freeze, starts may arrive before the alarm.
        return "lease" if boottime() >= self._deadline else None

    def _is_too_late(self, start: StartRequest) -> bool:
        return start.start_by is not None and boottime() >= start.start_by

    def _start_some(self) -> None:
        for _ in range(_BURST):
            if not self._may_start():
                return
            start = self._waiting.popleft()
            reason = self._refusal() or ("lease" if self._is_too_late(start) else None)
            if reason is not None:
                self._refuse(start, reason)
            else:
                self._start(start)

    def _start(self, start: StartRequest) -> None:
        journal = self._journals.open(start.run_id)
        cgroup = self._cgroups.make(start.run_id, start.limits)
        try:
            self._check_descriptors()
            spawned = spawn(start, self._devnull, cgroup)
        except Exception as error:  # it ends this run only
            self._cgroups.remove(cgroup)
            code, message = NOT_STARTED, f"cannot be started: {error}"
            if isinstance(error, StartError):
                code, message = error.exit_code, str(error)
            self._report(not_started(start, self._node_id, "spawn failed", message, code), journal)
            return
        run = CommandRun(start, spawned, journal, cgroup)
        self._runs[run.run_id] = self._leaders[run.pid] = run
        self._poller.watch(spawned.out, partial(self._on_output, run, spawned.out, OUT))
        self._poller.watch(spawned.err, partial(self._on_output, run, spawned.err, ERR))
        now = boottime()
        if run.has_started:
            self._report_started(run)
        else:
            self._beginning[run.pid] = run
            self._poller.watch(run.status, lambda _: self._on_status(run))
            run.begin = self._timers.at(now + _START_TIMEOUT, partial(self._on_start_timeout, run))
        if start.timeout is not None:
            run.timeout = self._timers.at(now + start.timeout, partial(self._kill, run.run_id, "timeout"))

    def _on_status(self, run: CommandRun) -> None:
        """Learn whether the program began. It is reported once: as a failure, or by the end of the pipe."""
        try:
            data = os.read(run.status, MOST_STATUS)
        except BlockingIOError:
            return
        self._poller.unwatch(run.status)
        os.close(run.status)
        run.status = -1
        self._timers.cancel(run.begin)
        del self._beginning[run.pid]
        if data:
            run.failure = failure(data)
        run.has_started = not data and not never_executed(run.pid)
        if run.has_started:
            self._report_started(run)

    def _report_started(self, run: CommandRun) -> None:
        self._control.queue({"is": "started", "run": run.run_id, "pid": run.pid, "at": run.started_at})

    def _on_start_timeout(self, run: CommandRun) -> None:
        """Kill a child that cannot become its program because of a lease on the file or a hung mount."""
        self._on_status(run)
        if run.has_started is None:
            run.failure = start_timed_out(run.start)
            run.ending = Escalation(boottime(), run.cgroup)
            os.kill(run.pid, signal.SIGKILL)
            self._killer.advance_soon()

    def _check_descriptors(self) -> None:
        """Raise StartError if there are too few descriptors: without a free one nothing could be killed."""
        limit, _ = getrlimit(RLIMIT_NOFILE)
        used = len(self._poller) + len(self._runs)  # pipes, and a journal for each run
        if used + _DESCRIPTORS > limit:
            raise StartError(NOT_STARTED, f"too many commands at a time for {limit} open files (ulimit -n)")

    def _refuse(self, start: StartRequest, reason: Reason) -> None:
        self._report(
            not_started(start, self._node_id, reason, REFUSALS[reason]), self._journals.open(start.run_id)
        )

    # -- output

    def _on_output(self, run: CommandRun, fd: int, kind: int, events: int) -> None:
        """Read once, or to the end if no process can write any more. Neither blocks.

        The reads are limited: a process that holds the read end may open the write end again, and write.
        """
        for _ in range(_LAST_READS if events & select.EPOLLHUP else 1):
            try:
                data = os.read(fd, PAYLOAD)
            except BlockingIOError:  # the command's owner opened the other end and read first
                return
            if not data:
                self._close_pipe(run, fd)
                return
            run.journal.write(kind, time(), data)
            self._control.announce(run.run_id)

    def _close_pipe(self, run: CommandRun, fd: int) -> None:
        self._poller.closed(fd)
        os.close(fd)  # no other process has a copy: the kernel takes it out of the epoll set
        run.pipes.discard(fd)
        self._settle(run)

    def _drain(self, fd: int, _: int) -> None:
        """Discard what background processes of a finished run write: a closed pipe would kill them."""
        with suppress(BlockingIOError):
            if os.splice(fd, self._devnull, PAYLOAD, flags=os.SPLICE_F_NONBLOCK):
                return
            self._poller.closed(fd)
            os.close(fd)

    # -- ends

    def _on_children(self, fd: int) -> None:
        os.read(fd, 4096)
        self._children_died = True

    def _reap(self) -> None:
        """Reap all dead children: leaders, and orphans that came to us."""
        self._children_died = False
        with suppress(ChildProcessError):
            while True:
                pid = self._next_to_reap()
                if pid is None:
                    return
                pid, status, usage = os.wait4(pid, os.WNOHANG)
                if not pid:
                    return
                run = self._leaders.pop(pid, None)
                if run is not None:
                    self._on_exit(run, status, usage)
                else:
                    self._orphans.forget(pid)

    def _next_to_reap(self) -> int | None:
        """Return a dead child whose start was checked; -1 for any child; None if none is dead."""
        if not self._beginning:
            return -1
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is None:
            return None
        if dead.si_pid in self._beginning:
            self._on_status(self._beginning[dead.si_pid])
        return dead.si_pid

    def _on_exit(self, run: CommandRun, status: int, usage: struct_rusage) -> None:
        run.exit(status, usage)
        if self._may_guard_have_ended(run):
            run.reason = "lease"
        self._timers.cancel(run.timeout)
        if run.ending:
            self._killer.advance_soon()
        self._settle(run)

    def _settle(self, run: CommandRun) -> None:
        """Finish a run whose processes are gone, once its output is complete or has been waited for."""
        if not run.exited or (run.ending and not run.gone):
            return
        if not run.pipes:
            self._finish(run)
        elif run.patience is None:
            run.patience = self._timers.at(boottime() + _PIPE_TIMEOUT, partial(self._finish, run))

    def _finish(self, run: CommandRun) -> None:
        self._timers.cancel(run.patience)
        self._finishing[run.run_id] = run

    def _finish_some(self) -> None:
        if self._finishing:
            self._notice_orphans()
            for run in self._finishing.values():
                self._forget(run)
            self._finishing.clear()

    def _forget(self, run: CommandRun) -> None:
        del self._runs[run.run_id]
        self._leaders.pop(run.pid, None)
        self._control.withdraw(run.run_id)
        for fd in run.pipes:
            self._poller.replace(fd, partial(self._drain, fd))
        self._report(run.result(self._node_id), run.journal)
        self._cgroups.remove(run.cgroup)
        self._orphans.note_end(run.run_id, was_killed=run.ending is not None)
        if self._orphans.are_left(self._runs):
            self._killer.end_left_orphans()

    def _notice_orphans(self) -> None:
        """Note what the finished runs leave behind, so that it is not taken for another run's."""
        if len(self._runs) > 1:
            new = (
                process(pid)
                for pid in self._children.pids()
                if not (pid in self._leaders or self._orphans.knows(pid))
            )
            alive = [each for each in new if each and each.alive]
            for run in self._finishing.values() if alive else ():
                inside = set(run.inside())
                self._orphans.notice([each for each in alive if each.pid in inside], [run])
            self._orphans.notice(alive, self._runs.values())

    def _report(self, result: Result, journal: JournalWriter) -> None:
        """Write the result to the spool, then send it: one of the two survives whatever happens."""
        if not journal.finish(result):
            remark = "the result could not be written to the spool"
            result = result._replace(message=f"{result.message}; {remark}" if result.message else remark)
        self._control.queue({"is": "finished", "result": result._asdict()})

    # -- killing

    def _kill(self, run_id: int, reason: Reason, grace: float | None = None) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            self._killer.end(run, reason, boottime() + (run.grace if grace is None else grace))
            self._killer.advance_soon()
            return
        for start in self._waiting:
            if start.run_id == run_id:
                self._waiting.remove(start)
                self._refuse(start, reason)
                return
