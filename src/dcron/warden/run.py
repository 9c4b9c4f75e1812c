"""One command, from its start to its result."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH110, PTH118

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from resource import struct_rusage
from time import time

from dcron.warden.ending import RUN_ID, Ending
from dcron.warden.journal import JournalWriter, Reason, Result
from dcron.warden.linux import OwnPeak, boottime
from dcron.warden.protocol import Start
from dcron.warden.timers import Timer

_NOT_FOUND = 127
NOT_STARTED = 126


_own_peak = OwnPeak()


class StartError(Exception):
    """A command that could not be started, with the exit code a shell would give."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Run:
    """A command that was started and has no result yet."""

    def __init__(self, start: Start, pid: int, pipes: set[int], journal: JournalWriter) -> None:
        self.run_id = start.run_id
        self.grace = start.grace
        self.pid = pid
        self.pipes = pipes
        """Read ends that have not come to their end."""
        self.journal = journal
        self.started_at = time()
        self.known: set[tuple[int, int]] = set()
        """Processes that were seen as its members: they stay that, whatever becomes of their parents."""
        self.reason: Reason | None = None
        self.ending: Ending | None = None
        """Set when it is to be killed."""
        self.gone = False
        """Set once it was, and none of its processes is left."""
        self.timeout: Timer | None = None
        self.patience: Timer | None = None
        """For pipes that somebody in the background holds open after the leader's exit."""
        self._began = boottime()
        self._ended = 0.0
        self._status: int | None = None
        self._usage: struct_rusage | None = None

    @property
    def exited(self) -> bool:
        """Whether the leader was reaped: from then on its pid may be somebody else's."""
        return self._status is not None

    @property
    def out_of_reach(self) -> bool:
        """Whether the leader belongs to another user and cannot be killed."""
        spared = self.ending.spared if self.ending else ()
        return not self.exited and any(pid == self.pid for pid, _ in spared)

    def exit(self, status: int, usage: struct_rusage) -> None:
        """Take down how the leader ended."""
        self._status, self._usage, self._ended = status, usage, boottime()

    def result(self, node_id: str) -> Result:
        """Return the result; the duration is right even when the wall clock was set meanwhile."""
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        usage = self._usage
        return Result(
            run_id=self.run_id,
            node_id=node_id,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            reason=self.reason,
            message=self._message(),
            started_at=self.started_at,
            finished_at=self.started_at + (self._ended or boottime()) - self._began,
            cpu=usage.ru_utime + usage.ru_stime if usage else 0.0,
            max_rss=_own_peak.unless_hidden(usage.ru_maxrss * 1024) if usage else None,
            total_bytes=self.journal.total_bytes,
            last_segment=self.journal.segment,
        )

    def _message(self) -> str | None:
        remarks = []
        if self.ending and self.ending.spared:
            pids = ", ".join(str(pid) for pid, _ in sorted(self.ending.spared))
            remarks.append(f"not permitted to kill {pids}")
        if self.journal.error:
            remarks.append(f"output was lost: {self.journal.error}")
        return "; ".join(remarks) or None


def not_started(start: Start, node_id: str, reason: Reason, message: str, code: int | None = None) -> Result:
    """Return the result of a command that never ran."""
    return Result(
        run_id=start.run_id,
        node_id=node_id,
        exit_code=code,
        signal=None,
        reason=reason,
        message=message,
        started_at=None,
        finished_at=time(),
        cpu=0.0,
        max_rss=None,
        total_bytes=0,
        last_segment=0,
    )


def spawn(start: Start, devnull: int) -> tuple[int, int, int]:
    """Start a command in a session of its own; return its pid and the read ends of stdout and stderr."""
    if start.fault is not None:
        raise StartError(NOT_STARTED, start.fault)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        for _ in ("out", "err"):
            read_end, write_end = os.pipe()
            ours.append(read_end)
            theirs.append(write_end)
            if start.identity:  # or it could write to stdout, but not open /dev/stdout
                os.fchown(write_end, start.identity.uid, start.identity.gid)
        stdin = devnull
        if start.stdin is not None:
            stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
            theirs.append(stdin)
            _fill(stdin, start.stdin)
        with _entered(start):
            pid = _popen(start, stdin, *theirs[:2])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        for fd in ours:
            os.close(fd)
        raise _explained(start, error) from error
    finally:
        for fd in theirs:
            os.close(fd)
    return pid, ours[0], ours[1]


@contextmanager
def _entered(start: Start) -> Iterator[None]:
    """Be in the command's directory, entered with the rights of the command's user.

    Popen would enter it as root, who may go where the user may not, and on NFS may not where the user may.
    """
    if start.cwd is None:
        yield
        return
    if start.identity is None:
        os.chdir(start.cwd)
    else:
        groups, gid, uid = os.getgroups(), os.getegid(), os.geteuid()
        try:
            os.setgroups(start.identity.groups)
            os.setegid(start.identity.gid)
            os.seteuid(start.identity.uid)
            os.chdir(start.cwd)
        finally:
            os.seteuid(uid)
            os.setegid(gid)
            os.setgroups(groups)
    try:
        yield
    finally:
        os.chdir("/")


def _popen(start: Start, stdin: int, stdout: int, stderr: int) -> int:
    user = start.identity
    child = subprocess.Popen(  # vfork, as there is no preexec_fn; only a change of user costs a fork
        start.argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={**start.env, RUN_ID: str(start.run_id)},
        umask=start.umask,
        start_new_session=True,
        close_fds=False,  # every descriptor of the warden is close-on-exec already
        user=user and user.uid,
        group=user and user.gid,
        extra_groups=user and user.groups,
    )
    child.returncode = 0  # keeps Popen from waiting for it: the warden reaps
    return child.pid


def _fill(fd: int, data: bytes) -> None:
    """Put the bytes into a file in memory: a command that does not read them blocks nobody."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)


def _explained(start: Start, error: Exception) -> StartError:
    program = start.argv[0]
    if not isinstance(error, OSError):
        return StartError(NOT_STARTED, f"cannot start {program!r}: {error}")
    if error.filename is None:
        return StartError(NOT_STARTED, f"cannot start a process: {error.strerror}")
    if error.filename == start.cwd:
        return StartError(NOT_STARTED, f"cannot enter the directory {start.cwd!r}: {error.strerror}")
    if error.errno == errno.ENOENT and not os.path.exists(os.path.join(start.cwd or "/", program)):
        return StartError(_NOT_FOUND, f"there is no program {program!r}")
    if error.errno == errno.ENOENT:
        return StartError(_NOT_FOUND, f"the interpreter of {program!r} does not exist")
    if error.errno == errno.E2BIG:
        return StartError(
            NOT_STARTED,
            f"cannot start {program!r}: arguments or environment are too long (128 KiB each, 2 MiB in all)",
        )
    return StartError(NOT_STARTED, f"cannot start {program!r}: {error.strerror}")
