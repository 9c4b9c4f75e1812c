"""One cgroup (version 2) per command, if the system delegates a cgroup to us.

A cgroup counts a whole tree of processes, which rlimits cannot, and is killed at once, including processes
that fork. All of it is optional: without a delegated cgroup, or if it does not work, rlimits and signals
remain.
"""

# The warden goes without pathlib, a quarter of its start-up.
# ruff: noqa: PTH102, PTH103, PTH106, PTH110, PTH112, PTH116, PTH118, PTH119, PTH120, PTH123

import os
import signal
import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress

from dcron.warden.limits import spelled

LEAF = "dcron-agent"
"""The cgroup into which agent and warden move: only a cgroup without processes can be divided. systemd's
DelegateSubgroup= may use this name, too."""
_RUN = "dcron-run-"
_COUNTED_BY = {"memory": "mem", "pids": "procs"}
"""The controllers we use, and the limit that each enforces."""
_MOST_PIDS = 1 << 22
"""Largest `pids.max` that the kernel accepts."""
_SPARE = 64
"""Most empty cgroups that are kept for later runs."""
_REMOVALS = 100
_REMOVAL_PAUSE = 0.02
"""Seconds between attempts to remove the cgroup of a dead node: killed processes need some time to end."""
_RETRIES = 16
"""Cgroups of earlier runs that each removal tries again: background processes may have kept them."""


class Cgroup:
    """The cgroup of one run."""

    def __init__(self, path: str, limits: Mapping[str, int]) -> None:
        self.path = path
        self.limits = limits
        """The limits that it enforces."""

    def open_entrance(self) -> int:
        """Return a descriptor of `cgroup.procs`, opened with our rights for a child that may have fewer."""
        return os.open(f"{self.path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def kill(self) -> None:
        """Send SIGKILL to everything inside at once. Kernels before 5.14 cannot."""
        with suppress(OSError):
            _write(f"{self.path}/cgroup.kill", "1")

    def is_populated(self) -> bool:
        """Return whether any process lives inside, also in cgroups that the run has made there."""
        try:
            return "populated 1" in _text(f"{self.path}/cgroup.events")
        except OSError:
            return False

    def processes(self) -> list[int]:
        """Return the processes inside, including dead ones that were not waited for."""
        try:
            return [int(pid) for pid in _words(f"{self.path}/cgroup.procs")]
        except OSError:
            return []

    def is_as_new(self) -> bool:
        """Return whether another run may use it: it is empty, has no limits, and never ran out of memory."""
        if self.limits or _memory_events(self.path).get("oom_kill"):
            return False
        try:
            events = _text(f"{self.path}/cgroup.events").split()
            inner = os.stat(self.path).st_nlink > 2
        except OSError:
            return False
        return not inner and events == ["populated", "0", "frozen", "0"]

    def remark(self) -> str | None:
        """Return a message if a process was killed because it ran out of memory; else None."""
        events = _memory_events(self.path)
        if not events.get("oom_kill"):
            return None
        if "mem" in self.limits and events.get("oom"):
            return f"out of memory: its limit is {spelled('bytes', self.limits['mem'])}"
        return "out of memory: the machine, or the group it is part of, had none left"


class Cgroups:
    """The cgroups of the runs of one warden. Without a `base` that we may divide, none are made."""

    def __init__(self, node_id: str, base: str | None = None, controllers: Collection[str] = ()) -> None:
        self._node_id = node_id
        self.base = base
        self._counted = [_COUNTED_BY[each] for each in sorted(controllers)]
        self._left: deque[str] = deque()
        self._empty: list[str] = []
        """Cgroups of earlier runs, without limits, for reuse: making one may take as long as a start."""

    def make(self, run_id: int, limits: Mapping[str, int]) -> Cgroup | None:
        """Make a cgroup for a run, which enforces its limits on all it starts; None if that is impossible.

        Without controllers, a cgroup only holds processes together. A command of our own account could leave
        it, but not by accident, as a daemon leaves its session.
        """
        if self.base is None:
            return None
        held = {name: limits[name] for name in self._counted if name in limits}
        if self._empty and not held:
            return Cgroup(self._empty.pop(), held)
        cgroup = Cgroup(os.path.join(self.base, f"{_RUN}{run_id}-{self._node_id}"), held)
        try:
            os.mkdir(cgroup.path, 0o755)
            _set_limits(cgroup.path, held)
        except OSError:
            self.remove(cgroup)
            return None
        return cgroup

    def remove(self, cgroup: Cgroup | None) -> None:
        """Keep the cgroup of a finished run for reuse, or remove it: later if processes still live in it."""
        if cgroup is None:
            return
        if len(self._empty) < _SPARE and cgroup.is_as_new():
            self._empty.append(cgroup.path)
            return
        self._left.appendleft(cgroup.path)
        for _ in range(min(_RETRIES, len(self._left))):
            path = self._left.popleft()
            if not _removed(path):
                self._left.append(path)

    def close(self) -> None:
        """Remove all cgroups that are empty."""
        for path in (*self._left, *self._empty):
            _removed(path)


def delegated_cgroups(node_id: str, ours: Collection[int]) -> Cgroups:
    """Find out once whether our own cgroup is delegated to us, and prepare it for a node's runs. Never fails.

    `ours` are the pids of the agent and of this process.
    """
    try:
        with open("/proc/self/cgroup") as own, open("/proc/self/mountinfo") as mounts:
            home = own_cgroup(own.read(), mounts.read())
        if home is not None:
            return divide(home, ours, os.path.isdir("/run/systemd/system"), node_id)
    except (OSError, ValueError):
        pass
    return Cgroups(node_id)


def end_cgroups_of(node_id: str) -> int:
    """Kill what lives in the cgroups of a dead node and remove them; return the number of processes.

    All cgroups of the host are searched: the node may have been started as another service.
    """
    try:
        with open("/proc/self/mountinfo") as mounts:
            top = mount_point(mounts.read())
    except OSError:
        return 0
    return sum(_ended(path) for path in _cgroups_of(node_id, top)) if top else 0


def _cgroups_of(node_id: str, top: str) -> list[str]:
    return [
        os.path.join(directory, name)
        for directory, names, _ in os.walk(top)
        for name in names
        if name.startswith(_RUN) and name.removeprefix(_RUN).partition("-")[2] == node_id
    ]


def _ended(path: str) -> int:
    cgroup = Cgroup(path, {})
    killed: set[int] = set()
    for _ in range(_REMOVALS):
        cgroup.kill()
        alive = cgroup.processes()
        killed.update(alive)
        for pid in alive:  # for kernels without cgroup.kill
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if _removed(path):
            break
        time.sleep(_REMOVAL_PAUSE)
    return len(killed)


def mount_point(mounts: str) -> str | None:
    """Return where cgroup version 2 is mounted, from /proc/self/mountinfo."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return before.split()[4]
    return None


def own_cgroup(own: str, mounts: str) -> str | None:
    """Return the directory of our cgroup, from /proc/self/cgroup and mountinfo; None without version 2."""
    paths = [line.removeprefix("0::") for line in own.splitlines() if line.startswith("0::")]
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mounted_at = before.split()[3:5]
        if after.startswith("cgroup2 ") and paths and ".." not in paths[0].split("/"):
            inside = os.path.relpath(paths[0], root)
            return None if inside.startswith("..") else os.path.normpath(os.path.join(mounted_at, inside))
    return None


def divide(home: str, ours: Collection[int], systemd: bool, node_id: str) -> Cgroups:
    """Prepare our `home` cgroup, or the one around our leaf, to contain cgroups of runs. Raises OSError.

    `ours` are the processes that may move to a leaf. If others live there, the cgroup is not ours to
    divide. Under systemd every cgroup is systemd's own, except those it marks as delegated.
    """
    base = os.path.dirname(home) if os.path.basename(home) == LEAF else home
    controllers = _words(f"{base}/cgroup.controllers") & _COUNTED_BY.keys()
    if not os.access(base, os.W_OK) or (systemd and not _is_delegated(base)):
        return Cgroups(node_id)
    missing = controllers - _words(f"{base}/cgroup.subtree_control")
    if missing:
        _enable(base, missing, ours)
    return Cgroups(node_id, base, controllers)


def _enable(base: str, controllers: Collection[str], ours: Collection[int]) -> None:
    order = " ".join(f"+{each}" for each in sorted(controllers))
    try:
        _write(f"{base}/cgroup.subtree_control", order)
    except OSError:  # EBUSY: it has processes
        if {int(pid) for pid in _words(f"{base}/cgroup.procs")} - set(ours):
            raise
        try:
            _move(ours, f"{base}/{LEAF}")
            _write(f"{base}/cgroup.subtree_control", order)
        except OSError:
            _move(ours, base)
            os.rmdir(f"{base}/{LEAF}")
            raise


def _move(pids: Collection[int], to: str) -> None:
    os.makedirs(to, exist_ok=True)
    for pid in pids:
        _write(f"{to}/cgroup.procs", str(pid))


def _is_delegated(base: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):  # older versions set the second, for root only
        with suppress(OSError):
            if os.getxattr(base, name) == b"1":
                return True
    return False


def _set_limits(path: str, limits: Mapping[str, int]) -> None:
    if "mem" in limits:
        _write(f"{path}/memory.max", str(limits["mem"]))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with suppress(FileNotFoundError):  # the kernel has no swap, or is older than 4.19
                _write(f"{path}/{name}", value)
    if "procs" in limits:
        _write(f"{path}/pids.max", str(min(limits["procs"], _MOST_PIDS)))


def _removed(path: str) -> bool:
    """Remove a cgroup and the cgroups that the command made inside; return whether it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return _removed_with_all_inside(path)
    return True


def _removed_with_all_inside(path: str) -> bool:
    try:
        for directory, _, _ in os.walk(path, topdown=False):
            os.rmdir(directory)
    except OSError:
        pass
    return not os.path.exists(path)


def _memory_events(path: str) -> dict[str, int]:
    try:
        with open(f"{path}/memory.events") as file:
            return {name: int(count) for name, count in (line.split() for line in file)}
    except OSError:  # the memory controller is missing
        return {}


def _words(path: str) -> set[str]:
    return set(_text(path).split())


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
