"""What a command may use at most: set on it before it begins, inherited by all that it starts.

Each limit is an rlimit, and an rlimit bounds a process and not a tree: `mem` is the address space of each
process (RLIMIT_AS: more than what it has in memory), and `cpu-time`, `files`, `file-size` and `core` are each
process's own. `procs` counts all processes and threads of the command's *user* on the machine
(RLIMIT_NPROC), and does not bind root. Where a cgroup is lent to us (see `cgroups`), `mem` and `procs` count
the whole tree of the command and nothing else, whoever it runs as.
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
"""The limits there are, and what their numbers mean."""

_RLIMITS = {
    "mem": "RLIMIT_AS",
    "cpu-time": "RLIMIT_CPU",
    "files": "RLIMIT_NOFILE",
    "procs": "RLIMIT_NPROC",
    "file-size": "RLIMIT_FSIZE",
    "core": "RLIMIT_CORE",
}
_MOST: Mapping[Kind, int] = {"bytes": 1 << 62, "seconds": 1 << 32, "count": 1 << 31}
"""Below what the kernel counts in: it takes seconds for nanoseconds in 64 bits."""
_CPU_GRACE = 5
"""Seconds of CPU between SIGXCPU, which a command may catch to clean up, and SIGKILL."""


class LimitError(ValueError):
    """A limit that cannot be set; says which, and what could be."""


class Rlimit(NamedTuple):
    """What `setrlimit` is told."""

    number: int
    soft: int
    hard: int


def rlimits(limits: Mapping[str, int]) -> dict[str, Rlimit]:
    """Return the rlimits that stand for these limits, by the same names.

    None is above our own hard limit, not even where root could raise it: that is what the administrator of
    this node has set for the agent. Raises LimitError.
    """
    return {name: _rlimit(name, value) for name, value in limits.items()}


def confine(wanted: Mapping[str, Rlimit], entrance: int = -1, counted: Container[str] = ()) -> None:
    """Limit the calling process: a child that is about to become the command.

    `entrance` is the open `cgroup.procs` of a cgroup that holds the `counted` limits. Without one (-1), or if
    it does not take us, rlimits stand in for those as well.
    """
    inside = _enter(entrance)
    for name, (number, soft, hard) in wanted.items():
        if not (inside and name in counted):
            resource.setrlimit(number, (soft, hard))


def spelled(kind: Kind, value: int) -> str:
    """Return the number as people write it: bytes with the largest unit that divides them, `2G`, `1536K`."""
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
        os.write(entrance, b"0")  # 0 is whoever writes
    except OSError:
        return False
    return True
