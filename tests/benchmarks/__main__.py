"""All figures, one after the other: `make bench`. Compare the ratios of one run."""

import argparse
import os
import platform

from tests.benchmarks import (
    bench_idle,
    bench_lateness,
    bench_schedule,
    bench_spawns,
    bench_startup,
    bench_turns,
)
from tests.benchmarks.servers import postgres_server


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, for a look in passing")
    quick = parser.parse_args().quick
    print(
        f"{platform.platform()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}\n"
    )
    bench_startup.report()
    bench_schedule.report("Europe/Berlin", steps=500 if quick else 2000, tasks=1000 if quick else 10_000)
    print()
    with postgres_server() as server:
        bench_turns.report(server, seconds=3 if quick else 8)
        bench_spawns.report(server, runs=500 if quick else 3000)
        bench_lateness.report(server, seconds=15 if quick else 60)
        bench_idle.report(server, tasks=10_000 if quick else 100_000, seconds=15 if quick else 60)


if __name__ == "__main__":
    main()
