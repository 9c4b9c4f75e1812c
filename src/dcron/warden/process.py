"""The warden process: one thread, one epoll loop, no waiting for anything else.

It reads what commands write into their journals, reaps everything that ends below it, and kills: one run when
it is cancelled or too slow, all of them when the lease is over or the agent is gone.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH119

import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from resource import RLIMIT_NOFILE, getrlimit, struct_rusage
from time import time

from dcron.warden.cgroups import Cgroups
from dcron.warden.child import MOST_STATUS, NOT_STARTED, failure, late
from dcron.warden.control import Control
from dcron.warden.descendants import Children, Processes, never_executed, process
from dcron.warden.ending import ORPHAN_GRACE, Ending, members
from dcron.warden.journal import ERR, OUT, PAYLOAD, JournalWriter, Reason, Result
from dcron.warden.linux import IntervalTimer, boottime
from dcron.warden.orphans import Orphans
from dcron.warden.protocol import Message, StartRequest, read_start
from dcron.warden.run import REFUSALS, CommandRun, not_started
from dcron.warden.spawning import StartError, spawn
from dcron.warden.timers import Timer, Timers

_PIPE_PATIENCE = 1.0
"""Seconds after the leader's exit in which background processes may still add to the output."""
_LAST_READS = 32
"""Reads of a pipe that no process holds open: more than the largest pipe (1 MiB) needs."""
_BEGIN_PATIENCE = 60.0
"""Seconds a child has to become its program. More than the 45 for which a lease on a file holds it up."""
_BURST = 16
"""Starts in one turn of the loop (0.5 ms each); output, deaths and the deadline get theirs in between."""
_DESCRIPTORS = 32
"""Kept free for one more command, and for looking into /proc."""
_KILL_ROUNDS = 20
"""Looks at /proc without a pause while new processes keep appearing."""
_WATCH_PAUSE = 0.1
"""Seconds between looks at processes that were asked to end."""
_KILL_PAUSE = 0.02
"""The same for killed ones."""
_STUCK_PAUSE = 0.5
"""The same for those that do not die within _STUCK seconds (uninterruptible sleep)."""
_STUCK = 2.0


class WardenProcess:
    """State and loop of the warden."""

    def __init__(
        self,
        control: socket.socket,
        agent: int,
        guard: int,
        children: int,
        last_alarm: IntervalTimer,
        directory: str,
        head: int,
        tail: int,
        cgroups: Cgroups,
    ) -> None:
        """Watch the agent by its socket and its pidfd, and the guard by its; the guard kills at `last_alarm`.

        `children` is readable after a SIGCHLD.
        """
        self._directory = directory
        self._node_id = os.path.basename(directory)
        self._head = head
        self._tail = tail
        self._cgroups = cgroups
        self._pid = os.getpid()
        self._devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._timers = Timers()
        self._control = Control(control, self._timers)
        self._deadline = -inf
        self._deadline_timer: Timer | None = None
        self._last_alarm = last_alarm
        self._waiting: deque[StartRequest] = deque()
        self._runs: dict[int, CommandRun] = {}
        self._leaders: dict[int, CommandRun] = {}
        self._children = Children()
        self._orphans = Orphans()
        self._beginning: dict[int, CommandRun] = {}
        """Runs whose children are still on the way to their programs, by pid."""
        self._finishing: dict[int, CommandRun] = {}
        """Runs that are over, by id. They are forgotten together: one look at our children serves all."""
        self._children_died = False
        self._sweep: Ending | None = None
        self._farewell: Reason | None = None
        """Set when the warden is to end, too, once nothing is left."""
        self._pursuit: Timer | None = None

        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._watch(self._control.fd, self._on_control)
        self._watch(agent, lambda _: self._on_agent_gone())
        self._watch(guard, lambda _: self._on_guard_gone())
        self._agent = agent
        self._guard = guard
        self._watch(children, lambda _: self._on_children(children))
        self._watch(self._timers.fd, lambda _: self._timers.run_due())

    def serve(self, pid: int) -> None:
        """Work until the agent is gone, or says stop, and nothing is left. The agent knows us as `pid`."""
        self._control.say({"is": "ready", "pid": pid})
        while not self._is_over():
            self._timers.arm()
            self._flush()
            for fd, events in self._epoll.poll(0 if self._may_start() else None):
                handler = self._handlers.get(fd)
                if handler is not None:  # an earlier handler of this turn may have closed it
                    handler(events)
            if self._children_died:  # after the pipes: a run that is read to its end needs no timer
                self._reap()
            self._finish_some()
            self._start_some()
        self._flush()  # as much as fits: the agent finds every result in the spool as well
        self._cgroups.close()

    def _is_over(self) -> bool:
        return bool(self._farewell) and not (self._sweep or self._runs or self._waiting)

    def _watch(self, fd: int, handler: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def _unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None):
            self._epoll.unregister(fd)

    # -- the agent

    def _on_control(self, events: int) -> None:
        if events & select.EPOLLOUT:
            self._epoll.modify(self._control.fd, select.EPOLLIN)
            self._control.unblock()
        for message in self._control.receive():
            self._obey(message)
        if self._control.closed:
            self._on_agent_gone()

    def _flush(self) -> None:
        if not self._control.flush():
            self._epoll.modify(self._control.fd, select.EPOLLIN | select.EPOLLOUT)

    def _obey(self, message: Message) -> None:
        match message["do"]:
            case "start":
                self._waiting.append(read_start(message))
            case "kill":
                for run_id in message["runs"]:
                    self._kill(run_id, message["reason"])
            case "deadline":
                self._set_deadline(message["at"] if message["at"] is not None else inf, message["grace"])
                self._control.say({"is": "alive"})
            case "stop":
                self._leave("stopped", message["grace"])
            case unknown:
                raise ValueError(f"the agent asks for {unknown!r}")

    def _on_agent_gone(self) -> None:
        self._unwatch(self._agent)
        self._unwatch(self._control.fd)
        self._control.fall_silent()
        self._leave("agent gone", ORPHAN_GRACE)

    def _on_guard_gone(self) -> None:
        """Go while the agent can still end what we might leave, and let it start another pair of us."""
        self._unwatch(self._guard)
        self._leave("guard gone", ORPHAN_GRACE)

    # -- the lease

    def _set_deadline(self, when: float, grace: float) -> None:
        self._timers.cancel(self._deadline_timer)
        self._deadline = when
        self._deadline_timer = None
        if when != inf:
            self._deadline_timer = self._timers.at(when, partial(self._begin_sweep, "lease", grace))
        self._last_alarm.set(when + 1.5 * grace)

    def _leave(self, reason: Reason, grace: float) -> None:
        if self._farewell not in ("agent gone", "guard gone"):
            self._farewell = reason
        self._begin_sweep(reason, grace)

    def _begin_sweep(self, reason: Reason, grace: float) -> None:
        """End everything below the warden, whoever it belongs to."""
        kill_at = boottime() + grace
        while self._waiting:
            self._refuse(self._waiting.popleft(), reason)
        for run in self._runs.values():
            self._condemn(run, reason, kill_at)
        if self._sweep is None:
            self._sweep = Ending(kill_at)
        self._sweep.hasten(kill_at)
        self._pursue_at(boottime())

    # -- starting

    def _may_start(self) -> bool:
        """Whether there is something to start now; while a lapsed lease is swept up, starts wait."""
        return bool(self._waiting) and (self._sweep is None or self._refusal() is not None)

    def _refusal(self) -> Reason | None:
        if self._farewell:
            return self._farewell
        # The clock, not the timer: after a freeze, starts may come out of the socket before the alarm does.
        return "lease" if boottime() >= self._deadline else None

    def _start_some(self) -> None:
        for _ in range(_BURST):
            if not self._may_start():
                return
            start = self._waiting.popleft()
            reason = self._refusal()
            if reason is not None:
                self._refuse(start, reason)
            else:
                self._start(start)

    def _start(self, start: StartRequest) -> None:
        journal = self._journal(start)
        cgroup = self._cgroups.make(start.run_id, start.limits, foreign=start.identity is not None)
        try:
            self._check_descriptors()
            spawned = spawn(start, self._devnull, cgroup)
        except Exception as error:  # whatever it is, it ends this run alone
            self._cgroups.remove(cgroup)
            code, message = NOT_STARTED, f"cannot be started: {error}"
            if isinstance(error, StartError):
                code, message = error.exit_code, str(error)
            self._report(not_started(start, self._node_id, "spawn failed", message, code), journal)
            return
        run = CommandRun(start, spawned, journal, cgroup)
        self._runs[run.run_id] = self._leaders[run.pid] = run
        self._watch(spawned.out, partial(self._on_output, run, spawned.out, OUT))
        self._watch(spawned.err, partial(self._on_output, run, spawned.err, ERR))
        now = boottime()
        if run.begun:
            self._say_started(run)
        else:
            self._beginning[run.pid] = run
            self._watch(run.status, lambda _: self._on_status(run))
            run.begin = self._timers.at(now + _BEGIN_PATIENCE, partial(self._give_up, run))
        if start.timeout is not None:
            run.timeout = self._timers.at(now + start.timeout, partial(self._kill, run.run_id, "timeout"))

    def _on_status(self, run: CommandRun) -> None:
        """Hear whether the program has begun. Said once: by its failure, or by the end of the pipe."""
        try:
            data = os.read(run.status, MOST_STATUS)
        except BlockingIOError:
            return
        self._unwatch(run.status)
        os.close(run.status)
        run.status = -1
        self._timers.cancel(run.begin)
        del self._beginning[run.pid]
        if data:
            run.failure = failure(data)
        run.begun = not data and not never_executed(run.pid)
        if run.begun:
            self._say_started(run)

    def _say_started(self, run: CommandRun) -> None:
        self._control.say({"is": "started", "run": run.run_id, "pid": run.pid, "at": run.started_at})

    def _give_up(self, run: CommandRun) -> None:
        """Kill a child that is held up on its way to its program, by a lease on the file or a hung mount."""
        self._on_status(run)
        if run.begun is None:
            run.failure = late(run.start)
            run.ending = Ending(boottime(), run.cgroup)
            os.kill(run.pid, signal.SIGKILL)
            self._pursue_at(boottime())

    def _check_descriptors(self) -> None:
        """Refuse to start more than we can look after: without a free descriptor there is no killing."""
        limit, _ = getrlimit(RLIMIT_NOFILE)
        used = len(self._handlers) + len(self._runs)  # pipes, and a journal for each run
        if used + _DESCRIPTORS > limit:
            raise StartError(NOT_STARTED, f"too many commands at a time for {limit} open files (ulimit -n)")

    def _refuse(self, start: StartRequest, reason: Reason) -> None:
        self._report(not_started(start, self._node_id, reason, REFUSALS[reason]), self._journal(start))

    def _journal(self, start: StartRequest) -> JournalWriter:
        return JournalWriter(f"{self._directory}/{start.run_id}", self._head, self._tail)

    # -- output

    def _on_output(self, run: CommandRun, fd: int, kind: int, events: int) -> None:
        """Read once, or to the end when no process can write any more: neither waits.

        Not for ever: a process that holds the read end may open the other one again, and write.
        """
        for _ in range(_LAST_READS if events & select.EPOLLHUP else 1):
            try:
                data = os.read(fd, PAYLOAD)
            except BlockingIOError:  # its owner has opened the other end, and was quicker
                return
            if not data:
                self._close_pipe(run, fd)
                return
            run.journal.write(kind, time(), data)
            self._control.announce(run.run_id)

    def _close_pipe(self, run: CommandRun, fd: int) -> None:
        del self._handlers[fd]
        os.close(fd)  # which takes it out of the epoll set, too: nobody else has a copy
        run.pipes.discard(fd)
        self._settle(run)

    def _drain(self, fd: int, _: int) -> None:
        """Throw away what a finished run's background processes write: a closed pipe would kill them."""
        with suppress(BlockingIOError):
            if os.splice(fd, self._devnull, PAYLOAD, flags=os.SPLICE_F_NONBLOCK):
                return
            del self._handlers[fd]
            os.close(fd)

    # -- ends

    def _on_children(self, fd: int) -> None:
        os.read(fd, 4096)
        self._children_died = True

    def _reap(self) -> None:
        """Reap whatever died: leaders, and orphans that came to us."""
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
        """Return a dead child, after a look at whether it had become its program; -1 is any: all have."""
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
        self._timers.cancel(run.timeout)
        if run.ending:
            self._pursue_at(boottime())
        self._settle(run)

    def _settle(self, run: CommandRun) -> None:
        """Finish a run whose processes are gone and whose output is complete, or has been waited for."""
        if not run.exited or (run.ending and not run.gone):
            return
        if not run.pipes:
            self._finish(run)
        elif run.patience is None:
            run.patience = self._timers.at(boottime() + _PIPE_PATIENCE, partial(self._finish, run))

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
            self._handlers[fd] = partial(self._drain, fd)
        self._report(run.result(self._node_id), run.journal)
        self._cgroups.remove(run.cgroup)

    def _notice_orphans(self) -> None:
        """Note what the ending runs leave, while they are known: it must not be taken for another run's."""
        if len(self._runs) > 1:
            new = (
                process(pid)
                for pid in self._children.pids()
                if not (pid in self._leaders or self._orphans.knows(pid))
            )
            self._orphans.notice([each for each in new if each and each.alive], self._runs.values())

    def _report(self, result: Result, journal: JournalWriter) -> None:
        """Write the result down before saying it: one of the two survives whatever happens."""
        if not journal.finish(result):
            remark = "the result could not be written to the spool"
            result = result._replace(message=f"{result.message}; {remark}" if result.message else remark)
        self._control.say({"is": "finished", "result": result._asdict()})

    # -- killing

    def _kill(self, run_id: int, reason: Reason) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            self._condemn(run, reason, boottime() + run.grace)
            self._pursue_at(boottime())
            return
        for start in self._waiting:
            if start.run_id == run_id:
                self._waiting.remove(start)
                self._refuse(start, reason)
                return

    def _condemn(self, run: CommandRun, reason: Reason, kill_at: float) -> None:
        if run.ending:
            run.ending.hasten(kill_at)
        elif not run.exited:  # or it ended by itself, and only its output is still awaited
            run.reason = reason
            run.ending = Ending(kill_at, run.cgroup)

    def _pursue_at(self, when: float) -> None:
        if self._pursuit and self._pursuit.call and self._pursuit.when <= when:
            return
        self._timers.cancel(self._pursuit)
        self._pursuit = self._timers.at(when, self._pursue)

    def _pursue(self) -> None:
        """Take everything that is being ended one step further."""
        began = boottime()
        for _ in range(_KILL_ROUNDS):  # again while somebody forks faster than we look
            if not self._step():
                break
        endings = [run.ending for run in self._runs.values() if run.ending and not run.gone]
        if self._sweep:
            endings.append(self._sweep)
        if endings:
            now = boottime()
            pause = min(_pause(ending.kill_at, now) for ending in endings)
            self._pursue_at(now + max(pause, 4 * (now - began)))  # a busy machine has a slow /proc

    def _step(self) -> bool:
        """Signal what is due; return whether something was killed that was not before."""
        of_runs, others = members(Processes(), self._pid, self._runs.values(), self._orphans)
        now = boottime()
        killed = False
        swept = True
        for run in list(self._runs.values()):
            mine = of_runs.get(run.run_id, [])
            if not run.ending:
                others += mine  # background processes of a run that has exited, should there be a sweep
                continue
            left = run.ending.left(mine)
            if run.exited and not left:
                run.gone = run.ending.finish()
                self._settle(run)
                continue
            killed |= run.ending.step(left, now, None if run.exited else run.pid)
            swept &= run.out_of_reach and not left
        if self._sweep:
            left = self._sweep.left(others)
            killed |= self._sweep.step(left, now, None)
            if swept and not left and self._is_alone():
                self._end_sweep()
        return killed

    def _is_alone(self) -> bool:
        """Whether nothing at all is left below us; unlike /proc, read bit by bit, the kernel knows for sure.

        Processes of another user stay, and have to be left out of account.
        """
        self._reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        endings = [self._sweep, *(run.ending for run in self._runs.values())]
        return any(ending.spared for ending in endings if ending)

    def _end_sweep(self) -> None:
        self._sweep = None
        if self._farewell:
            for run in [run for run in self._runs.values() if run.out_of_reach]:
                self._finish(run)


def _pause(kill_at: float, now: float) -> float:
    """Return the seconds until the next look at processes that are to be killed at that moment."""
    if now < kill_at:
        return min(_WATCH_PAUSE, kill_at - now)
    return _KILL_PAUSE if now < kill_at + _STUCK else _STUCK_PAUSE
