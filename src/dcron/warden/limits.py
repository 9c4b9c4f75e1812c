"""Resource limits of a command: set before it begins, inherited by everything it starts.

Each limit is an rlimit (setrlimit(2)), which bounds a process and not a tree. `mem` is the address space of
each process (RLIMIT_AS: more than what it has in memory); `cpu-time`, `files`, `file-size` and `core` are
each process's own. `procs` counts all processes and threads of the command's *user* on the machine
(RLIMIT_NPROC) and does not bind root. If a cgroup is delegated to us (see `cgroups`), `mem` and `procs`
count the whole tree of the command and nothing else, whichever account it runs as.
"""

import os
import resource
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

Kind = Literal["bytes", "seconds", "count"]

LIMITS: Mapping[str, Kind] = MappingProxyType(
    {
        "mem": "bytes",
        "cpu-time": "seconds",
        "files": "count",
        "procs": "count",
        "file-size": "bytes",
        "core": "bytes",
    }
)
"""The limits, and the unit of each."""

_RLIMITS = {
    "mem": "RLIMIT_AS",
    "cpu-time": "RLIMIT_CPU",
    "files": "RLIMIT_NOFILE",
    "procs": "RLIMIT_NPROC",
    "file-size": "RLIMIT_FSIZE",
    "core": "RLIMIT_CORE",
}
_MOST: Mapping[Kind, int] = {"bytes": 1 << 62, "seconds": 1 << 32, "count": 1 << 31}
"""Below the kernel's own bounds: it counts seconds as nanoseconds in 64 bits."""
_CPU_GRACE = 5
"""Seconds of CPU time between SIGXCPU, which a command may catch to clean up, and SIGKILL."""


class LimitError(ValueError):
    """A limit that cannot be set. The message says which, and what is possible."""


class Rlimit(NamedTuple):
    """Arguments of `setrlimit`."""

    number: int
    soft: int
    hard: int


def rlimits(limits: Mapping[str, int]) -> dict[str, Rlimit]:
    """Return the rlimits for these limits, by the same names.

    None exceeds our own hard limit, even where root could raise it: the administrator of this node has set
    it for the agent. Raises LimitError.
    """
    return {name: _rlimit(name, value) for name, value in limits.items()}


def apply_limits(limits: Mapping[str, Rlimit], entrance: int = -1, counted: Container[str] = ()) -> None:
    """Limit this process: a child that is about to become the command.

    `entrance` is the open `cgroup.procs` of a cgroup that enforces the `counted` limits. Without one (-1),
    or if we cannot enter it, rlimits replace those as well.
    """
    inside = _enter(entrance)
    for name, (number, soft, hard) in limits.items():
        if not (inside and name in counted):
            resource.setrlimit(number, (soft, hard))


def spelled(kind: Kind, value: int) -> str:
    """Return the number for people: bytes with the largest unit that divides them, such as `2G`."""
    if kind == "bytes" and value:
        for unit, shift in (("T", 40), ("G", 30), ("M", 20), ("K", 10)):
            if value % (1 << shift) == 0:
                return f"{value >> shift}{unit}"
    return str(value)


def _rlimit(name: str, value: int) -> Rlimit:
    kind = LIMITS.get(name)
    if kind is None:
        raise LimitError(f"there is no limit {name!r}, only {', '.join(LIMITS)}")
    if not 0 <= value <= _MOST[kind]:
        raise LimitError(f"the limit {name}={value} is not from 0 to {_MOST[kind]} ({kind})")
    number = getattr(resource, _RLIMITS[name])
    _, own = resource.getrlimit(number)
    most = _MOST[kind] if own == resource.RLIM_INFINITY else own
    if value > most:
        raise LimitError(
            f"the limit {name}={spelled(kind, value)} is more than this agent may give:"
            f" {spelled(kind, most)} (its own hard {_RLIMITS[name]})"
        )
    return Rlimit(number, value, min(value + _CPU_GRACE, most) if name == "cpu-time" else value)


def _enter(entrance: int) -> bool:
    try:
        os.write(entrance, b"0")  # 0 means the writing process
    except OSError:
        return False
    return True
