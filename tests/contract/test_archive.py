"""Runs are written to the archive, each day once, and can be read when they are pruned."""

import gzip
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, update

from dcron.errors import ArchiveError
from dcron.model import RunState
from dcron.schema.tables import archives, maintenance_jobs, output, runs, summed_days
from dcron.services.archives import Archives
from dcron.services.settings import SharedSettings
from dcron.services.statistics import RunStatistics
from dcron.store.retention.archives import ArchiveDays
from dcron.store.retention.walk import Prune
from tests.support import retention
from tests.support.stage import NOON, Stage
from tests.support.statistics import do_round, ended_run, insert_runs, sum_up, take

TODAY = NOON.replace(hour=0)
YESTERDAY = TODAY - timedelta(days=1)
BYTES = [b"hello\n", b"\xff\x00\x1b[31m", "grüße".encode()]


@pytest.fixture
def folder(stage: Stage, tmp_path: Path) -> Path:
    """The crontab's archive."""
    folder = tmp_path / "archive"
    SharedSettings(stage.crontab).set("archive.url", f"file://{folder}")
    return folder


def fill(stage: Stage, count: int = 3, days: int = 1) -> list[int]:
    """Make runs with output that ended on these days, and sum the days up."""
    rows = [
        ended_run(TODAY - timedelta(days=number % days, minutes=number + 1), task=f"t{number}")
        for number in range(count)
    ]
    ids = insert_runs(stage.database, rows)
    pieces = [
        {"run_id": run_id, "byte_offset": 100 * place, "stream": "out", "at": NOON, "lines": 1, "data": data}
        for run_id in ids
        for place, data in enumerate(BYTES)
    ]
    stage.execute(insert(output), pieces)
    sum_up(stage.database)
    return ids


def prune(stage: Stage) -> None:
    """Delete all runs of archived days."""
    with stage.database.write() as connection:
        connection.execute(delete(output))
        connection.execute(delete(runs).where(runs.c.finished_at < TODAY))


def objects(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def archived(stage: Stage) -> list[str]:
    with stage.database.read() as connection:
        done = select(summed_days.c.day).where(summed_days.c.archived_at.is_not(None))
        return sorted(connection.scalars(done))


def ids_in(paths: Sequence[Path]) -> list[int]:
    return [json.loads(line)["id"] for path in paths for line in gzip.open(path)]


def test_without_a_url_nothing_is_archived(stage: Stage) -> None:
    fill(stage)
    assert do_round(stage.database, ArchiveDays()) == {"days": 0, "objects": 0}
    assert archived(stage) == []


def test_a_pruned_run_comes_back_from_the_archive_byte_for_byte(stage: Stage, folder: Path) -> None:
    ids = fill(stage, 6, days=2)
    before = {run_id: stage.crontab.find_run(run_id) for run_id in ids}
    chunks = {run_id: stage.crontab.output(run_id, 0) for run_id in ids}
    assert do_round(stage.database, ArchiveDays()) == {"days": 2, "objects": 2}
    assert archived(stage) == ["2027-05-30", "2027-05-31"]
    service = Archives(stage.crontab)
    assert service.output(before[ids[0]]) == chunks[ids[0]]
    prune(stage)
    for run_id in ids:
        found = service.find(run_id)
        assert found
        assert (found.run, list(found.output)) == (before[run_id], chunks[run_id])
    assert service.find(max(ids) + 1) is None
    assert service.find(2**70) is None
    assert do_round(stage.database, ArchiveDays())["days"] == 0


def test_nothing_is_pruned_that_is_not_archived(stage: Stage, folder: Path) -> None:
    task = stage.task("a", "@on never", keep={"last": 0})
    old = NOON - timedelta(days=40)
    ids = insert_runs(stage.database, [ended_run(old, task_id=task.id), ended_run(old, task_id=task.id)])
    sum_up(stage.database)
    statistics = RunStatistics(stage.crontab)
    before = statistics.of(NOON - timedelta(days=60)).found
    job = Prune(lambda: stage.now.timestamp())
    assert "runs" not in retention.prune(stage, job)
    assert do_round(stage.database, ArchiveDays()) == {"days": 1, "objects": 1}
    stage.forward(hours=25)  # a round that begins with the oldest runs
    assert retention.prune(stage, job)["runs"] == 2
    assert all(Archives(stage.crontab).find(run_id) for run_id in ids)
    assert statistics.of(NOON - timedelta(days=60)).found[0].now == before[0].now
    assert statistics.of(NOON - timedelta(days=60), by="node").pruned_until == old.date()


def test_a_day_becomes_several_objects(stage: Stage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PAGE", 2), ("PART", 1500), ("OUTPUT_AT_ONCE", 10)):
        monkeypatch.setattr(f"dcron.store.retention.archives.{name}", value)
    ids = fill(stage, 7)
    do_round(stage.database, ArchiveDays())
    paths = objects(folder)
    assert len(paths) > 1
    assert sorted(ids_in(paths)) == ids
    with stage.database.read() as connection:
        rows = connection.execute(select(archives)).all()
    assert sum(row.runs for row in rows) == 7
    assert sorted(row.url for row in rows) == [f"file://{path}" for path in paths]
    assert {row.bytes for row in rows} == {path.stat().st_size for path in paths}
    prune(stage)
    assert all(Archives(stage.crontab).find(run_id) for run_id in ids)


def test_a_holder_killed_between_object_and_row_leaves_one_object(stage: Stage, folder: Path) -> None:
    fill(stage)
    job, hold = ArchiveDays(), take(stage.database, "archive")
    step = job.step(stage.database, hold, {})
    assert step.position is not None
    job.step(stage.database, hold, step.position)
    written = objects(folder)
    assert len(written) == 1  # killed here
    stage.forward(minutes=2)
    assert do_round(stage.database, ArchiveDays()) == {"days": 1, "objects": 1}
    assert objects(folder) == written
    with stage.database.read() as connection:
        assert len(connection.execute(select(archives)).all()) == 1


def test_a_day_with_a_late_end_is_archived_once_more(stage: Stage, folder: Path) -> None:
    stage.now = YESTERDAY + timedelta(hours=10)
    node = stage.node(lease=10 * 86_400)
    stage.crontab.run(stage.task("a", "@yearly"))
    (late,) = stage.take(node)
    stage.now = NOON
    others = fill(stage)
    do_round(stage.database, ArchiveDays())
    prune(stage)
    stage.forward(minutes=1)
    stage.finish(node, late.id, finished_at=YESTERDAY + timedelta(hours=11))
    assert archived(stage) == []
    do_round(stage.database, ArchiveDays())
    assert archived(stage) == ["2027-05-31"]
    prune(stage)
    service = Archives(stage.crontab)
    assert all(service.find(run_id) for run_id in (*others, late.id))


def test_an_end_recorded_while_its_day_is_archived_is_not_missed(stage: Stage, folder: Path) -> None:
    stage.now = YESTERDAY + timedelta(hours=10)
    node = stage.node(lease=10 * 86_400)
    stage.crontab.run(stage.task("a", "@yearly"))
    (late,) = stage.take(node)
    stage.now = NOON
    fill(stage)
    job, hold = ArchiveDays(), take(stage.database, "archive")
    step = job.step(stage.database, hold, {})
    assert step.position is not None
    step = job.step(stage.database, hold, step.position)
    stage.forward(seconds=1)
    stage.finish(node, late.id, finished_at=YESTERDAY + timedelta(hours=11))
    while step.position is not None:
        step = job.step(stage.database, hold, step.position)
    prune(stage)
    assert Archives(stage.crontab).find(late.id)


def test_the_newer_object_of_a_day_wins(stage: Stage, folder: Path) -> None:
    (run_id,) = fill(stage, 1)
    for state in (RunState.LOST, RunState.SUCCEEDED):
        with stage.database.write() as connection:
            connection.execute(update(runs).values(state=state))
            connection.execute(update(summed_days).values(archived_at=None))
        do_round(stage.database, ArchiveDays())
    prune(stage)
    found = Archives(stage.crontab).find(run_id)
    assert found
    assert found.run.state is RunState.SUCCEEDED
    assert len(objects(folder)) == 2


def test_a_day_is_archived_as_soon_as_it_is_summed_up(stage: Stage, folder: Path) -> None:
    do_round(stage.database, ArchiveDays())
    stage.execute(update(maintenance_jobs).values(due_at=stage.now + timedelta(hours=1)))
    fill(stage)
    with stage.database.read() as connection:
        due = select(maintenance_jobs.c.due_at).where(maintenance_jobs.c.name == "archive")
        assert connection.scalar(due) == stage.now


def test_an_archive_that_cannot_be_written_leaves_the_day_to_do(stage: Stage, folder: Path) -> None:
    fill(stage)
    folder.write_text("a file where the directory should be")
    with pytest.raises(ArchiveError):
        do_round(stage.database, ArchiveDays())
    assert archived(stage) == []
    folder.unlink()
    stage.forward(minutes=2)
    assert do_round(stage.database, ArchiveDays())["days"] == 1


def test_rows_written_by_hand_stop_nothing(sqlite_stage: Stage, tmp_path: Path) -> None:
    SharedSettings(sqlite_stage.crontab).set("archive.url", f"file://{tmp_path}/archive")
    ids = fill(sqlite_stage)
    sqlite_stage.sql(f"UPDATE runs SET spec = 'x', started_at = 'noon' WHERE id = {ids[0]}")
    sqlite_stage.sql(f"UPDATE runs SET finished_at = '2027-05-31 noon' WHERE id = {ids[1]}")
    assert do_round(sqlite_stage.database, ArchiveDays()) == {"days": 1, "objects": 1}
    prune(sqlite_stage)
    service = Archives(sqlite_stage.crontab)
    assert service.find(ids[0])
    assert service.find(ids[1]) is None
