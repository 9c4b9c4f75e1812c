"""Measure pruning: how long one batch takes, and claims beside it.

`python -m benchmarks.bench_retention --runs 10000000` is the long form. It needs some 10 GB a database.
With `--url`, it measures a database that it leaves in place: only the first time it has to be filled.
"""

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from benchmarks.bench_turns import seed
from benchmarks.machine import describe
from benchmarks.servers import new_database, postgres_server
from dcron import migrations
from dcron.database import Database, open_database
from dcron.policy.starting.lanes import Lane
from dcron.store import maintenance
from dcron.store.claims import claims
from dcron.store.maintenance import Hold
from dcron.store.nodes import rows as nodes
from dcron.store.retention.batches import Work
from dcron.store.retention.walk import JOB, Prune
from dcron.store.runs.candidates import Capacity

TASKS, DAYS, OUTPUT = 2000, 90, 300
"""The history: two thirds of it are older than the 30 days for which it is kept."""
PHASE = 3.0
"""Seconds."""
Sample = tuple[float, float]
"""When a claim began, and how long it took, in seconds."""
_NUMBERS = {
    "sqlite": "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < :runs)",
    "postgres": "WITH s AS (SELECT generate_series(0, :runs - 1) AS n)",
}
_AT = {
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || ({0}) || ' seconds')",
    "postgres": "now() - make_interval(secs => {0})",
}
_DAY = {
    "sqlite": "date('now', '-' || n || ' days')",
    "postgres": "to_char(now() - n * interval '1 day', 'YYYY-MM-DD')",
}


def fill(database: Database, kind: str, runs: int, output: int = OUTPUT) -> None:
    """Insert finished runs with output, the oldest first, one in fifty failed; sum up all days."""
    age = f"(:runs - n) * {DAYS * 86400.0} / :runs"
    at = _AT[kind].format(age)
    data = f"zeroblob({output})" if kind == "sqlite" else f"convert_to(repeat('x', {output}), 'UTF8')"
    indexes = _drop_indexes(database)
    with database.write() as connection:
        database.lift_limits(connection)
        last = connection.scalar(text("SELECT coalesce(max(id), 0) FROM runs")) or 0
        if kind == "postgres":
            connection.execute(
                text("SELECT setval('runs_id_seq', :last + :runs)"), {"last": last, "runs": runs}
            )
        overriding = "OVERRIDING SYSTEM VALUE " if kind == "postgres" else ""
        connection.execute(
            text(
                "INSERT INTO runs (id, task_id, task, trigger, state, scheduled_for, due_at, claimed_at,"
                f" started_at, finished_at, owner, exit_code, spec) {overriding}{_NUMBERS[kind]}"
                f" SELECT :last + 1 + n, 1 + n % {TASKS}, 'task-' || (n % {TASKS}), 'manual',"
                f" CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'succeeded' END, {at}, {at}, {at}, {at}, {at},"
                " 'web-1-00000000', 0, '{\"command\":\"true\"}' FROM s"
            ),
            {"last": last, "runs": runs},
        )
        connection.execute(
            text(
                f"INSERT INTO output (run_id, byte_offset, stream, at, lines, data) {_NUMBERS[kind]}"
                f" SELECT :last + 1 + n, 0, 'out', {at}, 1, {data} FROM s"
            ),
            {"last": last, "runs": runs},
        )
        connection.execute(
            text(
                f"INSERT INTO summed_days (day, summed_at) {_NUMBERS[kind]}"
                f" SELECT {_DAY[kind]}, CURRENT_TIMESTAMP FROM s WHERE n > 0"
            ),
            {"runs": DAYS + 3},
        )
    for index in indexes:
        with database.write() as connection:
            database.lift_limits(connection)
            connection.execute(text(index))
    if kind == "postgres":
        with database.engine.connect() as connection:
            connection.execute(text("ANALYZE"))


def _drop_indexes(database: Database) -> list[str]:
    """Drop the indexes of the runs; return the statements that create them, which is quicker afterwards."""
    known = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'runs' AND sql IS NOT NULL"
        if database.is_sqlite
        else "SELECT indexname, indexdef FROM pg_indexes"
        " WHERE tablename = 'runs' AND indexname <> 'runs_pkey'"
    )
    with database.write() as connection:
        found = connection.execute(text(known)).all()
        for name, _ in found:
            connection.execute(text(f"DROP INDEX {name}"))
    return [sql for _, sql in found]


def claim_and_release(url: str, is_over: Any, samples: "multiprocessing.Queue[list[Sample]]") -> None:
    """Claim and release one run after the other; report when each claim began, and how long it took."""
    database = open_database(url)
    offer = Capacity(node_id="bench-00000000", slots=1)
    found: list[Sample] = []
    while not is_over.wait(0.02):
        began = time.monotonic()
        with database.write() as connection:
            now = database.now(connection)
            nodes.renew(connection, offer.node_id, now, 3600)
            claims.claim(connection, database, offer, now, [Lane()])
        found.append((began, time.monotonic() - began))
        with database.write() as connection:
            claims.release(connection, [offer.node_id])
    database.close()
    samples.put(found)


@dataclass
class Measured:
    """Seconds that each part of pruning took, and each claim of another process."""

    batches: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Processor time of the batches, in the process that prunes."""
    looks: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    runs: int = 0


def measure(url: str, seconds: float) -> Measured:
    """Prune for `PHASE` seconds and wait for as long, again and again, while another process claims."""
    measured = Measured()

    class Timed(Work):
        @contextmanager
        def transaction(self) -> Iterator[Any]:
            began, cpu = time.perf_counter(), time.process_time()
            with super().transaction() as opened:
                yield opened
            measured.batches.append(time.perf_counter() - began)
            measured.cpu.append(time.process_time() - cpu)

    is_over = multiprocessing.Event()
    samples: multiprocessing.Queue[list[Sample]] = multiprocessing.Queue()
    claiming = multiprocessing.Process(target=claim_and_release, args=(url, is_over, samples))
    claiming.start()
    database = open_database(url)
    hold, job = begin(database), Prune()
    job.work = Timed
    position: Any = {}
    spans, give_up = [], time.monotonic() + seconds
    while position is not None and time.monotonic() < give_up:
        time.sleep(PHASE)
        began = time.monotonic()
        while position is not None and time.monotonic() < began + PHASE:
            position = _step(database, hold, job, position, measured)
        spans.append((began, time.monotonic()))
    is_over.set()
    for at, took in samples.get():
        is_beside = any(first < at + took and at < last for first, last in spans)
        (measured.beside if is_beside else measured.alone).append(took)
    claiming.join()
    database.close()
    return measured


def _step(database: Database, hold: Hold, job: Prune, position: Any, measured: Measured) -> Any:
    """Do a step and rest; return the position of the next one, None at the end of the round."""
    began, known = time.perf_counter(), len(measured.batches)
    step = job.step(database, hold, position)
    measured.looks.append(time.perf_counter() - began - sum(measured.batches[known:]))
    measured.runs = (step.position or {}).get("done", step.done).get("runs", 0)
    time.sleep(step.rest)
    return step.position


def show(kind: str, measured: Measured) -> None:
    """Print a line."""
    ratios = "-"
    if min(len(measured.beside), len(measured.alone)) > 2:
        beside, alone = (statistics.median(each) for each in (measured.beside, measured.alone))
        mean = statistics.mean(measured.beside) / statistics.mean(measured.alone)
        ratios = f"median {beside / alone:.2f}, mean {mean:.2f}"
    print(
        f"  {kind:9} {measured.runs:,} runs in {len(measured.batches):,} batches:"
        f" batch {_spread(measured.batches)} (CPU {_spread(measured.cpu)}); the rest of a step"
        f" {_spread(measured.looks)}; claim {_spread(measured.beside)}, alone {_spread(measured.alone)}:"
        f" ratio {ratios}",
        flush=True,
    )


def prepare(url: str, runs: int, output: int = OUTPUT) -> None:
    """Fill an empty database with a history and a node that claims."""
    database = open_database(url)
    now = seed(database, 1000)
    register(database, now)
    fill(database, "sqlite" if database.is_sqlite else "postgres", runs, output)
    database.close()


def _is_empty(url: str) -> bool:
    """Return whether the database has no tables."""
    database = open_database(url)
    is_empty = migrations.current_version(database) is None
    database.close()
    return is_empty


def register(database: Database, now: Any) -> None:
    """Register the node that claims."""
    from benchmarks.bench_turns import node

    with database.write() as connection:
        nodes.register(connection, node("bench-00000000", now))


def begin(database: Database) -> Hold:
    """Hold the job, with a round some minutes ago, so that the clock is trusted."""
    with database.write() as connection:
        now = database.now(connection)
        maintenance.seize(connection, database, JOB, "bench", now)
        ran_at = now - timedelta(minutes=10)
        connection.execute(text("UPDATE maintenance_jobs SET ran_at = :at").bindparams(at=ran_at))
    return Hold(JOB, "bench")


def _spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "-"
    cuts = statistics.quantiles(seconds, n=100)
    return f"{cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.0f} ms"


def report(server: str, *, runs: int = 100_000, seconds: float = 30.0, output: int = OUTPUT) -> None:
    """Print one line a database."""
    print(_title(runs, output))
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url:
            prepare(url, runs, output)
            show(kind, measure(url, seconds))
    print()


def _title(runs: int, output: int) -> str:
    return f"Pruning {runs:,} runs of {TASKS:,} tasks over {DAYS} days, each with {output:,} bytes of output"


def main() -> None:
    """Measure by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to prune, on each database")
    parser.add_argument("--output", type=int, default=OUTPUT, help="bytes that each run has printed")
    parser.add_argument(
        "--url", action="append", help="a database to fill, if it is empty, and to keep; repeatable"
    )
    options = parser.parse_args()
    print(describe())
    if not options.url:
        with postgres_server() as server:
            report(server, runs=options.runs, seconds=options.seconds, output=options.output)
        return
    print(_title(options.runs, options.output))
    for url in options.url:
        if _is_empty(url):
            prepare(url, options.runs, options.output)
        show("sqlite" if url.startswith("sqlite") else "postgres", measure(url, options.seconds))


if __name__ == "__main__":
    main()
