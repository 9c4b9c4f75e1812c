"""Measure commands that are all due in the same minute: how late they start and what CPU time they take.

The others are cronstable and Debian's cron, if they are installed. Each command writes its start time.
"""

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.machine import busy_cores, cpu_seconds, cpu_seconds_of_all, describe
from benchmarks.schedulers import Scheduler, UnavailableError, Workload, all_schedulers
from benchmarks.servers import postgres_server

Load = Callable[[], AbstractContextManager[None]]
QUIET: Mapping[str, Load] = {"quiet": nullcontext}
QUIET_AND_BUSY: Mapping[str, Load] = {**QUIET, "beside a busy loop on each core": busy_cores}
REFERENCE = "cronstable"
_SETTLE = 5.0
"""Seconds that a scheduler gets before the minute, after it has started."""
_LATEST = 57.0
"""Seconds after which a measurement no longer waits for starts."""


@dataclass(frozen=True)
class Minute:
    """What one minute showed. Times are in seconds."""

    late: Sequence[float]
    """How late each command started; sorted."""
    cpu: float
    """CPU time of the scheduler with all its processes, the commands, and the database server."""
    others: float
    """Share of the cores that all other processes used meanwhile."""


def measure(scheduler: Scheduler, commands: int, load: Load) -> Minute:
    """Let a scheduler run the commands of one minute. Raises UnavailableError."""
    with tempfile.TemporaryDirectory() as directory:
        work = Workload(commands, Path(directory))
        work.starts.touch()
        with scheduler.run(work) as processes, load():
            return _next_minute(work, processes)


def _next_minute(work: Workload, processes: Sequence[int]) -> Minute:
    due = ((time.time() + _SETTLE) // 60 + 1) * 60
    time.sleep(due - 1 - time.time())
    began, all_before, before = time.time(), cpu_seconds_of_all(), cpu_seconds(processes)
    earlier = work.starts.stat().st_size
    while time.time() < due + _LATEST and _rows(work.starts, earlier) < work.commands:
        time.sleep(0.1)
    time.sleep(1)  # the last ends are recorded
    cpu = cpu_seconds(processes) - before
    others = (cpu_seconds_of_all() - all_before - cpu) / (time.time() - began) / len(os.sched_getaffinity(0))
    with work.starts.open() as file:
        file.seek(earlier)
        times = [datetime.fromisoformat(row.strip()).timestamp() for row in file]
    return Minute(sorted(at - due for at in times), cpu, others)


def _rows(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read().count(b"\n")


def report(
    schedulers: Sequence[Scheduler], *, counts: Sequence[int], minutes: int, loads: Mapping[str, Load] = QUIET
) -> None:
    """Print one line for each number of commands, load and scheduler. Schedulers take turns by the minute."""
    rounds = f"{minutes} minute{'s' * (minutes > 1)}"
    print(f"Commands due in the same minute, default settings: medians (range of the last start) of {rounds}")
    for commands in counts:
        for load_name, load in loads.items():
            print(f"  {commands:,} commands, {load_name}", flush=True)
            measured, unavailable = _take_turns(schedulers, commands, minutes, load)
            reference = _median_last(measured[REFERENCE]) if measured.get(REFERENCE) else None
            for name, found in measured.items():
                print(f"    {name:26} {unavailable.get(name) or _format(found, commands, reference)}")
    print(flush=True)


def _take_turns(
    schedulers: Sequence[Scheduler], commands: int, minutes: int, load: Load
) -> tuple[dict[str, list[Minute]], dict[str, str]]:
    """Return the minutes of each scheduler, and the reasons of those that cannot run here."""
    measured: dict[str, list[Minute]] = {scheduler.name: [] for scheduler in schedulers}
    unavailable: dict[str, str] = {}
    for _ in range(minutes):
        for scheduler in schedulers:
            if scheduler.name not in unavailable:
                try:
                    measured[scheduler.name].append(measure(scheduler, commands, load))
                except UnavailableError as error:
                    unavailable[scheduler.name] = str(error)
    return measured, unavailable


def _format(measured: Sequence[Minute], commands: int, reference: float | None) -> str:
    started = min(len(minute.late) for minute in measured)
    if started < commands:
        return f"only {started} of {commands} commands started within {_LATEST:g} s"
    first = statistics.median(minute.late[0] for minute in measured)
    middle = statistics.median(statistics.median(minute.late) for minute in measured)
    lasts = sorted(minute.late[-1] for minute in measured)
    cpu = statistics.median(minute.cpu for minute in measured)
    others = statistics.median(minute.others for minute in measured)
    text = (
        f"first {first:5.2f} s, median {middle:5.2f} s, last {_median_last(measured):5.2f} s"
        f" ({lasts[0]:.2f}-{lasts[-1]:.2f}), CPU {cpu:5.2f} s, others {others:4.0%}"
    )
    return text + (f", last / {REFERENCE}'s {_median_last(measured) / reference:.2f}" if reference else "")


def _median_last(measured: Sequence[Minute]) -> float:
    return statistics.median(max(minute.late, default=math.inf) for minute in measured)


def main() -> None:
    """Measure what the options choose."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commands", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--minutes", type=int, default=1, help="for each measurement")
    parser.add_argument("--busy", action="store_true", help="also beside a busy loop on each core")
    parser.add_argument("--only", default="", help="schedulers with this in their names")
    options = parser.parse_args()
    print(describe())
    with postgres_server() as server:
        chosen = [scheduler for scheduler in all_schedulers(server) if options.only in scheduler.name]
        loads = QUIET_AND_BUSY if options.busy else QUIET
        report(chosen, counts=options.commands, minutes=options.minutes, loads=loads)


if __name__ == "__main__":
    main()
