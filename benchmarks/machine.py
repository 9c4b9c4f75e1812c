"""Describe the machine, read the CPU time of processes, and keep the cores busy."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BUSY_LOOP = """
while kill -0 "$PPID"; do
    i=0
    while [ "$i" -lt 100000 ]; do i=$((i + 1)); done
done
"""


def describe() -> str:
    """Return one line about the machine and its load, and one with the command that measures."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).name
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return (
        f"{platform.platform()}, {cores} cores, Python {platform.python_version()}, load {load:.1f}\n"
        f"python -m {' '.join([name, *sys.argv[1:]])}\n"
    )


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the CPU time of processes and all their descendants, also of those that have ended."""
    ticks = 0
    for pid in _with_descendants(roots):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))  # user, system, and both of the reaped children
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_all() -> float:
    """Return the CPU time of all processes since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = Path("/proc/stat").read_text().split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def _with_descendants(roots: Iterable[int]) -> Iterator[int]:
    for pid in roots:
        yield pid
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(OSError):
                yield from _with_descendants(map(int, (thread / "children").read_text().split()))


@contextmanager
def busy_cores() -> Iterator[None]:
    """Run one endless loop for each core. The loops end with this process too."""
    loops = [
        subprocess.Popen(["/bin/sh", "-c", _BUSY_LOOP], stderr=subprocess.DEVNULL)
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
