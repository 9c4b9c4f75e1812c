"""Measure what commands that go on without the database cost: their start, reaping, the heartbeat."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, text

from benchmarks.bench_turns import BATCH, node, seed
from benchmarks.servers import new_database, postgres_server
from dcron.database import Database, open_database
from dcron.model import RunState
from dcron.policy.starting.lanes import Lane
from dcron.schema import tables
from dcron.store.claims import claims, finishing, unheard
from dcron.store.claims.finishing import RunResult
from dcron.store.nodes import rows as nodes
from dcron.store.runs.candidates import Capacity
from dcron.store.upkeep import reaping
from dcron.store.upkeep.steps import take_upkeep

ME = "bench-00000000"
STOP, KEEP = "stop", "keep"


def report(server: str, *, rounds: int = 30) -> None:
    """Print, for each database, what keeping commands makes of the cost."""
    print(f"{BATCH} commands that are kept, ms (median of {rounds}); in brackets the same with stopped ones")
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url:
            database = open_database(url)
            now = seed(database, 2 * rounds * BATCH)
            _choose(database)
            with database.write() as connection:
                nodes.register(connection, node(ME, now))
            times: dict[str, list[float]] = defaultdict(list)
            for number in range(rounds):
                for policy in (STOP, KEEP):
                    _play(database, now, f"bench-{policy}{number:04}", policy, times)
            for what in ("start", "reap", "heartbeat"):
                kept, stopped = (statistics.median(times[f"{what} {policy}"]) for policy in (KEEP, STOP))
                print(f"  {kind:9} {kept:6.2f} ({stopped:.2f}): ratio {kept / stopped:.2f}  {what}")
            print(f"  {kind:9} {statistics.median(times['hear']):6.2f}  hear of them again")
            database.close()
    print()


def _choose(database: Database) -> None:
    """Let every other batch of tasks keep its commands."""
    policy = "CASE WHEN (id - 1) / :batch % 2 = 0 THEN 'stop' ELSE 'keep' END"
    with database.write() as connection:
        connection.execute(text(f"UPDATE crontab SET on_disconnect = {policy}"), {"batch": BATCH})
        connection.execute(text("ANALYZE"))


def _play(
    database: Database, now: datetime, node_id: str, policy: str, times: dict[str, list[float]]
) -> None:
    """Start commands, declare their node dead, send a heartbeat of another node, and end the commands."""
    with database.write() as connection:
        nodes.register(connection, node(node_id, now))
    offer = Capacity(node_id=node_id, slots=BATCH)
    with _timed(database, times[f"start {policy}"]) as connection:
        started = claims.claim(connection, database, offer, now, [Lane()], slots=BATCH).started
    assert [run.keeps for run in started] == [policy == KEEP] * BATCH
    over = {node_id: _alive_until(database, node_id)}
    with _timed(database, times[f"reap {policy}"]) as connection:
        assert len(reaping.reap(connection, database, now, over)[1]) == BATCH * (policy == STOP)
    with _timed(database, times[f"heartbeat {policy}"]) as connection:
        nodes.beat(connection, database, ME, now, 3600.0, 0.0)
        if take_upkeep(connection, database, ME, now, [], []).has_unheard:
            unheard.ending(connection, BATCH)
    if policy == KEEP:
        with _timed(database, times["hear"]) as connection:
            nodes.revive(connection, node_id)
            assert len(unheard.hear(connection, node_id)) == BATCH
        with database.write() as connection:
            ends = [RunResult(run.id, RunState.SUCCEEDED, now, None, 0) for run in started]
            finishing.finish(connection, database, node_id, ends, now)
            reaping.sign_off(connection, database, node_id, now)


@contextmanager
def _timed(database: Database, times: list[float]) -> Iterator[Connection]:
    """Measure a transaction with its commit, in milliseconds."""
    began = time.perf_counter()
    with database.write() as connection:
        yield connection
    times.append((time.perf_counter() - began) * 1000)


def _alive_until(database: Database, node_id: str) -> Any:
    with database.read() as connection:
        return connection.scalar(select(tables.nodes.c.alive_until).where(tables.nodes.c.id == node_id))


if __name__ == "__main__":
    with postgres_server() as own_server:
        report(own_server)
