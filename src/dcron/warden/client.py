"""The agent's side of the warden: start commands, receive what happened to them, read their output.

One thread may send (`start`, `kill`, `set_deadline`, `stop`) while another receives (`events`). A warden
that died or no longer answers is reported by the event `WardenGone`, never by an exception from a sender.
"""

import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal

from dcron.warden.accounts import AccountError, identity_of
from dcron.warden.cgroups import end_cgroups_of
from dcron.warden.descendants import process, reap_other_children, send
from dcron.warden.escalation import ORPHAN_GRACE
from dcron.warden.journal import HEAD, TAIL, JournalError, JournalReader, Result
from dcron.warden.protocol import (
    Identity,
    LineReader,
    Message,
    MessageTooLongError,
    StartRequest,
    encode,
    faulty_start,
    start_message,
)
from dcron.warden.spool import Spool

_START_LIMIT = 10.0
"""Seconds a warden may take to start (usually 30 ms)."""
_SLICE = 1.0
_HOUR = 3600.0
_STOP_MARGIN = 5.0
"""Seconds that `stop` waits beyond the grace, for SIGKILL to work and for results to be written."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command to start. `env` is its whole environment; only DCRON_RUN_ID is added."""

    run_id: int
    argv: tuple[str, ...]
    """The program is searched in the PATH of `env`. One argument may have 128 KiB (a limit of Linux)."""
    env: Mapping[str, str]
    cwd: str | None = None
    """None is `/`."""
    at_home: bool = False
    """Whether `cwd` is the user's home. If that is missing, the command runs in / with a warning."""
    user: str | None = None
    """Name or uid; None is the agent's own. Sets user, group and supplementary groups together."""
    stdin: bytes | None = None
    timeout: float | None = None
    """Seconds until it is killed with the reason "timeout"."""
    grace: float = 10.0
    """Seconds between SIGTERM and SIGKILL when it is cancelled or times out."""
    umask: int = 0o022
    """cron's own, so that a task moved here writes the same files as before."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """What it and its descendants may use, by the names in `limits.LIMITS` (bytes, seconds, counts).

    `mem` is the address space of each process (RLIMIT_AS); in a cgroup, the memory of the whole tree.
    """
    keeps: bool = False
    """Whether it goes on when the deadline passes: only its timeout and the end of the agent end it."""
    start_by: float = math.inf
    """When it is too late to begin it (`linux.boottime` seconds)."""


@dataclass(frozen=True)
class Started:
    """The program began."""

    run_id: int
    pid: int
    at: float
    """UTC epoch seconds."""


@dataclass(frozen=True)
class OutputChunk:
    """The run's journal has grown (reported at most ten times a second)."""

    run_id: int


@dataclass(frozen=True)
class Finished:
    """The run is over and its journal complete. The agent calls `forget` once it has recorded both."""

    run_id: int
    result: Result


@dataclass(frozen=True)
class WardenGone:
    """The warden ended. It is the last event, reported once."""

    unknown: tuple[int, ...]
    """Runs without a result. What they started may still live: call `kill_descendants`."""
    exit_status: int
    """The warden's: 0 after `stop`, negative for a signal."""


Event = Started | OutputChunk | Finished | WardenGone


class Warden:
    """Starts a warden process and talks to it."""

    def __init__(
        self,
        spool: Path,
        node_id: str,
        *,
        head: int = HEAD,
        tail: int = TAIL,
        silence: float = 15.0,
        isolate: bool = False,
    ) -> None:
        """Start the process. It starts no command before the first `set_deadline`.

        `head` and `tail` are bytes on disk for a run's first output and for each of its two last segments.
        A warden that does not acknowledge a deadline within `silence` seconds is killed and reported as
        gone. With `isolate` it gets a PID namespace (see `isolation`); pids of commands are then pids of
        that namespace. Raises OSError.
        """
        self._spool = Spool.make(spool, node_id)
        self._silence = silence
        self._silent_for = 0.0
        self._deadlines_sent = 0
        self._deadlines_acknowledged = 0
        self._gone = False
        self._lines = LineReader()
        self._sending = Lock()
        self._pending: set[int] = set()
        self._pending_lock = Lock()
        self._rotated: dict[int, int] = {}
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self._socket, self._process = _spawn_warden(self._spool, head, tail, isolate)
        except BaseException:
            self._spool.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._pid = self._await_ready()

    @property
    def pid(self) -> int:
        """Pid of the warden process."""
        return self._pid

    @property
    def spool(self) -> Spool:
        """Where the journals of this node are."""
        return self._spool

    def start(self, jobs: Sequence[Job]) -> None:
        """Start the jobs. Each of them ends as one `Finished`, or in `WardenGone.unknown`.

        Raises: BrokenPipeError once `WardenGone` was reported.
        """
        with self._pending_lock:
            if self._gone:
                raise BrokenPipeError("the warden is gone")
            self._pending.update(job.run_id for job in jobs)
        lookup = cache(identity_of)
        self._send(b"".join(_encode_job(job, lookup) for job in jobs))

    def kill(
        self,
        run_ids: Iterable[int],
        reason: Literal["cancelled", "timeout", "lease"] = "cancelled",
        grace: float | None = None,
    ) -> None:
        """End the runs: SIGTERM, then SIGKILL. Unknown and finished runs are ignored.

        `grace` is the time in between, in seconds; by default that of each run.
        """
        self._send(encode({"do": "kill", "runs": list(run_ids), "reason": reason, "grace": grace}))

    def set_deadline(self, boottime: float, grace: float = 0.5) -> None:
        """Set the time (`linux.boottime` seconds) at which everything is killed, unless it is moved before.

        `grace` is the time between SIGTERM and SIGKILL then. `math.inf` means no deadline. Only one thread
        may call this.
        """
        at = None if boottime == math.inf else max(0.0, boottime)
        self._deadlines_sent += 1
        self._send(encode({"do": "deadline", "at": at, "grace": grace}))
        self.wake()  # a thread that waits in `events` must now measure the warden's silence

    def stop(self, grace: float) -> bool:
        """End all runs (SIGTERM, grace, SIGKILL) and the warden; return whether it ended in time.

        Afterwards `events` still returns the last results, and then `WardenGone`.
        """
        self._send(encode({"do": "stop", "grace": grace}))
        try:
            self._process.wait(grace + _STOP_MARGIN)
        except subprocess.TimeoutExpired:
            return False
        return True

    def events(self, timeout: float | None) -> list[Event]:
        """Return what happened, waiting up to `timeout` seconds. Empty after a timeout or a `wake`."""
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        while not self._gone:
            ready = dict(self._poll_until(give_up))
            events: list[Event] = []
            if self._socket.fileno() in ready:
                events = self._receive()
            if self._wake in ready:
                os.eventfd_read(self._wake)
                return events
            if events or time.monotonic() >= give_up:
                return events
        return []

    def wake(self) -> None:
        """Make a waiting `events`, or the next call, return at once. Any thread may call this."""
        os.eventfd_write(self._wake, 1)

    def reap_other_children(self, except_for: Collection[int] = ()) -> None:
        """Reap dead children of the agent other than this warden, and those that others wait for."""
        reap_other_children({self._process.pid, *except_for})

    def fileno(self) -> int:
        """Return a descriptor that is readable when `events` has something to return."""
        return self._socket.fileno()

    def journal(self, run_id: int, after: int = 0) -> JournalReader:
        """Open the run's output, from the absolute byte `after` on."""
        return self._spool.journal(run_id, after)

    def forget(self, run_id: int) -> None:
        """Delete the run's journal, after `Finished`, once its result and output are recorded."""
        self._spool.forget(run_id, self._rotated.pop(run_id, 0))

    def close(self, *, is_settled: bool = True) -> None:
        """Let go of the process and the spool; remove a directory without journals if the node `is_settled`.

        Otherwise the directory shows the next agent that the database may still show runs of this node. A
        warden that is still running takes this for the agent's death.
        """
        self._socket.close()
        os.close(self._wake)
        try:
            self._process.wait(_STOP_MARGIN)
        except subprocess.TimeoutExpired:
            self._spool.close()  # the warden keeps its lock
            return
        end_cgroups_of(self._spool.node_id)
        if self._spool.runs() or not is_settled:
            self._spool.close()
        else:
            self._spool.remove()

    def _await_ready(self) -> int:
        """Return the warden's pid, from its first message. Raises OSError if it does not start."""
        give_up = time.monotonic() + _START_LIMIT
        while time.monotonic() < give_up and self._process.poll() is None:
            self._poll.poll(100)
            with suppress(OSError):
                for message in self._lines.feed(self._socket.recv(1 << 10)):
                    return int(message["pid"])
        self._process.kill()
        status = self._process.wait()
        self.close()
        raise OSError(f"the warden did not start (exit status {status})")

    def _send(self, data: bytes) -> None:
        """Send all data, waiting for a busy warden. Kill a warden that does not read for too long."""
        with self._sending:
            view = memoryview(data)
            while view:
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    if not _writable(self._socket, self._silence):
                        self._kill()
                        return
                except OSError:  # the warden is gone; `events` reports that
                    return

    def _poll_until(self, give_up: float) -> list[tuple[int, int]]:
        """Wait for something to read, and measure how long a warden leaves a deadline unacknowledged.

        Measured in short waits: a freeze of the machine, or of the agent, is not the warden's silence.
        """
        while True:
            left = max(0, give_up - time.monotonic())
            wait = min(left, _SLICE if self._deadlines_sent > self._deadlines_acknowledged else _HOUR)
            ready = self._poll.poll(math.ceil(wait * 1000))
            if not ready and self._deadlines_sent > self._deadlines_acknowledged:
                self._silent_for += wait
                if self._silent_for > self._silence:
                    self._kill()
            if ready or wait == left:
                return ready

    def _kill(self) -> None:
        """Kill the warden, and then the guard, which may be frozen, too."""
        warden = process(self._pid)
        if warden is not None and warden.ppid in (self._process.pid, os.getpid()):
            send(warden, signal.SIGKILL)
        self._process.kill()

    def _wait_for_guard(self) -> int:
        """Return the exit status, once the guard has killed what the warden left."""
        try:
            return self._process.wait(ORPHAN_GRACE + 2 * _STOP_MARGIN)
        except subprocess.TimeoutExpired:  # frozen
            self._process.kill()
            return self._process.wait()

    def _receive(self) -> list[Event]:
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self._silent_for = 0.0
        if not data:
            return self._report_gone()
        events: list[Event] = []
        for message in self._lines.feed(data):
            events += self._events_of(message)
        return events

    def _events_of(self, message: Message) -> list[Event]:
        match message["is"]:
            case "started":
                return [Started(message["run"], message["pid"], message["at"])]
            case "output":
                return [OutputChunk(run_id) for run_id in message["runs"]]
            case "finished":
                return [self._finished(Result(**message["result"]))]
            case "alive":
                self._deadlines_acknowledged += 1
        return []

    def _finished(self, result: Result) -> Finished:
        with self._pending_lock:
            self._pending.discard(result.run_id)
        if result.last_segment:
            self._rotated[result.run_id] = result.last_segment
        return Finished(result.run_id, result)

    def _report_gone(self) -> list[Event]:
        """Return the results that the warden wrote but could not send, and that it is gone."""
        status = self._wait_for_guard()
        with self._pending_lock:
            self._gone = True
            pending = sorted(self._pending)
        events: list[Event] = []
        for run_id in pending:
            result = self._result_in_spool(run_id)
            if result is not None:
                events.append(self._finished(result))
        return [*events, WardenGone(tuple(sorted(self._pending)), status)]

    def _result_in_spool(self, run_id: int) -> Result | None:
        with suppress(JournalError, OSError), self.journal(run_id) as journal:
            while journal.read():
                pass
            return journal.result
        return None


def _spawn_warden(
    spool: Spool, head: int, tail: int, isolate: bool
) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, its = socket.socketpair()
    with its:
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(Path(__file__).with_name("__main__.py"))),
                *(str(each) for each in (its.fileno(), spool.lock_fd, os.getpid(), head, tail, int(isolate))),
                str(spool.path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={},
            pass_fds=(its.fileno(), spool.lock_fd),
        )
    ours.setblocking(False)
    return ours, process


def _encode_job(job: Job, lookup: Callable[[str | None], Identity | None]) -> bytes:
    """Return the start message of a job. A job that cannot be encoded fails alone, with the reason."""
    try:
        return encode(start_message(_start_of(job, lookup)))
    except AccountError as error:
        fault = str(error)
    except (MessageTooLongError, TypeError, ValueError, OverflowError, RecursionError) as error:
        fault = f"cannot be started: {error}"
    return encode(start_message(faulty_start(job.run_id, fault)))


def _start_of(job: Job, lookup: Callable[[str | None], Identity | None]) -> StartRequest:
    return StartRequest(
        run_id=job.run_id,
        argv=job.argv,
        env=dict(job.env),
        cwd=job.cwd,
        at_home=job.at_home,
        identity=lookup(job.user),
        stdin=job.stdin,
        timeout=job.timeout,
        grace=job.grace,
        umask=job.umask,
        limits=dict(job.limits),
        fault=None if job.argv else "there is no command",
        keeps=job.keeps,
        start_by=None if job.start_by == math.inf else job.start_by,
    )


def _writable(sock: socket.socket, timeout: float) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(timeout * 1000))
