"""`alerts` and `ack`, and the alerts in other verbs."""

from datetime import UTC, datetime, timedelta

import pytest

from dcron.database import open_database
from dcron.services.crontab import Crontab
from tests.support.alerts import insert_alert
from tests.support.cli import Dcron
from tests.support.statistics import ended_run, insert_runs


@pytest.fixture
def broken(dcron: Dcron) -> Dcron:
    """A task that fails since a change, and a lost node."""
    dcron.done("add", "-n", "backup", "@yearly", "pg_dump shop")
    dcron.done("add", "-n", "backup-full", "@yearly", "true")
    dcron.done("set", "backup", "--command", "pg_dump -j8 shop")
    database = open_database(dcron.url)
    task = Crontab(database, "ann@desk").get("backup")
    at = datetime.now(UTC) + timedelta(seconds=20)
    row = ended_run(at, "failed", 10, task_id=task.id, task="backup", exit_code=3)
    (run_id,) = insert_runs(database, [row])
    assert insert_alert(database, at, task, run_id=run_id, last_run_id=run_id) == 1
    assert insert_alert(database, at, kind="node-lost", subject="node:web-2") == 2
    database.close()
    return dcron


def test_open_alerts_are_listed_with_their_causes(broken: Dcron) -> None:
    answer = broken("alerts")
    assert answer.code == 1
    header, node, backup = answer.out.splitlines()
    assert header.split() == ["ALERT", "SINCE", "WHAT", "IS", "TIMES", "KNOWN", "TO", "CAUSE"]
    assert node.split()[0] == "2"
    assert "node web-2" in node
    assert backup.split()[0] == "1"
    assert "exit 3 on web-1 (run" in backup
    assert "after a change by" in backup
    assert "- pg_dump shop + pg_dump -j8 shop" in backup


def test_acknowledged_alerts_are_no_failure(broken: Dcron) -> None:
    assert broken.done("ack", "backup", "-m", "on it", "--for", "4h").out.startswith(
        "acknowledged for 4h  backup"
    )
    assert broken("alerts").code == 1
    (found,) = broken.done("ack", "2", "--json").json
    assert (found["kind"], found["subject"], found["task"]) == ("node-lost", "node:web-2", None)
    answer = broken.done("alerts", "--json")
    assert [each["acknowledged_note"] for each in answer.json] == [None, "on it"]
    assert answer.json[1]["difference"] == ["- pg_dump shop", "+ pg_dump -j8 shop"]


def test_a_renamed_task_and_how_an_alert_was_closed_are_shown(broken: Dcron) -> None:
    broken.done("set", "backup", "--name", "copy")
    assert broken("alerts").out.splitlines()[2].split()[2] == "copy"
    assert broken.done("ack", "copy", "--json").json[0]["task"] == "copy"
    database = open_database(broken.url)
    with database.write() as connection:
        connection.exec_driver_sql(
            "UPDATE alerts SET closed_at = opened_at, closed_as = 'paused' WHERE id = 1"
        )
    database.close()
    closed = broken("alerts", "--all").out.splitlines()[2]
    assert "was failing" in closed
    assert ", when it was paused; exit 3" in closed
    assert [each["closed_as"] for each in broken("alerts", "--all", "--json").json] == [None, "paused"]


def test_an_alert_is_known_to_no_one_when_its_acknowledgement_is_over(broken: Dcron) -> None:
    broken.done("ack", "backup", "--for", "1h")
    assert "@" in broken("alerts").out.splitlines()[2].split("exit 3")[0]
    database = open_database(broken.url)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alerts SET silent_until = acknowledged_at")
    database.close()
    assert "@" not in broken("alerts").out.splitlines()[2].split("exit 3")[0]


@pytest.mark.slow
def test_what_is_unknown_or_incomplete_is_refused(broken: Dcron) -> None:
    assert broken("ack", "nothing").code == 4
    assert broken("ack", "backup", "77").code == 4
    assert broken("ack", "backu").code == 4
    assert broken("ack", "backup-full").code == 1
    assert broken("ack", "backup", "--for", "moon").code == 2
    assert broken("ack", "backup", "--for", "0s").code == 2
    assert "is not the number of an alert; `dcron alerts` shows" in broken("alerts", "--before", "x").err
    assert all(each["acknowledged_by"] is None for each in broken("alerts", "--json").json)


@pytest.mark.slow
def test_pages_and_closed_alerts(broken: Dcron) -> None:
    first = broken("alerts", "-n", "1")
    assert "--before 2" in first.err
    assert broken("alerts", "--before", "2", "--json").json[0]["id"] == 1
    database = open_database(broken.url)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alerts SET closed_at = opened_at")
    database.close()
    assert broken.done("alerts").err == "nothing is wrong: there are no open alerts\n"
    assert len(broken.done("alerts", "--all", "--json").json) == 2
    assert "was failing" in broken.done("alerts", "--all").out
    assert "is closed" in broken("ack", "1").err


@pytest.mark.slow
def test_view_why_and_list_show_the_alerts_of_a_task(broken: Dcron) -> None:
    shown = broken.done("view", "backup").out
    assert "alert " in shown
    assert "failing since" in shown
    assert "it began" in shown
    assert broken.done("view", "backup", "--json").json["alerts"][0]["id"] == 1
    listed = {task["name"]: task["alerts"] for task in broken.done("list", "--json").json}
    assert [alert["kind"] for alert in listed["backup"]] == ["failing"]
    assert listed["backup-full"] == []
    causes = {cause["code"]: cause for cause in broken.done("why", "backup", "--json").json["causes"]}
    assert causes["alert"]["difference"] == ["- pg_dump shop", "+ pg_dump -j8 shop"]
    assert "after a change by" in causes["alert"]["sentence"]


def test_nothing_is_wrong(dcron: Dcron) -> None:
    assert dcron.done("alerts", "--json").json == []
    assert dcron.done("alerts", "--all").err == "no alerts\n"
