"""Start a command: from its request to a process with pipes, or to the reason for the failure."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH118

import os
from collections.abc import Mapping
from typing import NamedTuple

from dcron.warden.cgroups import Cgroup
from dcron.warden.child import NOT_FOUND, NOT_STARTED, RESET_SIGNALS, Plan, exec_command
from dcron.warden.limits import LimitError, rlimits
from dcron.warden.linux import open_on_root, raw_fork
from dcron.warden.orphans import RUN_ID
from dcron.warden.protocol import StartRequest
from dcron.warden.vfork import vfork_program


class StartError(Exception):
    """A command could not be started. Carries the exit code that a shell would give."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Spawned(NamedTuple):
    """A child that becomes the command, with the read ends of its pipes. Reading them never blocks."""

    pid: int
    out: int
    err: int
    status: int
    """Closes when the program begins. Before that, it may carry a `child.failure`. -1 if the program has
    begun
    already."""


def spawn(start: StartRequest, devnull: int, cgroup: Cgroup | None) -> Spawned:
    """Start a child that becomes the command, in its own session. Raises StartError.

    It is forked, so that the warden need not wait for its exec, unless that is sure to be fast. Python
    between fork and exec is safe here, because the warden has one thread.
    """
    if start.fault is not None:
        raise StartError(NOT_STARTED, start.fault)
    ours: list[int] = []
    theirs: list[int] = []
    try:
        pid = _spawn(start, devnull, cgroup, ours, theirs)
    except Exception as error:
        for fd in ours:
            os.close(fd)
        raise _start_error(error) from error
    finally:
        for fd in theirs:
            os.close(fd)
    out, err, *status = ours
    return Spawned(pid, out, err, status[0] if status else -1)


def _spawn(
    start: StartRequest, devnull: int, cgroup: Cgroup | None, ours: list[int], theirs: list[int]
) -> int:
    """Start the child; return its pid. The caller closes the descriptors in `ours` and `theirs`."""
    streams = _streams(start, devnull, ours, theirs)
    programs = _programs(start)
    env = {**start.env, RUN_ID: str(start.run_id)}
    pid = _spawn_by_vfork(start, cgroup, programs, env, streams)
    if pid is not None:
        return pid
    entrance = -1
    if cgroup is not None:
        entrance = cgroup.open_entrance()
        theirs.append(entrance)
    plan = Plan(
        start=start,
        programs=programs,
        env=env,
        streams=streams,
        status=_pipe(ours, theirs),
        rlimits=rlimits(start.limits) if start.limits else {},
        entrance=entrance,
        counted=frozenset(cgroup.limits if cgroup is not None else ()),
    )
    pid = raw_fork()
    if not pid:
        exec_command(plan)
    return pid


def _streams(start: StartRequest, devnull: int, ours: list[int], theirs: list[int]) -> tuple[int, int, int]:
    """Make the command's stdin, stdout and stderr."""
    out, err = (_pipe(ours, theirs) for _ in range(2))
    if start.identity:  # otherwise it could write to stdout, but not open /dev/stdout
        for fd in (out, err):
            os.fchown(fd, start.identity.uid, start.identity.gid)
    if start.stdin is None:
        return devnull, out, err
    stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
    theirs.append(stdin)
    _fill(stdin, start.stdin)
    return stdin, out, err


def _spawn_by_vfork(
    start: StartRequest,
    cgroup: Cgroup | None,
    programs: tuple[bytes, ...],
    env: Mapping[str, str],
    streams: tuple[int, int, int],
) -> int | None:
    """Start the command by vfork; None if it needs work before its exec, may be slow, or fails."""
    if start.identity is not None or start.limits or cgroup is not None:
        return None
    try:
        directory = open_on_root(os.fsencode(start.cwd or "/"), os.O_DIRECTORY)
    except OSError:
        return None
    try:
        program = vfork_program(programs)
        return _posix_spawn(start, program, directory, env, streams) if program else None
    except FileNotFoundError as error:
        raise StartError(NOT_FOUND, f"there is no program {start.argv[0]!r}") from error
    finally:
        os.close(directory)


def _posix_spawn(
    start: StartRequest, program: bytes, directory: int, env: Mapping[str, str], streams: tuple[int, int, int]
) -> int | None:
    """Start the program in the directory with its umask, both of which the warden takes on for this call.

    Return None if that fails. Every descriptor of the warden is close-on-exec, except the copies of
    `streams` that the child makes.
    """
    own_mask = os.umask(start.umask)
    try:
        os.fchdir(directory)
        return os.posix_spawn(
            program,
            start.argv,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
            setsid=True,
            setsigdef=RESET_SIGNALS,
        )
    except (OSError, ValueError):  # the start by fork will report why
        return None
    finally:
        os.umask(own_mask)
        os.chdir("/")


def _pipe(ours: list[int], theirs: list[int]) -> int:
    """Make a pipe and return its write end.

    Our end does not block: the command's owner may open the other end of the same pipe and read what we
    were about to read. The command's end blocks, as commands expect.
    """
    read_end, write_end = os.pipe()
    ours.append(read_end)
    theirs.append(write_end)
    os.set_blocking(read_end, False)
    return write_end


def _programs(start: StartRequest) -> tuple[bytes, ...]:
    program = os.fsencode(start.argv[0])
    if b"/" in program:
        return (program,)
    return tuple(os.path.join(os.fsencode(each), program) for each in os.get_exec_path(start.env))


def _fill(fd: int, data: bytes) -> None:
    """Write the bytes to a file in memory: a command that does not read them blocks nothing."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)


def _start_error(error: Exception) -> StartError:
    if isinstance(error, StartError):
        return error
    if isinstance(error, LimitError):
        return StartError(NOT_STARTED, str(error))
    if isinstance(error, OSError):
        return StartError(NOT_STARTED, f"cannot start a process: {error.strerror}")
    return StartError(NOT_STARTED, f"cannot be started: {error}")
