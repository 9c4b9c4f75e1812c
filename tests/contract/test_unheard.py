"""Runs that no node has heard of: what `why`, the nodes, the alert and the doctor say of them."""

from pathlib import Path

import pytest

from dcron.model import AlertKind, NodeState, Run, RunState, Task
from dcron.presentation.why import Cause
from dcron.services.alerts import Alerts
from dcron.services.doctor import host, service
from dcron.services.doctor.service import Doctor
from dcron.services.fleet import Fleet
from dcron.services.settings import SharedSettings
from dcron.services.why import Why
from dcron.store.claims import unheard
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import kept as kept_tasks
from dcron.values.lists import RunFilter
from tests.contract.test_why import answers  # noqa: F401 - holds what `why` says on file
from tests.support.stage import LEASE, Stage
from tests.support.watching import WatchedStage, stage

__all__ = ["stage"]

HOUR = 3600.0


def unheard_run(stage: Stage, name: str = "backup", **fields: object) -> tuple[Task, Run]:
    """Return a task and its run on web-3, which was declared dead ten minutes ago."""
    facts: dict[str, object] = {"on_disconnect": "keep", "timeout": HOUR, **fields}
    task = stage.task(name, facts.pop("schedule", "@yearly"), **facts)  # type: ignore[arg-type]
    node = stage.node("web-3")
    stage.sql("UPDATE nodes SET lease = :lease WHERE id = :node", lease=LEASE, node=node)
    stage.crontab.run(task)
    (taken,) = stage.take(node)
    stage.forward(minutes=10)
    stage.node("web-1", lease=HOUR)
    assert stage.reap() == ([node], [])
    return task, stage.crontab.find_run(taken.id)


def hear(stage: Stage, run: Run) -> None:
    """Let the node of the run be back."""
    with stage.database.write() as connection:
        nodes.revive(connection, run.owner or "")
        unheard.hear(connection, run.owner or "")


def of_code(stage: Stage, name: str, code: str) -> list[Cause]:
    return [cause for cause in Why(stage.crontab).explain(name) if cause.code == code]


def test_why_says_of_the_run_since_when_and_how_it_ends(stage: Stage) -> None:
    _, run = unheard_run(stage)
    (cause,) = of_code(stage, "backup", "unheard")
    assert (cause.facts["unheard_since"], cause.facts["lost_after"]) == (run.unheard_since, run.lost_after)
    assert cause.facts["run"] == run.id
    assert "has not been heard of since 2027-06-01 12:00 UTC: web-3-00000000 cannot reach" in cause.sentence
    assert f"2027-06-01 13:02:46 UTC) or `dcron cancel {run.id} --lost` gives it up" in cause.sentence
    assert of_code(stage, "backup", "running") == []


def test_why_without_a_timeout_names_no_time(stage: Stage) -> None:
    _, run = unheard_run(stage, timeout=None)
    (cause,) = of_code(stage, "backup", "unheard")
    assert cause.facts["lost_after"] is None
    assert f"until its node is back or `dcron cancel {run.id} --lost` gives it up" in cause.sentence


def test_why_names_it_where_another_run_of_the_task_waits_for_it(stage: Stage) -> None:
    task, run = unheard_run(stage, overlap="queue")
    waits = stage.crontab.run(task)
    assert stage.take("web-1-00000000") == []
    limit, cause = Why(stage.crontab).not_over(stage.crontab.find_run(waits.id))
    assert (limit.code, cause.code, cause.facts["run"]) == ("limit", "unheard", run.id)
    assert f"run {run.id} on web-3-00000000, not heard of" in limit.text
    assert len(of_code(stage, "backup", "unheard")) == 1, "it is explained once"


def test_why_names_it_where_a_queue_is_full_of_it(stage: Stage) -> None:
    _, run = unheard_run(stage, queue="dumps")
    Fleet(stage.crontab).set_queue("dumps", 1)
    stage.crontab.run(stage.task("other", "@yearly", queue="dumps"))
    assert stage.take("web-1-00000000") == []
    assert "of backup on web-3-00000000, not heard of" in of_code(stage, "other", "queue")[0].text
    assert [each.facts["run"] for each in of_code(stage, "other", "unheard")] == [run.id]


def test_why_names_it_where_a_later_task_waits_for_it(stage: Stage) -> None:
    stage.task("backup", "*/10 * * * *", on_disconnect="keep")
    stage.task("copy", "@after backup")
    stage.forward(minutes=10)
    node = stage.node("web-3")
    (run,) = stage.take(node)
    stage.forward(minutes=5)
    stage.node("web-1", lease=HOUR)
    stage.reap()
    assert [each.facts["run"] for each in of_code(stage, "copy", "unheard")] == [run.id]


def test_why_of_a_skipped_occurrence_names_it_also_when_it_is_heard_of_again(stage: Stage) -> None:
    _, run = unheard_run(stage, schedule="*/20 * * * *")
    stage.forward(minutes=10)
    assert stage.take("web-1-00000000") == []
    (skipped,) = stage.crontab.runs(RunFilter(states=[RunState.SKIPPED]), 10)
    assert skipped.caused_by == run.id
    (cause,) = of_code(stage, "backup", "overlap")
    assert f"run {run.id} was not heard of since 2027-06-01 12:00 UTC" in cause.text
    hear(stage, run)
    assert f"run {run.id} was not heard of then" in of_code(stage, "backup", "overlap")[0].text
    assert of_code(stage, "backup", "unheard") == []
    assert len(of_code(stage, "backup", "running")) == 1


def test_a_node_with_an_unheard_run_stays_in_the_list(stage: Stage) -> None:
    _, run = unheard_run(stage)
    stage.forward(days=3)
    (dead,) = [node for node in stage.crontab.nodes() if node.state(stage.now) is NodeState.DEAD]
    assert (dead.id, dead.unheard, dead.unheard_since) == (run.owner, 1, run.unheard_since)
    stage.crontab.give_up(run.id)
    assert not [node for node in stage.crontab.nodes() if node.state(stage.now) is NodeState.DEAD]


def test_the_alert_is_open_while_no_node_has_heard_of_it(stage: WatchedStage) -> None:
    task, run = unheard_run(stage)
    assert f"unheard task:{task.id}" in stage.look()
    (alert,) = [
        each for each in Alerts(stage.crontab).of_task(task.id) if each.alert.kind == AlertKind.UNHEARD
    ]
    assert run.unheard_since
    assert run.lost_after
    assert alert.alert.run_id == run.id
    assert alert.alert.facts == {
        "node": run.owner,
        "unheard_since": run.unheard_since.isoformat(),
        "lost_after": run.lost_after.isoformat(),
    }
    number = stage.number()
    stage.forward(minutes=2)
    assert f"unheard task:{task.id}" in stage.look()
    assert stage.number() == number
    hear(stage, run)
    assert f"unheard task:{task.id}" not in stage.look()


def test_the_alert_ends_with_a_run_that_was_given_up(stage: WatchedStage) -> None:
    task, run = unheard_run(stage)
    assert f"unheard task:{task.id}" in stage.look()
    stage.crontab.give_up(run.id)
    assert f"unheard task:{task.id}" not in stage.look()


def test_the_unheard_runs_of_tasks_are_found_and_no_others(stage: Stage) -> None:
    task, run = unheard_run(stage)
    other = stage.task("other", "@yearly")
    stage.crontab.run(other)
    stage.take("web-1-00000000")
    assert [each.id for each in stage.crontab.unheard_of([task.id, other.id])] == [run.id]
    assert stage.crontab.unheard_of([other.id]) == []


# The doctor ----------------------------------------------------------------------------------------------


def kept(stage: Stage) -> list[str]:
    with stage.database.read() as connection:
        return kept_tasks.names(connection, 10)


def test_kept_tasks_are_those_of_the_task_and_of_the_settings(stage: Stage) -> None:
    stage.task("own", on_disconnect="keep")
    stage.task("shop", labels={"team": "shop"})
    stage.task("stops", labels={"team": "shop"}, on_disconnect="stop")
    stage.crontab.pause(stage.task("paused", on_disconnect="keep"))
    assert kept(stage) == ["own"]
    SharedSettings(stage.crontab).set("on-disconnect[team=shop]", "keep")
    assert kept(stage) == ["own", "shop"]


@pytest.mark.parametrize(("kind", "found"), [("tmpfs", 1), ("overlay", 1), ("ext4", 0), ("", 0)])
def test_a_spool_that_a_restart_empties_is_found(
    stage: Stage, kind: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "file_system", lambda _: kind)
    doctor = Doctor(stage.database, tmp_path)
    assert "spool-not-kept" not in [each.code for each in doctor.examine()], "without a kept task"
    stage.task("dump", on_disconnect="keep", timeout=HOUR)
    problems = [each for each in doctor.examine() if each.code == "spool-not-kept"]
    assert len(problems) == found
    assert all(f"the spool {tmp_path} is on {kind}" in each.problem for each in problems)
    assert all("dump" in each.problem for each in problems)
    for nowhere in (tmp_path / "no agent has made it", None):
        codes = [each.code for each in Doctor(stage.database, nowhere).examine()]
        assert "spool-not-kept" not in codes


def test_the_spool_of_a_machine_is_judged_by_its_file_system() -> None:
    assert [each.code for each in host.examine_spool(Path("/dev/shm"), "tmpfs", ["a"])] == ["spool-not-kept"]
    assert list(host.examine_spool(Path("/srv"), "tmpfs", [])) == []
