"""From a start to a process: its pipes, its directory, its user, its limits, or why there is none."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH110, PTH118

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from dcron.warden.cgroups import Cgroup
from dcron.warden.ending import RUN_ID
from dcron.warden.limits import LimitError, confine, rlimits
from dcron.warden.protocol import Start

_NOT_FOUND = 127
NOT_STARTED = 126


class StartError(Exception):
    """A command that could not be started, with the exit code a shell would give."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def spawn(start: Start, devnull: int, cgroup: Cgroup | None) -> tuple[int, int, int]:
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
        prepare = _preparation(start, cgroup, theirs)
        with _entered(start):
            pid = _popen(start, prepare, stdin, *theirs[:2])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        for fd in ours:
            os.close(fd)
        raise _explained(start, error) from error
    finally:
        for fd in theirs:
            os.close(fd)
    return pid, ours[0], ours[1]


def _preparation(start: Start, cgroup: Cgroup | None, theirs: list[int]) -> Callable[[], None] | None:
    """Return what the child does about its limits; what that needs open is added to `theirs`."""
    if not start.limits:
        return None
    wanted = rlimits(start.limits)
    if cgroup is None:
        return partial(confine, wanted)
    entrance = cgroup.open_entrance()
    theirs.append(entrance)
    return partial(confine, wanted, entrance, cgroup.limits)


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


def _popen(start: Start, prepare: Callable[[], None] | None, stdin: int, stdout: int, stderr: int) -> int:
    """Start the child. Popen takes vfork, but a fork for a change of user or a child to `prepare` for limits.

    Limits are set in the child because the warden could not lower a hard limit of its own and have it back,
    `prlimit` from outside may come after the command's first steps, and a shim would cost an interpreter.
    Python between fork and exec is safe here: the warden has one thread.
    """
    user = start.identity
    child = subprocess.Popen(
        start.argv,
        preexec_fn=prepare,
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
    if isinstance(error, LimitError):
        return StartError(NOT_STARTED, str(error))
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
