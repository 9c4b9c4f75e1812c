"""Set up the warden process and its guard, then run the warden's loop."""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH115, PTH119

import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence

from dcron.warden.cgroups import delegated_cgroups
from dcron.warden.descendants import kill_descendants
from dcron.warden.guard import guard
from dcron.warden.isolation import become_init, isolate_children
from dcron.warden.linux import IntervalTimer, become_subreaper, hide_memory, name_process
from dcron.warden.process import Journals, WardenProcess, Watched

_BROKEN = 70
"""Exit status after an internal error (EX_SOFTWARE)."""


def main(arguments: Sequence[str]) -> None:
    """Be the warden of the agent that started this process (see `client.Warden`)."""
    control_fd, lock_fd, agent_pid, head, tail, isolate = (int(each) for each in arguments[:6])
    directory = arguments[6]
    for fd in (control_fd, lock_fd):
        os.set_inheritable(fd, False)
    agent = os.pidfd_open(os.getppid())
    if os.getppid() != agent_pid:  # the agent died before we could watch it
        return
    os.setsid()
    os.chdir("/")
    _ignore_service_managers()
    become_subreaper()
    hide_memory()
    control = socket.socket(fileno=control_fd)
    control.setblocking(False)
    last_alarm = IntervalTimer()
    cgroups = delegated_cgroups(os.path.basename(directory), (agent_pid, os.getpid()))
    guard_fd = os.pidfd_open(os.getpid())
    parent = os.getpid()
    if isolate:
        isolate_children()
    warden = os.fork()
    if warden:
        control.close()
        guard(warden, last_alarm)
    become_subreaper()
    name_process("dcron-warden")
    pid = int(os.readlink("/proc/self"))  # our pid outside of the namespace
    if not become_init(guard_fd) if isolate else os.getppid() != parent:
        return
    watched = Watched(agent, guard_fd, _watch_children())
    _serve(WardenProcess(control, watched, last_alarm, Journals(directory, head, tail), cgroups), pid)


def _serve(process: WardenProcess, pid: int) -> None:
    try:
        process.serve(pid)
    except BaseException:
        # Whatever the error is, nothing may run without a warden. The agent sees our exit.
        traceback.print_exc()
        kill_descendants(os.getpid(), grace=0)
        sys.exit(_BROKEN)


def _ignore_service_managers() -> None:
    """Make the signals of a service manager harmless to guard and warden: only the agent stops them.

    This happens before the fork, so neither is ever without it. The handlers do nothing; ignored or blocked
    signals would be inherited by the commands.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)


def _watch_children() -> int:
    """Return a descriptor that becomes readable after SIGCHLD."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable
