"""Alerts are listed with what is known of their causes, and acknowledged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, select

from dcron.errors import NotFound, Refused, UsageError
from dcron.model import Task
from dcron.presentation import alerts as words
from dcron.presentation import blame
from dcron.schema.tables import changes, output, runs
from dcron.services.alerts import Alerts
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import listing as alert_list
from tests.support.alerts import alert_row, insert_alert, insert_alerts
from tests.support.stage import NOON, Stage
from tests.support.statistics import ended_run, insert_runs

HOUR = timedelta(hours=1)


def run_of(stage: Stage, task: Task, state: str = "failed", **values: Any) -> int:
    row = ended_run(stage.now, state, 10, task_id=task.id, task=task.name, **values)
    return insert_runs(stage.database, [row])[0]


def failing(stage: Stage, task: Task, **values: Any) -> int:
    """A failed run that ends now, and its alert."""
    run_id = run_of(stage, task, exit_code=3, **values)
    return insert_alert(stage.database, stage.now, task, run_id=run_id, last_run_id=run_id)


def only(stage: Stage) -> Any:
    (facts,) = Alerts(stage.crontab).page()
    return facts


def test_open_alerts_come_the_newest_first_and_in_pages(stage: Stage) -> None:
    tasks = [stage.task(name) for name in "abc"]
    ids = [failing(stage, task) for task in tasks]
    closed = insert_alert(stage.database, NOON, tasks[0], kind="late", closed_at=NOON)
    service = Alerts(stage.crontab)
    assert [each.alert.id for each in service.page()] == ids[::-1]
    assert [each.alert.id for each in service.page(closed=True)] == [closed, *ids[::-1]]
    assert [each.alert.id for each in service.page(before_id=ids[2], limit=1)] == [ids[1]]
    assert [each.alert.id for each in service.page(closed=True, before_id=closed, limit=1)] == [ids[2]]
    assert [each.alert.id for each in service.of_task(tasks[1].id)] == [ids[1]]


def test_an_acknowledged_alert_counts_no_more_until_its_time_is_over(stage: Stage) -> None:
    task = stage.task("a")
    alert_id = failing(stage, task)
    other = insert_alert(stage.database, NOON, kind="node-lost", subject="node:web-2")
    service = Alerts(stage.crontab)
    assert service.count_unacknowledged() == 2
    (alert,) = service.acknowledge(service.find("a"), "on it", timedelta(hours=4))
    assert (alert.id, alert.acknowledged_by, alert.acknowledged_note) == (alert_id, "ann@desk", "on it")
    assert alert.silent_until == alert.remind_at == NOON + 4 * HOUR
    assert service.count_unacknowledged() == 1
    assert [each.id for each in service.find("node:web-2")] == [other]
    service.acknowledge(service.find(str(other)))
    assert service.count_unacknowledged() == 0
    assert not words.is_acknowledged(alert, stage.forward(hours=4))
    assert service.count_unacknowledged() == 1
    with stage.database.read() as connection:
        rows = connection.execute(
            select(changes).where(changes.c.action == "ack").order_by(changes.c.id)
        ).all()
    assert [(row.actor, row.task, row.after["note"]) for row in rows] == [
        ("ann@desk", "a", "on it"),
        ("ann@desk", None, None),
    ]


def test_the_newest_unacknowledged_alert_is_read_with_their_number(stage: Stage) -> None:
    service = Alerts(stage.crontab)
    ids = [failing(stage, stage.task(name)) for name in "abc"]
    service.acknowledge(service.find("c"))
    with stage.database.read() as connection:
        found = alert_list.unacknowledged(connection, NOON)
    assert found
    assert (found.count, found.newest.id) == (2, ids[1])
    service.acknowledge(service.find("a") + service.find("b"))
    with stage.database.read() as connection:
        assert alert_list.unacknowledged(connection, NOON) is None


def test_what_is_not_open_cannot_be_acknowledged(stage: Stage) -> None:
    task = stage.task("a")
    closed = insert_alert(stage.database, NOON, task, closed_at=NOON)
    service = Alerts(stage.crontab)
    for which, error in (
        ("nothing", NotFound),
        ("99", NotFound),
        (str(10**30), NotFound),
        (str(closed), Refused),
        ("a", Refused),
        ("node:web-1", Refused),
    ):
        with pytest.raises(error):
            service.find(which)
    found = [each.alert for each in service.page(closed=True)]
    assert service.acknowledge(found) == []
    with pytest.raises(UsageError):
        service.acknowledge(found, "\x00")


# What changed before it began --------------------------------------------------------------------------


def text_of(stage: Stage) -> str:
    found = blame.of(only(stage))
    assert found
    return found.text


def test_a_change_of_the_task_after_its_last_success_is_blamed(stage: Stage) -> None:
    task = stage.task("backup", command="pg_dump shop")
    run_of(stage, task, "succeeded")
    stage.forward(hours=1)
    stage.crontab.edit(task, {"command": "pg_dump -j8 shop", "env": {"PASSWORD": "secret"}, "tries": 2})
    stage.forward(minutes=14)
    failing(stage, stage.crontab.get("backup"))
    facts = only(stage)
    found = blame.of(facts)
    assert found
    assert found.text.startswith("began 13m 50s after a change by ann@desk")
    assert found.difference == [
        "- pg_dump shop",
        "+ pg_dump -j8 shop",
        "+ env changed",
        "- tries 1",
        "+ tries 2",
    ]
    assert facts.last_success.finished_at == NOON
    assert "secret" not in found.sentence


def test_a_change_before_the_last_success_is_not_blamed(stage: Stage) -> None:
    task = stage.task("backup")
    stage.forward(hours=1)
    stage.crontab.edit(task, {"command": "false"})
    stage.forward(minutes=1)
    run_of(stage, task, "succeeded")
    stage.forward(hours=1)
    failing(stage, task)
    assert blame.of(only(stage)) is None


def test_a_new_task_is_blamed_on_its_author(stage: Stage) -> None:
    task = stage.task("backup")
    stage.forward(minutes=1)
    failing(stage, task)
    assert text_of(stage).startswith("began 50s after it was added by ann@desk")


def test_an_alert_about_a_coming_run_began_when_it_was_opened(stage: Stage) -> None:
    task = stage.task("backup", schedule="30 2 * * *")
    stage.forward(minutes=1)
    with stage.database.read() as connection:
        run_id = connection.scalar(select(runs.c.id).where(runs.c.task_id == task.id))
    insert_alert(stage.database, stage.now, task, kind="unserved", run_id=run_id, last_run_id=run_id)
    assert text_of(stage).startswith("began 1m 0s after it was added by ann@desk")


def test_a_success_while_the_alert_is_open_is_no_guide_to_what_changed(stage: Stage) -> None:
    task = stage.task("backup")
    first, second = stage.node(), stage.node("web-2")
    stage.forward(minutes=1)
    short = run_of(stage, task, "succeeded", owner=first)
    insert_alert(stage.database, stage.now, task, kind="too-short", run_id=short, last_run_id=short)
    stage.forward(minutes=1)
    run_of(stage, task, "succeeded", owner=second)
    assert blame.of(only(stage)) is None


@pytest.mark.parametrize(
    ("node", "tzdata", "text"),
    [
        (
            {"name": "web-1", "suffix": "1" * 8, "version": "0.2"},
            "a",
            "began with release 0.2 of dcron on web-1",
        ),
        ({"name": "web-1", "suffix": "1" * 8}, "b", "began with time zones b; the last success had a"),
        ({"name": "web-2"}, "a", "began on web-2, which is new since the last success on web-1"),
    ],
)
def test_else_what_is_new_is_blamed(stage: Stage, node: dict[str, Any], tzdata: str, text: str) -> None:
    task = stage.task("backup")
    first = stage.node()
    stage.forward(hours=1)
    run_of(stage, task, "succeeded", owner=first, tzdata="a")
    stage.forward(hours=1)
    second = stage.node(node["name"], suffix=node.get("suffix", "0" * 8))
    stage.sql(
        "UPDATE nodes SET version = :version WHERE id = :id", version=node.get("version", "0"), id=second
    )
    stage.forward(hours=1)
    failing(stage, task, owner=second, tzdata=tzdata)
    assert text_of(stage).startswith(text)


def test_a_removed_task_and_pruned_runs_leave_the_alert(stage: Stage) -> None:
    task = stage.task("backup")
    insert_alert(stage.database, NOON, task, run_id=77, last_run_id=78, facts={"reason": "no agent has gpu"})
    stage.crontab.remove(task)
    facts = only(stage)
    assert words.sentence(facts, NOON) == (
        "backup: failing since 2027-06-01 12:00 UTC: run 78: no agent has gpu"
    )
    assert (facts.run, facts.last_success, facts.next_run_at) == (None, None, None)


def test_the_last_lines_of_the_output_are_read_from_its_end(stage: Stage) -> None:
    task = stage.task("backup")
    failing(stage, task)
    text = b"".join(b"line %d\n" % number for number in range(100))
    with stage.database.write() as connection:
        alert = alert_list.page(connection, closed=False)[0]
        row = {"run_id": alert.last_run_id, "stream": "out", "at": NOON, "lines": 1}
        chunks = [
            row | {"byte_offset": start, "data": text[start : start + 50]} for start in range(0, 790, 50)
        ]
        connection.execute(insert(output), chunks)
        (facts,) = alert_facts.read(connection, [alert], NOON, with_output=True)
    assert list(facts.output) == [b"line %d" % number for number in range(80, 100)]


def statements(stage: Stage, act: Callable[[], object]) -> int:
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(stage.database.engine, "before_cursor_execute", note)
    act()
    event.remove(stage.database.engine, "before_cursor_execute", note)
    return len(sent)


def test_many_alerts_cost_as_many_statements_as_few(stage: Stage) -> None:
    tasks = [stage.task(f"t{number}") for number in range(7)]
    runs = [run_of(stage, task, owner="web-1-00000000") for task in tasks]
    rows = [alert_row(NOON, task, run_id=run, last_run_id=run) for task, run in zip(tasks, runs, strict=True)]
    insert_alerts(stage.database, rows[:2])
    service = Alerts(stage.crontab)
    few = statements(stage, service.page)
    insert_alerts(stage.database, rows[2:])
    assert statements(stage, service.page) == few
    assert len(service.page()) == 7
