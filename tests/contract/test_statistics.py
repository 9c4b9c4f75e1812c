"""Days are summed up once their runs have ended, and the sums outlive the runs."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from dcron.errors import NotFound, UsageError
from dcron.model import RunState
from dcron.policy.statistics import Statistics, Totals
from dcron.schema.tables import daily_statistics, runs, summed_days
from dcron.services.statistics import RunStatistics
from dcron.store.statistics import finished_runs
from dcron.store.statistics.sum_up import SumUpDays
from tests.support.stage import NOON, Stage
from tests.support.statistics import ended_run, insert_runs, sum_up, take

TODAY = NOON.replace(hour=0)
YESTERDAY = TODAY - timedelta(days=1)
MONTH = NOON - timedelta(days=30)
DAYS = 5


def report(stage: Stage, since: datetime = MONTH, name: str | None = None) -> dict[str, Statistics]:
    found = RunStatistics(stage.crontab).of(since, name).found
    return {each.name: each for each in found}


def summed(stage: Stage) -> list[str]:
    with stage.database.read() as connection:
        return list(connection.scalars(select(summed_days.c.day).order_by(summed_days.c.day)))


def prune(stage: Stage) -> int:
    """Delete all runs of the days that are summed up."""
    with stage.database.write() as connection:
        return connection.execute(delete(runs).where(runs.c.finished_at < TODAY)).rowcount


def test_a_day_is_summed_up_once_and_six_hours_after_its_end(stage: Stage) -> None:
    insert_runs(stage.database, [ended_run(YESTERDAY), ended_run(TODAY - timedelta(microseconds=1))])
    insert_runs(stage.database, [ended_run(YESTERDAY - timedelta(days=9)), ended_run(TODAY)])
    stage.now = TODAY + timedelta(hours=5, minutes=59)
    assert sum_up(stage.database) == 1
    stage.now = TODAY + timedelta(hours=6)
    assert sum_up(stage.database) == 1
    assert sum_up(stage.database) == 0
    assert summed(stage) == ["2027-05-22", "2027-05-31"]
    with stage.database.read() as connection:
        rows = connection.execute(select(daily_statistics).order_by(daily_statistics.c.day)).all()
    assert [(row.day, row.task_id, row.task, row.succeeded, row.seconds) for row in rows] == [
        ("2027-05-22", 1, "a", 1, 10.0),
        ("2027-05-31", 1, "a", 2, 20.0),
    ]
    assert (rows[1].longest, rows[1].late_seconds, rows[1].latest) == (10.0, 0.0, 0.0)


def test_a_day_is_counted_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.store.statistics.sum_up.ROWS", 2)
    monkeypatch.setattr(finished_runs.page, "__defaults__", (3,))
    same_time = [ended_run(YESTERDAY, task_id=1 + number % 5, task=f"t{number % 5}") for number in range(10)]
    later = [ended_run(YESTERDAY + timedelta(hours=number), task_id=9, task="late") for number in range(7)]
    insert_runs(stage.database, same_time + later)
    expected = report(stage)
    assert {each.now.succeeded for each in expected.values()} == {2, 7}
    assert sum_up(stage.database) == 1
    prune(stage)
    assert report(stage) == expected


times = st.builds(
    lambda day, second: TODAY - timedelta(days=day) + timedelta(seconds=second),
    st.integers(-1, 2 * DAYS),
    st.integers(0, 40_000) | st.integers(0, 86_399),
)
ends = st.builds(
    lambda at, state, seconds, task: ended_run(at, state, seconds, task_id=task, task=f"t{task}"),
    times,
    st.sampled_from([state.value for state in RunState if state.is_final]),
    st.floats(0, 100_000, allow_nan=False),
    st.integers(1, 3),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ends, max_size=20), st.data())
def test_a_pruned_history_has_equal_statistics(stage: Stage, ended: list[dict[str, Any]], data: Any) -> None:
    with stage.database.write() as connection:
        for table in (runs, daily_statistics, summed_days):
            connection.execute(delete(table))
    ids = insert_runs(stage.database, [row for row in ended if row["finished_at"] <= NOON])
    since = NOON - timedelta(days=DAYS)
    expected = report(stage, since)
    sum_up(stage.database)
    assert report(stage, since) == expected
    kept = data.draw(st.sets(st.sampled_from(ids)) if ids else st.just(set()))
    stage.execute(delete(runs).where(runs.c.finished_at < TODAY, runs.c.id.not_in(kept)))
    assert report(stage, since) == expected
    sum_up(stage.database)
    assert report(stage, since) == expected


def running(stage: Stage, *, lost_at: datetime | None = None, pruned: bool = False) -> tuple[str, list[int]]:
    """Start two runs yesterday at 10:00; they may be lost later. Then sum up, and perhaps prune."""
    stage.now = YESTERDAY + timedelta(hours=10)
    node = stage.node(lease=10 * 86_400)
    task = stage.task("a", "@yearly")
    started = []
    for _ in range(2):
        stage.crontab.run(task)
        started += [run.id for run in stage.take(node)]
        stage.set_task(task.id, max_running=5)
    other = stage.task("b", "@yearly")
    stage.crontab.run(other)
    stage.finish(node, stage.take(node)[0].id)
    if lost_at:
        stage.sql(
            f"UPDATE runs SET state = 'lost', finished_at = :at WHERE id IN ({started[0]}, {started[1]})",
            at=lost_at if not stage.database.is_sqlite else f"{lost_at:%Y-%m-%d %H:%M:%S}",
        )
    stage.now = NOON
    assert sum_up(stage.database) == 1
    if pruned:
        stage.execute(delete(runs).where(runs.c.finished_at < TODAY, runs.c.id.not_in(started)))
    return node, started


@pytest.mark.slow
@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("lost_at", [None, YESTERDAY + timedelta(hours=11), TODAY + timedelta(hours=1)])
def test_an_end_recorded_late_is_counted(stage: Stage, lost_at: datetime | None, pruned: bool) -> None:
    node, started = running(stage, lost_at=lost_at, pruned=pruned)
    before = report(stage)
    lost_before = before["a"].now.lost if "a" in before else 0
    assert lost_before == (2 if lost_at else 0)
    stage.sql("UPDATE summed_days SET archived_at = summed_at")
    ended_at = YESTERDAY + timedelta(hours=10, minutes=5)
    assert stage.finish(node, started[0], finished_at=ended_at) == {started[0]}
    found = report(stage)
    assert (found["a"].now.succeeded, found["a"].now.lost) == (1, 1 if lost_at else 0)
    assert found["a"].now.took.percentile(0.5) == 300.0
    assert found["b"] == before["b"]
    with stage.database.read() as connection:
        assert list(connection.scalars(select(summed_days.c.archived_at))) == [None]
    if not pruned:  # as if the day had been summed up only now
        stage.sql("DELETE FROM summed_days")
        recounted = report(stage)
        sum_up(stage.database)
        assert report(stage) == recounted
        assert recounted["a"].now.succeeded == found["a"].now.succeeded
        assert recounted["a"].now.work == found["a"].now.work


def test_a_lost_run_whose_end_is_of_a_later_day_is_counted_once(stage: Stage) -> None:
    node, started = running(stage, lost_at=YESTERDAY + timedelta(hours=11))
    assert stage.finish(node, started[0], finished_at=TODAY + timedelta(minutes=5)) == {started[0]}
    found = report(stage)["a"].now
    assert (found.succeeded, found.lost) == (1, 1)
    stage.forward(days=1)
    sum_up(stage.database)
    found = report(stage)["a"].now
    assert (found.succeeded, found.lost) == (1, 1)


def test_an_end_that_is_recorded_while_its_day_is_counted_is_not_missed(stage: Stage) -> None:
    stage.now = YESTERDAY + timedelta(hours=10)
    node = stage.node(lease=10 * 86_400)
    stage.crontab.run(stage.task("a", "@yearly"))
    (started,) = stage.take(node)
    insert_runs(stage.database, [ended_run(YESTERDAY, task_id=99, task="z")])
    stage.now = NOON
    job, hold = SumUpDays(), take(stage.database, "statistics")
    step = job.step(stage.database, hold, {})
    assert step.position is not None
    step = job.step(stage.database, hold, step.position)  # all runs of the day are counted
    stage.forward(seconds=1)
    stage.finish(node, started.id, finished_at=YESTERDAY + timedelta(hours=11))
    while step.position is not None:
        step = job.step(stage.database, hold, step.position)
    assert summed(stage) == ["2027-05-31"]
    prune(stage)
    assert report(stage)["a"].now.succeeded == 1


def test_another_node_counts_a_day_again_that_its_holder_began(stage: Stage) -> None:
    insert_runs(stage.database, [ended_run(YESTERDAY + timedelta(hours=number)) for number in range(3)])
    job, hold = SumUpDays(), take(stage.database, "statistics")
    step = job.step(stage.database, hold, {})
    assert step.position is not None
    job.step(stage.database, hold, step.position)
    stage.forward(minutes=2)  # the holder is dead
    other = take(stage.database, "statistics", "web-2-00000000")
    fresh, position = SumUpDays(), {"day": "2027-05-31"}
    while position is not None:
        position = fresh.step(stage.database, other, position).position  # type: ignore[assignment]
    assert report(stage)["a"].now.succeeded == 3


def test_a_day_that_was_summed_up_by_a_fast_clock_is_summed_up_again(stage: Stage) -> None:
    insert_runs(stage.database, [ended_run(NOON - timedelta(hours=1))])
    stage.forward(days=3)
    assert sum_up(stage.database) == 1
    stage.now = NOON  # the clock is right again
    insert_runs(stage.database, [ended_run(NOON)])
    assert sum_up(stage.database) == 0
    assert summed(stage) == []
    stage.forward(days=1)
    assert sum_up(stage.database) == 1
    assert report(stage)["a"].now.succeeded == 2


def test_times_written_by_hand_stop_nothing(sqlite_stage: Stage) -> None:
    insert_runs(sqlite_stage.database, [ended_run(YESTERDAY), ended_run(YESTERDAY + timedelta(hours=1))])
    (odd,) = insert_runs(sqlite_stage.database, [ended_run(YESTERDAY)])
    (older,) = insert_runs(sqlite_stage.database, [ended_run(YESTERDAY)])
    sqlite_stage.sql(f"UPDATE runs SET finished_at = '2027-05-31 noon' WHERE id = {odd}")
    sqlite_stage.sql(f"UPDATE runs SET finished_at = '' WHERE id = {older}")
    assert sum_up(sqlite_stage.database) == 1
    assert report(sqlite_stage)["a"].now.succeeded == 2
    for buckets in ("[]", "x", '{"took": 7}', '{"took": {"a": [1, 2]}}', '{"took": {"1": 5}}'):
        sqlite_stage.sql("UPDATE daily_statistics SET buckets = :buckets", buckets=buckets)
        found = report(sqlite_stage)["a"].now
        assert (found.succeeded, found.took.percentile(0.5)) == (2, None)


def test_spans_are_compared_and_short_ones_are_exact(stage: Stage) -> None:
    rows = [ended_run(NOON - timedelta(minutes=30), seconds=60)] * 6
    rows += [ended_run(NOON - timedelta(minutes=90), seconds=20)] * 6
    insert_runs(stage.database, rows)
    found = report(stage, NOON - timedelta(hours=1))["a"]
    assert (found.now.succeeded, found.before.succeeded, found.trend) == (6, 6, 3.0)
    assert report(stage, NOON - timedelta(days=1))["a"].now.succeeded == 12


def test_statistics_of_one_task_by_a_prefix_and_of_a_removed_one(stage: Stage) -> None:
    task = stage.task("backup")
    row = ended_run(YESTERDAY, task_id=task.id, task="before-it-was-renamed")
    insert_runs(stage.database, [row, ended_run(YESTERDAY, task_id=task.id + 1, task="other")])
    for _ in range(2):
        assert {name: each.now.runs for name, each in report(stage, name="back").items()} == {"backup": 1}
        sum_up(stage.database)
    stage.crontab.remove(task)
    (found,) = report(stage, name="backup").values()
    assert (found.name, found.is_removed, found.now.runs) == ("before-it-was-renamed", True, 1)
    assert report(stage, NOON - timedelta(hours=1), "backup")["backup"].now == Totals()
    with pytest.raises(NotFound):
        report(stage, name="nothing")
    with pytest.raises(UsageError):
        report(stage, NOON + timedelta(hours=1))


def test_nodes_and_queues_are_counted_from_runs(stage: Stage) -> None:
    hours = [NOON - timedelta(hours=hour) for hour in (1, 2, 2)]
    rows: Sequence[dict[str, Any]] = [ended_run(at, seconds=0, queue=f"q{at.hour}") for at in hours]
    insert_runs(stage.database, [*rows, ended_run(NOON - timedelta(hours=3), "skipped", queue="default")])
    statistics, since = RunStatistics(stage.crontab), NOON - timedelta(days=1)

    def counts(found: Sequence[Statistics]) -> dict[str, tuple[int, int]]:
        return {each.name: (each.now.succeeded, each.now.skipped) for each in found}

    assert counts(statistics.of(since, by="node").found) == {"web-1": (3, 0), "": (0, 1)}
    assert counts(statistics.of(since, by="queue").found) == {"q11": (1, 0), "q10": (2, 0), "default": (0, 1)}
    assert statistics.of(since, by="queue").pruned_until is None
    insert_runs(stage.database, [ended_run(YESTERDAY)])
    sum_up(stage.database)
    stage.sql("UPDATE summed_days SET pruned_at = summed_at")
    assert statistics.of(since, by="node").pruned_until == date(2027, 5, 31)
    assert statistics.of(since).pruned_until is None
