"""Statistics on the screen: three lines about a task, two columns, and two orders."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text

from dcron.schema.tables import maintenance_jobs
from dcron.services.dashboard import Dashboard
from dcron.services.recent_statistics import RecentStatistics
from dcron.store.retention.walk import JOB
from dcron.tui.views.task_sections import task_sections
from tests.support.statistics import ended_run, insert_runs, sum_up
from tests.support.tui import Stage


@pytest.fixture
def history(stage: Stage) -> Stage:
    """Three tasks and their runs of the last days: one is slow, one fails, one has not run."""
    now = stage.crontab.now()
    for name, state, seconds, count in (
        ("slow", "succeeded", 100, 10),
        ("bad", "succeeded", 1, 5),
        ("bad", "failed", 1, 5),
    ):
        if name not in stage.crontab.names("", 10):
            stage.add(name, "@yearly")
        task = stage.crontab.get(name)
        at = now - timedelta(days=2)
        rows = [ended_run(at, state, seconds, task_id=task.id, task=name) for _ in range(count)]
        insert_runs(stage.database, rows)
    stage.add("new", "@yearly")
    return stage


def facts(stage: Stage, name: str) -> dict[str, str]:
    detail = Dashboard(stage.crontab).task_detail(stage.crontab.get(name).id)
    assert detail
    sections = task_sections(detail, stage.crontab.now())
    return {fact.name: fact.value for section in sections for fact in section.facts}


def test_the_details_of_a_task_have_three_lines(history: Stage) -> None:
    for _ in range(2):
        found = facts(history, "bad")
        assert found["30 days"] == "50.0% ok of 10 runs, 5 failures, 10s of work"
        assert found["took"] == "p50 1.0s, p95 1.0s, at most 1.0s"
        assert found["late"] == "p95 0.00s, at most 0.00s"
        sum_up(history.database)
        history.execute(text("DELETE FROM runs WHERE finished_at IS NOT NULL"))
    assert "30 days" not in facts(history, "new")


def ordered(board: Dashboard, order: str, **how: Any) -> list[str]:
    tasks = board.crontab.tasks_by_id(ids := board.task_ids((), order, reverse=how.get("reverse", False)))
    return [tasks[task_id].name for task_id in ids]


def test_tasks_are_sorted_by_p95_and_success(history: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Dashboard(history.crontab)
    assert ordered(board, "p95") == ["bad", "new", "slow"]  # nothing is summed up yet
    sum_up(history.database)
    assert ordered(board, "p95") == ["slow", "bad", "new"]
    assert ordered(board, "p95", reverse=True) == ["bad", "slow", "new"]
    assert ordered(board, "success") == ["bad", "slow", "new"]
    rows = board.task_rows([history.crontab.get("bad").id]).rows
    assert [(row.statistics.p95, row.statistics.success_rate) for row in rows.values()] == [(1.0, 0.5)]
    monkeypatch.setattr(RecentStatistics, "_read", lambda *_, **__: pytest.fail("it was read before"))
    assert ordered(board, "p95") == ["slow", "bad", "new"]


def test_many_tasks_are_sorted_by_fewer_days(history: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sum_up(history.database)
    monkeypatch.setattr("dcron.services.recent_statistics.FEW", 0)
    monkeypatch.setattr("dcron.services.recent_statistics.MOST_ROWS", 1)
    assert ordered(Dashboard(history.crontab), "p95") == ["slow", "bad", "new"]


@pytest.mark.slow
async def test_the_first_line_says_what_was_pruned_where_there_is_room(history: Stage) -> None:
    with history.database.write() as connection:
        now = history.database.now(connection)
        row = {"name": JOB, "due_at": now, "ran_at": now - timedelta(minutes=4), "done": {"runs": 12_110}}
        connection.execute(insert(maintenance_jobs).values(row))
    for width, pruned in ((160, "pruned 4m ago: 12,110 runs; oldest 2d 0h"), (80, "")):
        async with history.screen(size=(width, 30)) as screen:
            await screen.shows("3 tasks")
            assert pruned in screen.lines()[0]
            assert ("pruned" in screen.lines()[0]) is bool(pruned)


@pytest.mark.slow
async def test_a_wide_screen_has_the_columns(history: Stage) -> None:
    sum_up(history.database)
    async with history.screen(size=(250, 30)) as screen:
        await screen.shows("p95")
        await screen.shows("50.0%")
        await screen.shows("1m 40s")
