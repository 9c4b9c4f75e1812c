"""A PID namespace for the warden and everything it starts, with the warden as process 1.

When process 1 of a namespace ends, the kernel kills everything in it; and it kills the warden when the
guard, outside, dies. So nothing is left even if agent, warden and guard are killed at once.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH123

import errno
import os
import select

from dcron.warden.linux import die_with_parent, mount_proc, unshare_mounts, unshare_pids

_HIDING = ("hidepid=", "gid=", "subset=")
"""Mount options of /proc that hide processes from each other."""


def isolate_children() -> None:
    """Put the children that this process starts from now on into a new PID namespace. Raises OSError."""
    unshare_pids()


def become_init(guard: int) -> bool:
    """Prepare process 1 of the namespace: it dies with the guard, and its /proc shows the namespace.

    `guard` is the pidfd of its parent. Return False if the guard has died already. Raises OSError.
    """
    die_with_parent()
    poll = select.poll()
    poll.register(guard, select.POLLIN)
    if poll.poll(0):
        return False
    with open("/proc/self/mountinfo") as mounts:
        options = hiding_options(mounts.read())
    unshare_mounts()
    mount_proc(options)
    return True


def hiding_options(mounts: str) -> str:
    """Return the options by which /proc hides processes, from /proc/self/mountinfo."""
    for line in reversed(mounts.splitlines()):  # the last mount covers the others
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/proc" and after.startswith("proc "):
            return ",".join(each for each in after.split()[2].split(",") if each.startswith(_HIDING))
    return ""


def why_unavailable() -> str | None:
    """Return why this process cannot isolate its children; None if it can. A child process tries it."""
    child = os.fork()
    if not child:
        _try()
    _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    if number == 0:
        return None
    if number == errno.EPERM:
        return "it needs root with CAP_SYS_ADMIN"
    if number in (errno.EINVAL, errno.ENOSYS):
        return "it needs a kernel with namespaces of processes and mounts"
    if number == errno.ENOSPC:
        return "the limit of user.max_pid_namespaces or user.max_mnt_namespaces is reached"
    return os.strerror(number) if number > 0 else f"its trial was killed by signal {-number}"


def _try() -> None:
    number = errno.EPERM
    try:
        guard = os.pidfd_open(os.getpid())
        isolate_children()
        first = os.fork()
        if first:
            _, status = os.waitpid(first, 0)
            number = os.waitstatus_to_exitcode(status)
        else:
            number = 0 if become_init(guard) else errno.ESRCH
    except OSError as error:
        number = error.errno or errno.EPERM
    finally:
        os._exit(number if 0 <= number < 256 else errno.EPERM)
