"""Measure pruning: how long one batch takes, and claims beside it.

`python -m benchmarks.bench_retention --runs 10000000` is the long form. It needs some 10 GB a database.
With `--url`, it measures a database that it leaves in place: only the first time it has to be filled.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from benchmarks.bench_turns import seed
from benchmarks.machine import describe
from benchmarks.servers import new_database, postgres_server
from dcron import migrations
from dcron.database import Database
from dcron.policy import Lane
from dcron.store import claims, maintenance, nodes
from dcron.store.candidates import Capacity
from dcron.store.maintenance import Hold
from dcron.store.prune import JOB, Prune
from dcron.store.prune_work import Work

TASKS, DAYS, OUTPUT = 2000, 90, 300
"""The history: two thirds of it are older than the 30 days for which it is kept."""
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


def fill(database: Database, kind: str, runs: int) -> None:
    """Insert finished runs with output, the oldest first, one in fifty failed; sum up all days."""
    age = f"(:runs - n) * {DAYS * 86400.0} / :runs"
    at = _AT[kind].format(age)
    data = f"zeroblob({OUTPUT})" if kind == "sqlite" else f"convert_to(repeat('x', {OUTPUT}), 'UTF8')"
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


class Claims(threading.Thread):
    """Claims and releases one run after the other; notes how long each claim takes."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._database = Database(url)
        self.over = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        """Claim until `over` is set."""
        offer = Capacity(node_id="bench-00000000", slots=1)
        while not self.over.wait(0.02):
            began = time.perf_counter()
            with self._database.write() as connection:
                now = self._database.now(connection)
                nodes.renew(connection, offer.node_id, now, 3600)
                claims.claim(connection, self._database, offer, now, [Lane()])
            self.seconds.append(time.perf_counter() - began)
            with self._database.write() as connection:
                claims.release(connection, [offer.node_id])
        self._database.close()


@contextmanager
def _claiming(url: str) -> Iterator[list[float]]:
    thread = Claims(url)
    thread.start()
    yield thread.seconds
    thread.over.set()
    thread.join()


def measure(url: str, seconds: float) -> None:
    """Print how long batches of a round take, and the claims beside it and without it."""
    batches: list[float] = []

    class Timed(Work):
        @contextmanager
        def transaction(self) -> Iterator[Any]:
            began = time.perf_counter()
            with super().transaction() as opened:
                yield opened
            batches.append(time.perf_counter() - began)

    database = Database(url)
    with _claiming(url) as alone:
        time.sleep(min(seconds, 10))
    hold, job, looks, done = begin(database), Prune(), list[float](), {}
    job.work = Timed
    position: Any = {}
    give_up = time.monotonic() + seconds
    with _claiming(url) as beside:
        while position is not None and time.monotonic() < give_up:
            began, known = time.perf_counter(), len(batches)
            step = job.step(database, hold, position)
            looks.append(time.perf_counter() - began - sum(batches[known:]))
            position, done = step.position, (step.position or {}).get("done", step.done)
            time.sleep(step.rest)
    with _claiming(url) as again:
        time.sleep(min(seconds, 10))
    database.close()
    of_history = f"{done.get('runs', 0):,} runs in {len(batches):,} batches" if done else "nothing"
    print(
        f"  {database.product:10} {of_history}: batch {_spread(batches)}; look {_spread(looks)};"
        f" claim {_spread(beside)}, alone {_spread(alone)}, alone again {_spread(again)}",
        flush=True,
    )


def prepare(url: str, runs: int) -> None:
    """Fill an empty database with a history and a node that claims."""
    database = Database(url)
    now = seed(database, 1000)
    register(database, now)
    fill(database, "sqlite" if database.is_sqlite else "postgres", runs)
    database.close()


def _is_empty(url: str) -> bool:
    """Return whether the database has no tables."""
    database = Database(url)
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


def report(server: str, *, runs: int = 100_000, seconds: float = 30.0) -> None:
    """Print one line a database."""
    print(_title(runs))
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url:
            prepare(url, runs)
            measure(url, seconds)
    print()


def _title(runs: int) -> str:
    return f"Pruning {runs:,} runs of {TASKS:,} tasks over {DAYS} days, each with {OUTPUT} bytes of output"


def main() -> None:
    """Measure by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to prune, on each database")
    parser.add_argument(
        "--url", action="append", help="a database to fill, if it is empty, and to keep; repeatable"
    )
    options = parser.parse_args()
    print(describe())
    if not options.url:
        with postgres_server() as server:
            report(server, runs=options.runs, seconds=options.seconds)
        return
    print(_title(options.runs))
    for url in options.url:
        if _is_empty(url):
            prepare(url, options.runs)
        measure(url, options.seconds)


if __name__ == "__main__":
    main()
