"""Find and signal whole trees of processes through /proc.

Groups and sessions are not enough (`setsid` leaves both), nor is a parent's death (a double fork survives
it). Only descent never changes: a subreaper stays an ancestor of everything started below it.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH123, PTH208

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

from dcron.warden.linux import boottime

_ROUNDS = 20
"""Looks at /proc without a pause while new processes keep appearing."""
_FORKED_ONLY = 0x40
"""PF_FORKNOEXEC in the flags of /proc/PID/stat."""
_LIST = 1 << 16
"""Bytes of the list of children that are read at once."""
_PAUSE = 0.02
"""Seconds between looks while processes die."""


class Process(NamedTuple):
    """One line of /proc/PID/stat."""

    pid: int
    ppid: int
    group: int
    session: int
    started: int
    """Clock ticks since boot. Together with the pid they identify a process for good."""
    alive: bool

    @property
    def key(self) -> tuple[int, int]:
        """Identifies the process for good; a pid alone may be reused."""
        return self.pid, self.started


class Processes:
    """All processes at one time (15 us each)."""

    def __init__(self) -> None:
        """Read /proc, and then our own children once more.

        Processes that fork and exit faster than /proc is read are missing there. But the last of them has
        no parent any more, so it is our child.
        """
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        found = [process(pid) for pid in pids]
        found += [process(pid) for pid in children() if pid not in pids]
        self._by_parent: defaultdict[int, list[Process]] = defaultdict(list)
        for each in found:
            if each is not None:
                self._by_parent[each.ppid].append(each)

    def children(self, pid: int) -> list[Process]:
        """Return the children of a process, including dead ones."""
        return self._by_parent[pid]

    def below(self, *pids: int) -> list[Process]:
        """Return all descendants of these processes, including dead ones."""
        found: list[Process] = []
        parents = list(pids)
        while parents:
            children = self._by_parent.get(parents.pop(), ())
            found += children
            parents += [child.pid for child in children]
        return found


def process(pid: int) -> Process | None:
    """Return what /proc says about a process; None if it is gone."""
    fields = _stat(pid)
    if fields is None:
        return None
    state, ppid, group, session, threads, started = (fields[i] for i in (0, 1, 2, 3, 17, 19))
    # In a zombie with other threads, only the main thread has ended.
    alive = state not in (b"Z", b"X") or int(threads) > 1
    return Process(pid, int(ppid), int(group), int(session), int(started), alive)


def never_executed(pid: int) -> bool:
    """Return whether a process, not yet waited for, was only forked and never became a program."""
    fields = _stat(pid)
    return fields is not None and bool(int(fields[6]) & _FORKED_ONLY)


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat from the state on; None if the process is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # the last with the option hidepid
        return None
    try:
        line = os.read(fd, 1024)
    except ProcessLookupError:  # gone since it was opened
        return None
    finally:
        os.close(fd)
    return line[line.rindex(b")") + 2 :].split()  # the command name may contain anything, in brackets


def children() -> list[int]:
    """Return our own children, including dead ones; none if the kernel does not list them."""
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        try:
            fd = os.open(f"/proc/self/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN, or a thread that has ended
            continue
        with os.fdopen(fd, "rb") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


class Children:
    """The children of a process with one thread, the caller: a look costs one read."""

    def __init__(self) -> None:
        """Open the kernel's list once."""
        try:
            self._fd = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
            self._fd = -1

    def pids(self) -> list[int]:
        """Return the pids, including dead children; none if the kernel does not list them."""
        if self._fd < 0:
            return []
        found = b""
        while part := os.pread(self._fd, _LIST, len(found)):
            found += part
        return [int(pid) for pid in found.split()]


def send(target: Process, number: int) -> bool:
    """Signal exactly this process, not a later one with its pid; return False if we may not."""
    try:
        fd = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return True
    try:
        now = process(target.pid)
        if now is not None and now.key == target.key:
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(fd)
    return True


def terminate(targets: Iterable[Process]) -> None:
    """Send SIGTERM, then SIGCONT, so that stopped processes handle it."""
    for target in targets:
        if send(target, signal.SIGTERM):
            send(target, signal.SIGCONT)


def kill_descendants(
    of_pid: int, grace: float, patience: float = 5.0, go_on: Callable[[], bool] = lambda: True
) -> list[int]:
    """End all descendants of a process: SIGTERM, `grace` seconds, SIGKILL until none is left.

    `go_on` is asked before each signal: once it returns False, nothing more is signalled.

    For an agent whose warden was killed: `of_pid` is then the agent itself, a subreaper without other
    children (they would be killed and reaped, too) and without a new warden yet. Return the pids that are
    still alive `patience` seconds after SIGKILL: another user's, or in uninterruptible sleep.
    """
    kill_at = boottime() + grace
    asked = False
    while True:
        alive = _alive_below(of_pid)
        now = boottime()
        over = not go_on() or (not alive and not (of_pid == os.getpid() and children()))
        if over or now > kill_at + patience:
            return [each.pid for each in alive]
        if not asked:
            terminate(each for each in alive if go_on())
            asked = True
        elif now >= kill_at:
            _kill_all(of_pid, alive, go_on)
        time.sleep(_PAUSE)


def kill_marked(variable: str) -> int:
    """Kill all processes whose environment contains `variable` (NAME=value); return how many.

    For commands whose agent and warden were both killed: no living process is their ancestor then.
    """
    entry = b"\0" + variable.encode() + b"\0"
    killed: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):
        found = (
            process(int(name))
            for name in os.listdir("/proc")
            if name.isdigit() and _has_variable(name, entry)
        )
        new = [each for each in found if each and each.alive and each.key not in killed]
        if not new:
            break
        for each in new:
            send(each, signal.SIGKILL)
            killed.add(each.key)
    return len(killed)


def _has_variable(pid: str, entry: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry in b"\0" + file.read()
    except OSError:  # gone, or another user's
        return False


def _kill_all(of_pid: int, alive: list[Process], go_on: Callable[[], bool]) -> None:
    """Kill these processes, and those that they fork in the meantime."""
    killed: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):
        new = [each for each in alive if each.key not in killed]
        if not new:
            return
        for each in new:
            if not go_on():
                return
            send(each, signal.SIGKILL)
            killed.add(each.key)
        alive = _alive_below(of_pid)


def _alive_below(of_pid: int) -> list[Process]:
    if of_pid == os.getpid():
        _reap_children()
    return [each for each in Processes().below(of_pid) if each.alive]


def reap_other_children(own: Collection[int]) -> None:
    """Reap dead children except `own`, the ones that this process started itself.

    As process 1 of a container, this process is the parent of every orphan there.
    """
    for pid in children():
        if pid not in own:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _reap_children() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
