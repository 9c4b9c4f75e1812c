"""The figures of a crontab for a monitoring system."""

from collections.abc import Sequence

import pytest
from sqlalchemy import insert, update

from dcron.errors import UsageError
from dcron.model import RunState
from dcron.schema.tables import maintenance_jobs, nodes, notifications
from dcron.services.fleet import Fleet
from dcron.services.settings import SharedSettings
from dcron.store.alerts import notifications as outbox
from dcron.store.alerts import undeliverable
from dcron.store.statistics import figures as cluster_figures
from dcron.store.statistics.figures import ChannelBacklog, ClusterFigures, TaskFigures
from dcron.store.tasks import search_terms
from tests.support.stage import Stage

FAILED, LOST, SUCCEEDED = RunState.FAILED, RunState.LOST, RunState.SUCCEEDED


def figures(stage: Stage) -> ClusterFigures:
    with stage.database.snapshot() as connection:
        return cluster_figures.read(connection, stage.database)


def of_task(stage: Stage, name: str = "a") -> TaskFigures:
    [found] = [task for task in figures(stage).of_tasks if task.name == name]
    return found


def ended(stage: Stage, task_id: int, states: Sequence[RunState | str], seconds: float = 3) -> None:
    """Insert finished runs of this task, a minute apart, each as long as this."""
    for state in states:
        started = stage.forward(minutes=1)
        stage.now = stage.forward(seconds=seconds)
        ran = {"started_at": started, "owner": "web-1-00000000", "claimed_at": started}
        facts = {"reason": "overlap"} if state == "skipped" else ran
        stage.insert_run(task_id=task_id, state=state, finished_at=stage.now, **facts)


def test_an_empty_crontab_has_figures(stage: Stage) -> None:
    found = figures(stage)
    assert found.tasks == {"active": 0, "paused": 0, "suspended": 0}
    assert found.runs == {"waiting": 0, "blocked": 0, "claimed": 0, "running": 0}
    assert set(found.nodes.values()) == {0}
    assert (found.oldest_due, found.oldest_start, found.of_tasks) == (None, None, [])
    assert sum(found.database_bytes.values()) > 0


def test_tasks_are_counted_by_state(stage: Stage) -> None:
    stage.task("a")
    stage.crontab.pause(stage.task("b"))
    stage.set_task(stage.task("c").id, error="cannot be read")
    found = figures(stage)
    assert found.tasks == {"active": 1, "paused": 1, "suspended": 1}
    assert of_task(stage).next_run is not None
    assert of_task(stage, "b").next_run is None, "a paused task has no next run"


def test_runs_and_slots_are_counted_while_they_are_unfinished(stage: Stage) -> None:
    node = stage.node()
    for name in "abc":
        stage.task(name)
    stage.forward(minutes=10)
    stage.take(node, limit=1)
    stage.claim(node, limit=1)
    stage.forward(seconds=5)
    found = figures(stage)
    assert found.runs == {"waiting": 3 - 1, "blocked": 0, "claimed": 1, "running": 1}
    assert (found.slots, found.slots_used) == (8, 2)
    assert found.oldest_start == found.oldest_due
    assert found.oldest_due is not None
    assert (found.now - found.oldest_due).total_seconds() == 5


def test_a_run_that_is_due_later_is_not_due(stage: Stage) -> None:
    stage.task("a")
    assert figures(stage).oldest_due is None


def test_nodes_are_counted_by_state_and_ended_ones_for_a_day(stage: Stage) -> None:
    stage.node("old")
    stage.forward(minutes=2)
    stage.node("web-1")
    drained = stage.node("web-2")
    Fleet(stage.crontab).drain(drained)
    assert figures(stage).nodes == {"alive": 1, "draining": 1, "late": 1, "stopped": 0, "dead": 0}
    with stage.database.write() as connection:
        gone = update(nodes).where(nodes.c.name == "old")
        connection.execute(gone.values(died_at=stage.now, died_how="dead"))
    assert figures(stage).nodes["dead"] == 1
    stage.forward(days=2)
    assert figures(stage).nodes["dead"] == 0


def test_a_task_that_no_node_can_take_is_unserved(stage: Stage) -> None:
    stage.node(tags=("ssd",))
    stage.task("a")
    stage.task("b", require=("ssd",))
    assert figures(stage).tasks_unserved == 0
    stage.task("c", require=("gpu",))
    assert figures(stage).tasks_unserved == 1
    stage.forward(minutes=5)
    assert figures(stage).tasks_unserved == 3, "no node lives"


def test_a_late_task_is_counted(stage: Stage) -> None:
    stage.task("a")
    stage.forward(minutes=11)
    assert figures(stage).tasks_late == 1


def test_queues_have_a_limit_or_active_runs(stage: Stage) -> None:
    Fleet(stage.crontab).set_queue("mail", 3)
    stage.task("a", queue="mail")
    stage.forward(minutes=10)
    stage.take(stage.node())
    [queue] = figures(stage).queues
    assert (queue.name, queue.max_running, queue.alive) == ("mail", 3, 1)


@pytest.mark.parametrize(
    ("states", "failures"),
    [
        ([], 0),
        ([SUCCEEDED], 0),
        ([FAILED], 1),
        ([FAILED, SUCCEEDED], 0),
        ([SUCCEEDED, FAILED, LOST, FAILED], 3),
        ([FAILED, SUCCEEDED, FAILED, "skipped", "cancelled"], 1),
    ],
)
def test_failures_count_since_the_last_success(
    stage: Stage, states: list[RunState | str], failures: int
) -> None:
    task = stage.task("a")
    ended(stage, task.id, states)
    found = of_task(stage)
    assert found.failures == failures
    assert (found.last_success is not None) is (SUCCEEDED in states)
    assert figures(stage).tasks_failed == (failures > 0)


def test_a_task_has_the_times_of_its_last_run_and_success(stage: Stage) -> None:
    task = stage.task("a")
    ended(stage, task.id, [SUCCEEDED])
    succeeded = stage.now
    ended(stage, task.id, [FAILED], seconds=7.5)
    found = of_task(stage)
    assert found.last_success == succeeded
    assert found.last_duration == 7.5
    assert found.last_run is not None
    assert (stage.now - found.last_run).total_seconds() == 7.5


def test_a_task_that_always_failed_is_not_searched_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_terms, "LOOK_BACK", 3)
    cluster_figures._failure_query.cache_clear()
    task = stage.task("a")
    ended(stage, task.id, [SUCCEEDED, FAILED, FAILED, FAILED, FAILED])
    assert (of_task(stage).failures, of_task(stage).last_success) == (3, None)
    cluster_figures._failure_query.cache_clear()


def test_tasks_beyond_the_most_are_counted_only(stage: Stage) -> None:
    SharedSettings(stage.crontab).set("monitor.tasks", "2")
    for name in "cab":
        stage.task(name)
    ended(stage, stage.task("d").id, [FAILED])
    found = figures(stage)
    assert [task.name for task in found.of_tasks] == ["a", "b"]
    assert (found.tasks_left_out, found.tasks_failed) == (2, 1)


@pytest.mark.parametrize("value", ["-1", "many", "100001", "1.5", ""])
def test_no_other_value_says_how_many_tasks(stage: Stage, value: str) -> None:
    with pytest.raises(UsageError, match="0 to 100,000"):
        SharedSettings(stage.crontab).set("monitor.tasks", value)


@pytest.mark.parametrize("stored", ["true", "[]", "no JSON", "-7"])
def test_a_number_of_tasks_written_by_hand_does_no_harm(stage: Stage, stored: str) -> None:
    stage.task("a")
    SharedSettings(stage.crontab).set("monitor.tasks", "0")
    assert figures(stage).of_tasks == []
    stage.sql("UPDATE settings SET value = :stored WHERE name = 'monitor.tasks'", stored=stored)
    assert [task.name for task in figures(stage).of_tasks] == ["a"]


def test_maintenance_jobs_have_their_last_round(stage: Stage) -> None:
    with stage.database.write() as connection:
        row = {"name": "sweep", "due_at": stage.now, "position": {}, "done": {}}
        connection.execute(insert(maintenance_jobs).values(row))
    [job] = [job for job in figures(stage).maintenance if job.name == "sweep"]
    assert (job.due_at, job.ran_at, job.failed) == (stage.now, None, False)


def test_channels_have_what_waits_for_them(stage: Stage) -> None:
    stage.node(channels=("ops", "idle", "mailto"))
    began = stage.now
    with stage.database.write() as connection:
        waiting = [*["ops"] * 3, "mailto:ann", "mailto:bob,eve", "gone"]
        outbox.add(connection, outbox.for_channels(waiting, "opened", stage.now))
        outbox.add(connection, outbox.for_channels(["ops"], "opened", stage.forward(minutes=1)))
        failed = update(notifications).where(notifications.c.id == 2)
        connection.execute(failed.values(error="exited with 1"))
        sent = update(notifications).where(notifications.c.id == 1)
        connection.execute(sent.values(sent_at=stage.now, error="earlier"))
    found = figures(stage).channels
    assert found == {
        "gone": ChannelBacklog(1, began),
        "idle": ChannelBacklog(),
        "mailto": ChannelBacklog(2, began),
        "ops": ChannelBacklog(3, began, 1),
    }
    stage.forward(days=1, seconds=1)
    with stage.database.write() as connection:
        undeliverable.give_up(connection, stage.database, stage.now, "mailto:ann")
    found = figures(stage).channels
    assert (found["mailto"].pending, found["mailto"].is_undeliverable) == (1, True)
    assert not found["ops"].is_undeliverable


def test_only_some_channels_have_figures(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_figures, "MOST_CHANNELS", 2)
    with stage.database.write() as connection:
        outbox.add(connection, outbox.for_channels(["a", "b", "b", "c", "c"], "opened", stage.now))
    assert {name: each.pending for name, each in figures(stage).channels.items()} == {"b": 2, "c": 2}


def test_an_open_transaction_of_another_is_seen_on_postgres(stage: Stage) -> None:
    if stage.database.is_sqlite:
        assert figures(stage).oldest_transaction is None
        return
    other = stage.database.sibling(patience=5)
    with other.read() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT 1")
        connection.exec_driver_sql("SELECT pg_sleep(0.05)")
        found = figures(stage).oldest_transaction
        connection.exec_driver_sql("ROLLBACK")
    other.close()
    assert found is not None
    assert found >= 0.05


def test_chosen_labels_of_tasks_are_shown(stage: Stage) -> None:
    from dcron.monitoring.cluster_metrics import metrics_of

    stage.task("a", labels={"team": "shop", "a/b": "x", "other": "y"})
    stage.task("b")
    stage.insert_task(name="c", labels="{")

    def info() -> list[dict[str, str]]:
        with stage.database.read() as connection:
            figures = cluster_figures.read(connection, stage.database)
        metrics = [metric for metric in metrics_of(figures) if metric.name == "dcron_task_info"]
        return [sample.labels for metric in metrics for sample in metric.samples]

    assert info() == []
    SharedSettings(stage.crontab).set("monitor.labels", "team,a/b")
    assert info() == [
        {"task": "a", "label_team": "shop", "label_a_b": "x"},
        {"task": "b", "label_team": "", "label_a_b": ""},
        {"task": "c", "label_team": "", "label_a_b": ""},
    ]
    for bad in ("Team", "a/b,a_b", ",".join("abcdefghijk")):
        with pytest.raises(UsageError):
            SharedSettings(stage.crontab).set("monitor.labels", bad)
    stage.sql("UPDATE settings SET value = '{}' WHERE name = 'monitor.labels'")
    assert info() == []


def test_a_channel_written_by_hand_does_no_harm(sqlite_stage: Stage) -> None:
    with sqlite_stage.database.write() as connection:
        outbox.add(connection, outbox.for_channels(["a", "b"], "opened", sqlite_stage.now))
    sqlite_stage.sql("UPDATE notifications SET channel = x'ff00' WHERE channel = 'a'")
    sqlite_stage.sql("UPDATE notifications SET error = x'ff00'")
    found = figures(sqlite_stage).channels
    assert sorted(each.pending for each in found.values()) == [1, 1]
