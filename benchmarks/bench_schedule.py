"""Measure schedules: microseconds for one next(), and the agenda of one day.

    python -m benchmarks.bench_schedule --steps 2000 --tasks 10000

croniter steps through naive faces (it is what dcron.schedule stands on) and cronsim through the zone's own
times, each from one occurrence to the next one, as next_run() does.
"""

import argparse
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import perf_counter
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from dcron.schedule.kinds import Schedule
from dcron.schedule.next_run import next_run
from dcron.schedule.parser import parse
from dcron.schedule.zones import zone

START = datetime(2027, 1, 1, tzinfo=UTC)

EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "0 9 * * mon-fri",
    "*/15 9-17 * * 1-5",
    "0 0 1,15 * 1",
    "0 0 L * *",
    "0 12 * * 1#2",
    "0 0 1 1 *",
    "0 0 29 2 *",
)


def main() -> None:
    """Read the options and report."""
    options = _options()
    report(options.zone, steps=options.steps, tasks=options.tasks)


def report(timezone: str, *, steps: int, tasks: int) -> None:
    """Print both tables."""
    here = zone(timezone)
    print(f"one next(), microseconds, {timezone}, mean of {steps} steps")
    print(f"{'expression':20} {'dcron':>8} {'croniter':>9} {'cronsim':>8}")
    for expression in EXPRESSIONS:
        dcron = _microseconds(_dcron_step(expression, here), steps)
        naive = _microseconds(_croniter_step(expression), steps)
        other = _microseconds(_cronsim_step(expression, here), steps)
        print(f"{expression:20} {dcron:8.1f} {naive:9.1f} {other:8.1f}")
    _print_agenda(tasks)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--zone", default="Europe/Berlin")
    parser.add_argument("--steps", type=int, default=2000, help="occurrences for each expression")
    parser.add_argument("--tasks", type=int, default=10_000, help="tasks in the agenda; 0 leaves it out")
    return parser.parse_args()


def _microseconds(step: Callable[[], object], steps: int) -> float:
    step()  # what is built once is not counted
    began = perf_counter()
    for _ in range(steps):
        step()
    return (perf_counter() - began) / steps * 1e6


def _dcron_step(expression: str, here: ZoneInfo) -> Callable[[], object]:
    schedule, instant = parse(expression), START

    def step() -> None:
        nonlocal instant
        # Back to the start at the end of the century: rare expressions outrun the calendar.
        instant = next_run(schedule, here, instant if instant.year < 2090 else START) or START

    return step


def _croniter_step(expression: str) -> Callable[[], object]:
    faces = croniter(expression, START.replace(tzinfo=None), implement_cron_bug=True)

    def step() -> None:
        if faces.get_next(datetime).year >= 2090:
            faces.set_current(START.replace(tzinfo=None))

    return step


def _cronsim_step(expression: str, here: ZoneInfo) -> Callable[[], object]:
    times = CronSim(expression, START.astimezone(here))

    def step() -> None:
        nonlocal times
        if next(times).year >= 2090:
            times = CronSim(expression, START.astimezone(here))

    return step


def _print_agenda(tasks: int) -> None:
    """The time to read many tasks and to walk through all their runs of a day, in order."""
    if not tasks:
        return
    began = perf_counter()
    schedules = [_mixed_task(number) for number in range(tasks)]
    read = perf_counter()
    runs = _walk(schedules, START + timedelta(days=1))
    walked = perf_counter()
    print(
        f"\nagenda of {tasks} tasks for 24 h: read in {read - began:.2f} s, "
        f"{runs} runs in {walked - read:.2f} s "
        f"({(walked - read) / max(runs, 1) * 1e6:.1f} microseconds a run)"
    )


def _mixed_task(number: int) -> tuple[Schedule, ZoneInfo]:
    """Mostly daily and hourly tasks, some weekly and monthly, a few of every five minutes."""
    zones = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC")
    forms = (
        "H H * * *",
        "H H * * mon-fri",
        "H * * * *",
        "H H * * H",
        "H H H * *",
        "H/15 * * * *",
        "@every 6h",
    )
    text = "*/5 * * * *" if number % 50 == 0 else forms[number % len(forms)]
    return parse(text, name=f"task-{number}"), zone(zones[number % len(zones)])


def _walk(schedules: list[tuple[Schedule, ZoneInfo]], until: datetime) -> int:
    """Take the earliest run, plan its successor, and so on: what agents do in a day."""
    firsts = ((next_run(schedule, here, START), number) for number, (schedule, here) in enumerate(schedules))
    agenda = [(at, number) for at, number in firsts if at is not None]
    heapq.heapify(agenda)
    runs = 0
    while agenda and agenda[0][0] <= until:
        at, number = agenda[0]
        following = next_run(*schedules[number], at)
        runs += 1
        if following is None:
            heapq.heappop(agenda)
        else:
            heapq.heapreplace(agenda, (following, number))
    return runs


if __name__ == "__main__":
    main()
