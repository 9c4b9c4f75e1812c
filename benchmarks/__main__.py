"""Run all benchmarks: `make bench`. Compare the ratios of one run."""

import argparse

from benchmarks import (
    bench_claims,
    bench_forecast,
    bench_idle,
    bench_kept,
    bench_lateness,
    bench_log,
    bench_network_delay,
    bench_retention,
    bench_same_minute,
    bench_schedule,
    bench_spawns,
    bench_startup,
    bench_tui,
    bench_turns,
)
from benchmarks.machine import describe
from benchmarks.schedulers import all_schedulers
from benchmarks.servers import postgres_server


def main() -> None:
    """Run them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, for a look in passing")
    quick = parser.parse_args().quick
    print(describe())
    bench_startup.report()
    bench_schedule.report("Europe/Berlin", steps=500 if quick else 2000, tasks=1000 if quick else 10_000)
    print()
    with postgres_server() as server:
        bench_forecast.report(server, tasks=500 if quick else 2000)
        bench_turns.report(server, seconds=3 if quick else 8)
        bench_claims.report(server, history=100_000 if quick else 1_000_000)
        bench_kept.report(server, rounds=5 if quick else 30)
        bench_retention.report(server, runs=100_000 if quick else 1_000_000, seconds=20 if quick else 60)
        bench_spawns.report(server, runs=500 if quick else 3000)
        bench_lateness.report(server, seconds=15 if quick else 60)
        bench_network_delay.report(server, seconds=5 if quick else 20)
        bench_same_minute.report(
            all_schedulers(server),
            counts=[300] if quick else [300, 1000],
            minutes=1 if quick else 2,
            loads=bench_same_minute.QUIET if quick else bench_same_minute.QUIET_AND_BUSY,
        )
        bench_tui.report(server, tasks=10_000 if quick else 100_000, seconds=10 if quick else 30)
        bench_idle.report(server, tasks=10_000 if quick else 100_000, seconds=15 if quick else 60)
        bench_log.report(server, lines=100_000 if quick else 1_000_000, seconds=5 if quick else 20)


if __name__ == "__main__":
    main()
