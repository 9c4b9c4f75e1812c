"""Between fork and exec: the warden's child takes the rights of the command's user and becomes the command.

Entering a directory and executing a file take as long as their file system, or their owner, likes: a
network mount may hang, another account may hold a lease on the program. So both happen in this process,
which can be killed, and never in the warden. The warden reads from the status pipe what failed; the pipe
closes when the program begins.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH110

import errno
import os
import signal
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from dcron.warden.limits import Rlimit, apply_limits
from dcron.warden.protocol import StartRequest

NOT_FOUND = 127
NOT_STARTED = 126
_STDERR = 2
MOST_STATUS = 4096
"""Most bytes of a failure: the kernel writes up to this many to a pipe atomically."""

RESET_SIGNALS = (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python, or the warden, handles in a way no command should inherit."""


class Plan(NamedTuple):
    """What the child has to do. The warden prepares it: the child has little time and perhaps little
    memory.
    """

    start: StartRequest
    programs: tuple[bytes, ...]
    """Paths to try, in this order."""
    env: Mapping[str, str]
    streams: tuple[int, int, int]
    status: int
    rlimits: Mapping[str, Rlimit]
    entrance: int
    """Open `cgroup.procs` of the command's cgroup; -1 without one."""
    counted: frozenset[str]
    """Limits that the cgroup enforces."""


def exec_command(plan: Plan) -> NoReturn:
    """Turn this process, which was just forked, into the command; or report why not, and exit."""
    try:
        program = plan.start.argv[0]
        step = f"cannot start {program!r}"
        try:
            for each in RESET_SIGNALS:
                signal.signal(each, signal.SIG_DFL)
            os.setsid()
            for number, fd in enumerate(plan.streams):
                os.dup2(fd, number)
            os.umask(plan.start.umask)
            step = "cannot become the user"
            _become_user(plan.start)
            step = f"cannot enter the directory {plan.start.cwd!r}"
            _enter_directory(plan.start)
            step = f"cannot start {program!r}"
            apply_limits(plan.rlimits, plan.entrance, plan.counted)
            _execute(plan)
        except Exception as error:
            _report(plan, step, error)
    finally:
        os._exit(NOT_STARTED)


def failure(status: bytes) -> tuple[int, str]:
    """Return the exit code that a shell would give, and the message, from what `exec_command` wrote."""
    code, _, message = status.decode(errors="replace").partition(" ")
    return int(code), message


def start_timed_out(start: StartRequest) -> tuple[int, str]:
    """Return exit code and message for a child that was killed before it became its program."""
    where = "" if start.cwd is None else f", or its directory {start.cwd!r},"
    return NOT_STARTED, f"cannot start {start.argv[0]!r}: the file{where} did not answer in time"


def _become_user(start: StartRequest) -> None:
    if start.identity is not None:
        uid, gid, groups = start.identity
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _enter_directory(start: StartRequest) -> None:
    """Enter the command's directory. If a user's home is missing, enter / and write a warning."""
    if start.cwd is None:
        return
    try:
        os.chdir(start.cwd)
    except (FileNotFoundError, NotADirectoryError):
        if not start.at_home:
            raise
        os.chdir("/")
        warning = f"dcron: warning: there is no home directory {start.cwd!r}; the command runs in /\n"
        os.write(_STDERR, warning.encode(errors="replace"))


def _execute(plan: Plan) -> NoReturn:
    """Try the paths as execvp does: a program that cannot be executed says more than a missing one."""
    worst: OSError | None = None
    for path in plan.programs:
        try:
            os.execve(path, plan.start.argv, plan.env)
        except (FileNotFoundError, NotADirectoryError) as error:
            worst = worst or error
        except OSError as error:
            if worst is None or worst.errno in (errno.ENOENT, errno.ENOTDIR):
                worst = error
    raise worst or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _report(plan: Plan, step: str, error: Exception) -> None:
    code, message = _start_error(plan, step, error)
    os.write(plan.status, f"{code} {message}".encode(errors="replace")[:MOST_STATUS])


def _start_error(plan: Plan, step: str, error: Exception) -> tuple[int, str]:
    program = plan.start.argv[0]
    if not isinstance(error, OSError):
        return NOT_STARTED, f"{step}: {error}"
    if not step.startswith("cannot start"):
        return NOT_STARTED, f"{step}: {error.strerror}"
    if error.errno == errno.ENOENT and not any(os.path.exists(path) for path in plan.programs):
        return NOT_FOUND, f"there is no program {program!r}"
    if error.errno == errno.ENOENT:
        return NOT_FOUND, f"the interpreter of {program!r} does not exist"
    if error.errno == errno.E2BIG:
        return (
            NOT_STARTED,
            f"{step}: arguments or environment are too long (128 KiB each, 2 MiB in all)",
        )
    return NOT_STARTED, f"{step}: {error.strerror}"
