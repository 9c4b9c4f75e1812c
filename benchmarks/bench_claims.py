"""Measure reading the agenda and claiming, beside a long history and beside runs that cannot start."""

import statistics
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import text

from benchmarks.bench_turns import node, seed
from benchmarks.servers import new_database, postgres_server
from dcron.database import Database, open_database
from dcron.store.claims import claims
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.runs.candidates import Capacity

BATCH = 10
ROUNDS = 100
ME = "bench-00000000"
_MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
_ROW = "INSERT INTO runs (task_id, task, trigger, state, scheduled_for, due_at, spec, {more})"


def report(server: str, *, history: int = 1_000_000, in_the_way: int = 10_000) -> None:
    """Print, for each database, what each burden makes of the cost."""
    print(f"A look and a claim of {BATCH}, ms (median of {ROUNDS}); in brackets what it was without")
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url:
            database = open_database(url)
            now = seed(database, 2000)
            with database.write() as connection:
                nodes.register(connection, node(ME, now))
            _settle(database)
            _measure(database, now)  # what is made once, statements and connections, is made by then
            bare = _measure(database, now)
            for message, add in _burdens(history, in_the_way).items():
                add(database, now)
                _settle(database)
                took = _measure(database, now)
                print(f"  {kind:9} {took:6.2f} ({bare:.2f}): ratio {took / bare:.2f}  and {message}")
            database.close()
    print()


def _burdens(history: int, in_the_way: int) -> dict[str, Callable[[Database, datetime], None]]:
    return {
        f"{history:,} finished runs": partial(_add_history, count=history),
        f"{in_the_way:,} runs of paused lines": partial(_add_blocked, count=in_the_way, block="paused"),
        f"{in_the_way:,} runs at their limit": partial(_add_blocked, count=in_the_way, block="limit"),
        f"{in_the_way:,} due runs that need a tag of others": partial(_add_foreign, count=in_the_way),
    }


def _measure(database: Database, now: datetime) -> float:
    """Milliseconds of a look at the lanes and a claim, which is then undone."""
    took = []
    offer = Capacity(node_id=ME, slots=BATCH)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with database.read() as connection:
            lanes = [head.lane for head in planning.heads(connection) if offer.serves(head.lane)]
        with database.write() as connection:
            batch = claims.claim(connection, database, offer, now, lanes)
        took.append((time.perf_counter() - began) * 1000)
        assert len(batch.claimed) == BATCH
        with database.write() as connection:
            claims.release(connection, [ME])
    return statistics.median(took)


def _add_history(database: Database, now: datetime, count: int) -> None:
    past = now - timedelta(days=1)
    more = "owner, claimed_at, started_at, finished_at"
    values = "1 + i % 2000, 'x', 'schedule', 'succeeded', :past, :past, '{}', 'y', :past, :past, :past"
    _insert(database, count, more, values, past=past)


def _add_blocked(database: Database, now: datetime, count: int, block: str) -> None:
    """Runs of a paused line, or of one at its limit, that were due an hour ago: at the head of the list."""
    values = f"1, 'x', 'event', 'waiting', :past, :past, '{{}}', '{block}'"
    _insert(database, count, "blocked", values, past=now - timedelta(hours=1))


def _add_foreign(database: Database, now: datetime, count: int) -> None:
    values = "1, 'x', 'event', 'waiting', :past, :past, '{}', 'default require=gpu'"
    _insert(database, count, "lane", values, past=now - timedelta(hours=1))


def _insert(database: Database, count: int, more: str, values: str, *, past: datetime) -> None:
    statement = f"{_ROW.format(more=more)} {_MANY.format(count=count)} SELECT {values} FROM n"
    moment = past.strftime("%Y-%m-%d %H:%M:%S.000000") + ("" if database.is_sqlite else "+00")
    with database.write() as connection:
        connection.execute(text(statement), {"past": moment})


def _settle(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("ANALYZE"))


if __name__ == "__main__":
    with postgres_server() as own_server:
        report(own_server)
