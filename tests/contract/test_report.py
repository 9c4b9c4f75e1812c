"""A report says what happened to the whole crontab in a span, also when its runs have been pruned."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete

from dcron.errors import UsageError
from dcron.model import Task
from dcron.policy.statistics import Totals
from dcron.schema.tables import runs
from dcron.services.report import AlertGroup, CrontabReport, Reports
from dcron.store import changes
from dcron.store.alerts import listing as alert_list
from dcron.store.statistics import unsuccessful
from tests.support.alerts import insert_alert
from tests.support.stage import NOON, Stage
from tests.support.statistics import ended_run, insert_runs, sum_up

TODAY = NOON.replace(hour=0)
YESTERDAY = TODAY - timedelta(days=1)
HOUR = timedelta(hours=1)


def report(stage: Stage, since: Any = YESTERDAY) -> CrontabReport:
    return Reports(stage.crontab).since(since)


def history(stage: Stage) -> dict[str, Task]:
    """One task failed and recovered, one still fails, one is skipped, one is slow and late."""
    tasks = {name: stage.task(name, "@yearly") for name in ("flaky", "broken", "busy", "slow")}
    rows: list[dict[str, Any]] = []

    def add(name: str, hours: float, state: str = "succeeded", seconds: float = 1, **values: Any) -> None:
        common: dict[str, Any] = {
            "skip_code": None,
            "covers_from": None,
            "covers_until": None,
            "covers_count": None,
        }
        common |= {"dead_at": None, "exit_code": None, "task_id": tasks[name].id, "task": name}
        rows.append(ended_run(TODAY + hours * HOUR, state, seconds, **common | values))

    add("flaky", 1, "failed", exit_code=1, dead_at=TODAY + HOUR)
    add("flaky", 2)
    add("broken", -1)
    add("broken", 1, "failed", exit_code=1, dead_at=TODAY + HOUR)
    add("broken", 2, "lost", dead_at=TODAY + 2 * HOUR)
    for hour in (3, 4, 5):
        add("busy", hour, "skipped", skip_code="overlap")
    missed: dict[str, Any] = {
        "covers_from": TODAY + 6 * HOUR,
        "covers_until": TODAY + 8 * HOUR,
        "covers_count": 17,
    }
    add("busy", 8, "skipped", skip_code="missed", **missed)
    for _ in range(6):
        add("slow", -30, seconds=60)
        add("slow", 2, seconds=600)
    add("slow", 3, due_at=TODAY + 2.9 * HOUR)
    add("broken", -60, "failed", exit_code=9)
    insert_runs(stage.database, rows)
    return tasks


def test_each_section_has_what_happened_in_the_span(stage: Stage) -> None:
    history(stage)
    found = report(stage)
    assert (found.totals.failed, found.totals.lost, found.totals.skipped) == (2, 1, 4)
    assert [(each.name, each.failures, each.still_fails) for each in found.failed] == [
        ("broken", 2, True),
        ("flaky", 1, False),
    ]
    last = found.failed[1].last_run
    assert last
    assert (last.exit_code, last.finished_at) == (1, TODAY + HOUR)
    assert [(each.code, each.occurrences, each.tasks) for each in found.skipped] == [
        ("missed", 17, [("busy", 17)]),
        ("overlap", 3, [("busy", 3)]),
    ]
    assert (found.skipped[0].first, found.skipped[0].until) == (TODAY + 6 * HOUR, TODAY + 8 * HOUR)
    assert [(each.name, each.runs, round(each.latest)) for each in found.late] == [("slow", 7, 359)]
    assert [each.name for each in found.slower] == ["slow"]
    assert found.dead_letters == [("broken", 2), ("flaky", 1)]
    assert (found.pruned_until, found.is_incomplete) == (None, False)


def test_lost_nodes_and_changes_of_tasks_are_in_the_span(stage: Stage) -> None:
    stage.now = YESTERDAY - HOUR
    task = stage.task("a")
    node = stage.node("web-2")
    stage.crontab.run(task)
    stage.take(node)
    stage.now = YESTERDAY + HOUR
    stage.reap()
    edited = stage.crontab.edit(task, {"command": "false"})
    stage.crontab.remove(edited)
    stage.now = NOON
    found = report(stage)
    assert [(each.id, each.died_at, each.runs_lost) for each in found.lost_nodes] == [
        (node, YESTERDAY + HOUR, 1)
    ]
    assert [(each.action, each.task, each.fields) for each in found.changes] == [
        ("rm", "a", []),
        ("set", "a", ["command"]),
    ]
    assert found.changes[0].author.startswith("ann@desk")
    assert [(each.name, each.is_removed, each.still_fails) for each in found.failed] == [("a", True, False)]
    stage.forward(days=3)
    assert report(stage, stage.now - timedelta(days=2)).changes == []


def test_a_pruned_span_has_its_figures_from_the_daily_statistics(stage: Stage) -> None:
    tasks = history(stage)
    stage.now = TODAY + timedelta(days=2)
    before = report(stage, TODAY)
    assert sum_up(stage.database) == 4
    assert report(stage, TODAY) == before
    stage.execute(delete(runs).where(runs.c.task_id != tasks["flaky"].id))
    stage.sql("UPDATE summed_days SET pruned_at = summed_at")
    found = report(stage, TODAY)
    assert (found.totals, found.slower) == (before.totals, before.slower)
    assert [(each.name, each.failures, each.last_run is None) for each in found.failed] == [
        ("broken", 2, True),
        ("flaky", 1, False),
    ]
    assert [(each.code, each.occurrences, each.tasks) for each in found.skipped] == [(None, 4, [("busy", 4)])]
    assert (found.pruned_until, found.is_incomplete) == (TODAY.date(), False)
    # Part of a day is counted from the runs, and these are no longer there.
    assert report(stage, TODAY + HOUR / 2).is_incomplete


def test_alerts_opened_in_the_span_are_counted_by_kind(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_list, "_PAGE", 2)
    task = stage.task("a")
    insert_alert(stage.database, YESTERDAY - HOUR, kind="clock")
    for hours in range(3):
        at = TODAY + hours * HOUR
        insert_alert(stage.database, at, task, closed_at=at if hours < 2 else None)
    insert_alert(stage.database, TODAY, kind="node-lost", subject="node:web-2", closed_at=TODAY)
    assert report(stage).alerts == [AlertGroup("failing", 3, ["a"]), AlertGroup("node-lost", 1, [])]


def test_a_long_span_is_read_page_by_page(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    history(stage)
    expected = report(stage)
    monkeypatch.setattr(unsuccessful, "WINDOW", 3)
    monkeypatch.setattr(changes, "PAGE", 2)
    found = report(stage)
    assert found == expected


def test_the_latest_thousand_changes_are_shown(sqlite_stage: Stage) -> None:
    stage = sqlite_stage
    task = stage.task("a", "@yearly")
    copy = "INSERT INTO changes (at, actor, action, kind, task_id, task, version, before, after)"
    same = "SELECT at, actor, 'set', kind, task_id, task, version, after, after FROM changes LIMIT 1"
    for _ in range(999):
        stage.sql(f"{copy} {same}")
    stage.forward(minutes=1)
    found = report(stage, TODAY)
    assert (len(found.changes), found.more_changes) == (1000, False)
    assert (found.changes[-1].action, found.changes[0].fields) == ("add", [])
    stage.crontab.edit(task, {"timeout": 5.0})
    stage.forward(minutes=1)
    found = report(stage, TODAY)
    assert (len(found.changes), found.more_changes) == (1000, True)
    assert [each.action for each in (found.changes[0], found.changes[-1])] == ["set", "set"]
    assert found.changes[0].fields == ["timeout"]


def test_nothing_happened(stage: Stage) -> None:
    found = report(stage)
    assert found.totals == Totals()
    assert [found.failed, found.skipped, found.late, found.lost_nodes, found.changes] == [[]] * 5
    with pytest.raises(UsageError):
        report(stage, NOON + HOUR)
