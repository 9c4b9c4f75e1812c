"""`stats`."""

from datetime import UTC, datetime, timedelta

import pytest

from dcron.database import open_database
from dcron.services.crontab import Crontab
from tests.support.cli import Dcron
from tests.support.statistics import ended_run, insert_runs, sum_up


@pytest.fixture
def history(dcron: Dcron) -> Dcron:
    """Two tasks: one got slower this hour, the other one fails half of the time."""
    dcron.done("add", "-n", "slow", "@yearly", "true")
    dcron.done("add", "-n", "bad", "@yearly", "true")
    database = open_database(dcron.url)
    ids = {task.name: task.id for task in Crontab(database, "ann@desk").tasks()}
    now = datetime.now(UTC)
    for name, state, minutes, seconds, count in (
        ("slow", "succeeded", 90, 60, 6),
        ("slow", "succeeded", 30, 240, 6),
        ("bad", "succeeded", 30, 1, 5),
        ("bad", "failed", 30, 1, 4),
        ("bad", "lost", 30, 1, 1),
        ("bad", "skipped", 30, 1, 2),
    ):
        at = now - timedelta(minutes=minutes)
        insert_runs(
            database, [ended_run(at, state, seconds, task_id=ids[name], task=name) for _ in range(count)]
        )
    database.close()
    return dcron


def test_the_table_shows_rates_durations_and_what_has_changed(history: Dcron) -> None:
    header, bad, slow = history.done("stats", "--since", "1h").out.splitlines()
    columns = "TASK RUNS OK FAILED LOST SKIPPED P50 P95 LONGEST LATE WORK CHANGE"
    assert header.split() == columns.split()
    assert bad.split() == ["bad", "10", "50.0%", "4", "1", "2", "1.0s", "1.0s", "1.0s", "0.00s", "10s"]
    assert slow.split()[:5] == ["slow", "6", "100%", "0", "0"]
    assert slow.endswith("p95 1m 0s → 4m 0s ▲")


def test_json_has_both_spans(history: Dcron) -> None:
    (found,) = history.done("stats", "slow", "--since", "1h", "--json").json
    assert (found["by"], found["name"], found["removed"], found["trend"]) == ("task", "slow", False, 4)
    assert (found["runs"], found["success_rate"], found["p95"], found["work"]) == (6, 1, 240, 1440)
    assert (found["before"]["runs"], found["before"]["p50"]) == (6, 60)
    assert found["before"]["until"] == found["from"]


@pytest.mark.parametrize(
    ("order", "first"), [("slow", "slow"), ("trend", "slow"), ("failing", "bad"), ("late", "bad")]
)
def test_the_worst_comes_first_in_each_order(history: Dcron, order: str, first: str) -> None:
    assert history.done("stats", "--since", "1h", "--sort", order, "--json").json[0]["name"] == first


def test_groups_are_nodes_and_queues(history: Dcron) -> None:
    nodes = history.done("stats", "--by", "node").out.splitlines()
    assert nodes[0].startswith("NODE")
    assert [line.split()[0] for line in nodes[1:]] == ["(none)", "web-1"]
    assert [each["name"] for each in history.done("stats", "--by", "queue", "--json").json] == ["default"]


def test_what_is_missing_by_node_is_said(history: Dcron) -> None:
    database = open_database(history.url)
    insert_runs(database, [ended_run(datetime.now(UTC) - timedelta(days=3))])
    assert sum_up(database) >= 1
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE summed_days SET pruned_at = summed_at")
    database.close()
    assert "pruned in part" in history.done("stats", "--by", "node", "--since", "7d").err
    assert history.done("stats").err == ""


def test_nothing_to_show_and_wrong_words(dcron: Dcron) -> None:
    empty = dcron.done("stats")
    assert (empty.out, empty.err[:24]) == ("", "no runs have ended since")
    assert dcron.done("stats", "--json").json == []
    assert dcron("stats", "nothing").code == 4
    for words in (
        ("--by", "moon"),
        ("--by", "hour"),
        ("--sort", "moon"),
        ("--since", "moon"),
        ("--since", "2999-01-01"),
    ):
        assert dcron("stats", *words).code == 2, words
