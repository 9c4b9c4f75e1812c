"""When something begins to be wrong: just below each threshold, at it, and just above it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from dcron.database import FileCondition, ServerCondition
from dcron.schema.tables import maintenance_jobs, nodes
from dcron.services.doctor import Doctor
from dcron.services.doctor.database import examine_file, examine_server
from dcron.services.why import Why
from dcron.store.statistics import figures
from tests.support.watching import WatchedStage, stage

__all__ = ["stage"]

MOMENT = timedelta(milliseconds=1)
MIB = 1024**2


def found(stage: WatchedStage) -> set[str]:
    return {each.code for each in Doctor(stage.database).examine()}


@pytest.mark.parametrize(("beyond", "is_late"), [(-MOMENT, False), (MOMENT * 0, True), (MOMENT, True)])
def test_a_run_is_late_from_its_start_on(stage: WatchedStage, beyond: timedelta, is_late: bool) -> None:
    stage.task("backup")
    stage.now += timedelta(minutes=20) + beyond
    assert stage.look() == (["late task:1"] if is_late else [])


@pytest.mark.parametrize(("beyond", "is_late"), [(-MOMENT, False), (MOMENT * 0, False), (MOMENT, True)])
def test_a_run_counts_as_late_after_15_seconds(stage: WatchedStage, beyond: timedelta, is_late: bool) -> None:
    stage.task("backup")
    stage.now += timedelta(minutes=10, seconds=15) + beyond
    with stage.database.snapshot() as connection:
        assert figures.read(connection, stage.database).tasks_late == int(is_late)


@pytest.mark.parametrize(("beyond", "is_stale"), [(-MOMENT, False), (MOMENT * 0, True), (MOMENT, True)])
def test_a_task_is_stale_from_its_expected_success_on(
    stage: WatchedStage, beyond: timedelta, is_stale: bool
) -> None:
    stage.task("backup", "@yearly", expect={"success": 3600.0})
    stage.now += timedelta(hours=1) + beyond
    assert stage.look() == (["stale task:1"] if is_stale else [])


@pytest.mark.parametrize(("beyond", "is_long"), [(-MOMENT, False), (MOMENT * 0, False), (MOMENT, True)])
def test_a_run_takes_too_long_above_its_expected_runtime(
    stage: WatchedStage, beyond: timedelta, is_long: bool
) -> None:
    stage.task("backup", expect={"runtime": "..1m"})
    node = stage.node(lease=3600)
    stage.forward(minutes=10)
    stage.take(node)
    stage.now += timedelta(minutes=1) + beyond
    assert stage.look() == (["too-long task:1"] if is_long else [])


@pytest.mark.parametrize(("offset", "is_off"), [(1.999, False), (-2.0, False), (2.0, False), (-2.001, True)])
def test_a_clock_is_off_above_two_seconds(stage: WatchedStage, offset: float, is_off: bool) -> None:
    stage.node("web-1", lease=3600)
    stage.execute(update(nodes).values(clock_offset=offset))
    assert stage.look() == (["clock node:web-1"] if is_off else [])
    assert ("clock-skew" in found(stage)) is is_off


@pytest.mark.parametrize(("beyond", "is_unserved"), [(-MOMENT, False), (MOMENT * 0, True), (MOMENT, True)])
def test_a_task_is_unserved_after_5_minutes(
    stage: WatchedStage, beyond: timedelta, is_unserved: bool
) -> None:
    stage.node("web-1", lease=36_000)
    stage.task("backup", "@daily", require=("gpu",))
    stage.look()
    stage.now += timedelta(minutes=5) + beyond
    assert stage.look() == (["unserved task:1"] if is_unserved else [])
    assert "unserved" in found(stage), "the doctor says so at once"


@pytest.mark.parametrize(("beyond", "is_behind"), [(-MOMENT, False), (MOMENT * 0, False), (MOMENT, True)])
def test_a_job_is_behind_after_an_hour_and_for_the_doctor_after_a_day(
    stage: WatchedStage, beyond: timedelta, is_behind: bool
) -> None:
    job: dict[str, Any] = {"position": {}, "done": {}, "error": None, "name": "prune"}
    stage.execute(insert(maintenance_jobs).values(due_at=stage.now, **job))
    start = stage.now
    stage.now = start + timedelta(hours=1) + beyond
    assert stage.look() == (["maintenance-behind job:prune"] if is_behind else [])
    stage.now = start + timedelta(days=1) + beyond
    assert ("maintenance-behind" in found(stage)) is is_behind


@pytest.mark.parametrize(("beyond", "is_back"), [(-MOMENT, False), (MOMENT * 0, False), (MOMENT, True)])
def test_a_node_counts_as_lost_for_a_week(stage: WatchedStage, beyond: timedelta, is_back: bool) -> None:
    stage.node("web-1")
    stage.forward(minutes=10)
    stage.reap()
    assert stage.look() == ["node-lost node:web-1"]
    stage.now += timedelta(days=7) + beyond
    assert stage.look() == ([] if is_back else ["node-lost node:web-1"])


@pytest.mark.parametrize(
    ("free", "size", "is_low"),
    [
        (64 * MIB - 1, MIB, True),
        (64 * MIB, MIB, False),
        (200 * MIB - 1, 100 * MIB, True),
        (200 * MIB, 100 * MIB, False),
    ],
)
def test_a_disk_is_low_below_twice_the_file_and_64_mib(free: int, size: int, is_low: bool) -> None:
    file = FileCondition(Path("/srv/dcron.db"), size, free, "ext4", False, "truncate", False, "3.40.1", None)
    assert ("disk" in {each.code for each in examine_file(file)}) is is_low


@pytest.mark.parametrize(("free", "is_low"), [(64 * MIB - 1, True), (64 * MIB, False)])
def test_an_alert_says_that_the_disk_is_low(
    stage: WatchedStage, monkeypatch: pytest.MonkeyPatch, free: int, is_low: bool
) -> None:
    if not stage.database.address.path:
        pytest.skip("a server has its own disk")
    usage = type("Usage", (), {"free": free})()
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert stage.look() == (["database cluster"] if is_low else [])


@pytest.mark.parametrize(("seconds", "is_old"), [(599.9, False), (600.0, False), (600.1, True)])
def test_a_transaction_is_old_above_ten_minutes(
    stage: WatchedStage, monkeypatch: pytest.MonkeyPatch, seconds: float, is_old: bool
) -> None:
    server = ServerCondition(False, 97, 20, 1, True, True, ())
    assert ("old-transaction" in {each.code for each in examine_server(server, seconds)}) is is_old
    if not stage.database.address.path:
        monkeypatch.setattr(type(stage.database), "oldest_transaction", lambda *_: seconds)
        assert stage.look() == (["database cluster"] if is_old else [])


def test_all_speak_of_the_same_task(stage: WatchedStage) -> None:
    """A task that no agent can take: the list, the doctor, the figures, `why` and the alert name it."""
    node = stage.node("web-1", lease=36_000)
    stage.task("backup", require=("gpu",))
    stage.task("other")
    stage.look()
    stage.now += timedelta(minutes=10, seconds=16)
    for run in stage.take(node):
        stage.finish(node, run.id)
    assert stage.look() == ["unserved task:1"]
    [finding] = [each for each in Doctor(stage.database).examine() if each.code == "unserved"]
    assert list(finding.subjects) == ["backup"]
    with stage.database.snapshot() as connection:
        cluster = figures.read(connection, stage.database)
    assert (cluster.tasks_unserved, cluster.tasks_late) == (1, 1)
    codes = {cause.code for cause in Why(stage.crontab).explain("backup")}
    assert {"unserved", "alert"} <= codes
    assert codes.isdisjoint(
        {cause.code for cause in Why(stage.crontab).explain("other")} & {"unserved", "alert"}
    )
    assert stage.crontab.view("backup").unserved
    assert not stage.crontab.view("other").unserved
