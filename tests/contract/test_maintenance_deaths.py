"""A node dies before any statement of a maintenance job, and another one finishes it within a minute."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, update

from dcron.agent.maintenance import Maintenance
from dcron.schema.tables import (
    archives,
    changes,
    daily_statistics,
    events,
    holds,
    maintenance_jobs,
    metadata,
    nodes,
    output,
    runs,
    summed_days,
)
from dcron.services.settings import SharedSettings
from dcron.store import maintenance
from dcron.store.maintenance import Job
from dcron.store.retention.archives import ArchiveDays
from dcron.store.retention.walk import Prune
from dcron.store.statistics.sum_up import SumUpDays
from tests.support.retention import Restless, insert_history, sum_up_all
from tests.support.stage import Stage
from tests.support.statistics import sum_up

MINUTE = timedelta(minutes=1)
MOST = 500
"""Statements of a round; there are fewer."""
EMPTIED = (
    *(runs, output, holds, events, nodes, changes, daily_statistics, summed_days, archives),
    maintenance_jobs,
)
"""Tables that each case begins without rows."""


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(stage: Stage, number: int) -> Iterator[None]:
    """Kill the process before its statement or COMMIT of this number; the database rolls back."""
    seen = 0

    def count(*_: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            raise Killed

    hooks = [(stage.database.engine, name, count) for name in ("before_cursor_execute", "commit")]
    for hook in hooks:
        event.listen(*hook)
    try:
        yield
    finally:
        for hook in hooks:
            event.remove(*hook)


def begin(stage: Stage, folder: Path) -> None:
    """Make the history of 100 days, the same each time."""
    with stage.database.write() as connection:
        for table in EMPTIED:
            connection.execute(delete(metadata.tables[table.name]))
    SharedSettings(stage.crontab).set("archive.url", f"file://{folder}")
    SharedSettings(stage.crontab).unset("archive.url")
    old = [{"days": 60 + n / 100, "bytes": 7, "payload": f"old {n}"} for n in range(70)]
    kept = [
        {"days": 70, "bytes": 7, "payload": "held"},
        {"days": 70, "payload": "flow", "flow": 5},
        {"days": 70, "payload": "letter", "flow": 5, "state": "failed", "dead_at": stage.now},
        {"days": 100, "payload": "bad", "state": "lost"},
        {"days": 20, "bytes": 7, "payload": "without output"},
        *({"days": 1 + n % 2, "bytes": 7, "payload": f"young {n}"} for n in range(8)),
    ]
    letter = {
        "days": 170,
        "state": "failed",
        "dead_at": stage.now - timedelta(days=400),
        "payload": "old letter",
    }
    held, *_ = insert_history(stage, [*kept, letter])
    insert_history(stage, old)
    at = stage.now - timedelta(days=50)
    with stage.database.write() as connection:
        connection.execute(insert(holds).values(run_id=held, task="a", reason="audit"))
        connection.execute(insert(events), [{"name": "e", "created_at": at, "handled_at": at}] * 3)
        row = {"task_id": 1, "day": "2020-01-01", "task": "a", "buckets": {}}
        connection.execute(insert(daily_statistics).values(row))


def facts(stage: Stage, folder: Path) -> dict[str, Any]:
    """Return what is there afterwards, without times and ids."""
    days = daily_statistics.c
    with stage.database.read() as connection:
        label: dict[int, str] = {
            row.id: row.payload for row in connection.execute(select(runs.c.id, runs.c.payload))
        }
        counted = select(days.day, days.task_id, days.succeeded, days.failed, days.lost).order_by(days.day)
        done = select(summed_days.c.day, summed_days.c.archived_at.is_not(None)).order_by(summed_days.c.day)
        paths = list(connection.scalars(select(archives.c.url)))
        found = {
            "runs": sorted(label.values()),
            "output": sorted(label[run_id] for run_id in connection.scalars(select(output.c.run_id))),
            "dead": sorted(connection.scalars(select(runs.c.payload).where(runs.c.dead_at.is_not(None)))),
            "audit log": sorted(connection.scalars(select(changes.c.action))),
            "events": len(connection.execute(select(events.c.id)).all()),
            "statistics": connection.execute(counted).all(),
            "days": connection.execute(done).all(),
        }
    objects = [path for path in folder.rglob("*") if path.is_file()]
    assert sorted(f"file://{path}" for path in objects) == sorted(paths), "objects that nothing knows"
    lines = [json.loads(line) for path in objects for line in gzip.decompress(path.read_bytes()).splitlines()]
    return found | {"archive": sorted(str(line["payload"]) for line in lines)}


def do(stage: Stage, job: Job, node: str) -> None:
    Maintenance(stage.database, node, [job]).do(job, Restless())


def due(stage: Stage, job: Job) -> None:
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [job.name], stage.now)
        values = {"due_at": stage.now, "ran_at": stage.now - timedelta(minutes=10)}
        connection.execute(update(maintenance_jobs).values(values))


def prepare_prune(stage: Stage, folder: Path) -> Job:
    sum_up_all(stage, 300)
    return Prune(lambda: stage.now.timestamp())


def prepare_sum_up(stage: Stage, folder: Path) -> Job:
    sum_up_all(stage, 300, 15)
    return SumUpDays()


def prepare_archive(stage: Stage, folder: Path) -> Job:
    sum_up_all(stage, 300, 15)
    sum_up(stage.database)
    with stage.database.write() as connection:
        archived = update(summed_days).where(summed_days.c.day < str((stage.now - timedelta(days=15)).date()))
        connection.execute(archived.values(archived_at=stage.now))
    SharedSettings(stage.crontab).set("archive.url", f"file://{folder}")
    return ArchiveDays()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("prepare", [prepare_prune, prepare_sum_up, prepare_archive])
def test_a_job_whose_node_dies_at_any_statement_is_finished_within_a_minute(
    stage: Stage, tmp_path: Path, prepare: Callable[[Stage, Path], Job]
) -> None:
    def play(number: int) -> tuple[bool, dict[str, Any]]:
        """Kill a node there, and let another one go on; return whether it came to that, and the end."""
        folder = tmp_path / str(number)
        begin(stage, folder)
        job = prepare(stage, folder)
        due(stage, job)
        was_killed = True
        with suppress(Killed), killed_at(stage, number):
            do(stage, job, "web-1")
            was_killed = False
        if not was_killed:
            return False, facts(stage, folder)
        stage.now += MINUTE
        do(stage, type(job)(), "web-2")
        with stage.database.read() as connection:
            row = maintenance.last_round(connection, job.name)
        assert row is not None
        assert (row.error, row.holder, row.ran_at) == (None, None, stage.now)
        found = facts(stage, folder)
        stage.now -= MINUTE
        return True, found

    _, expected = play(MOST)
    assert {"held", "flow", "letter", "bad", "old letter"} <= set(expected["runs"])
    for number in range(1, MOST):
        was_killed, found = play(number)
        assert found == expected, f"killed at statement {number}"
        if not was_killed:
            break
    assert 15 < number < MOST
