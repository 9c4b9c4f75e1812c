"""Reports about a database that went back in time, and about a clock that was set."""

from datetime import timedelta

from dcron.services.database_info import database_facts
from dcron.services.why import Why
from dcron.store.nodes import clock_steps, epochs
from tests.support.stage import Stage


def message(stage: Stage, name: str) -> dict[str, str]:
    return {cause.code: cause.sentence for cause in Why(stage.crontab).explain(name)}


def test_an_epoch_is_named_for_a_day(stage: Stage) -> None:
    stage.task("backup")
    assert "epoch" not in message(stage, "backup")
    with stage.database.write() as connection:
        epochs.declare(
            connection, stage.database, "web-1", stage.now, seen=40, timeline=None, reason="run 40 was there"
        )
    stage.forward(hours=1)
    assert message(stage, "backup")["epoch"] == (
        "2027-06-01 12:00 UTC: the database may have lost what it had committed (run 40 was there): run ids"
        " go on above 10040, and an occurrence that it forgot may run again"
    )
    facts = database_facts(stage.database)
    assert facts.last_epoch
    assert facts.last_epoch.after["ids"] == 10040
    assert facts.last_set_back is None
    stage.forward(days=1)
    assert "epoch" not in message(stage, "backup")


def test_a_clock_set_back_is_named_as_long_as_it_matters(stage: Stage) -> None:
    task = stage.task("backup", "0 * * * *")
    node = stage.node(lease=10 * 86400)
    stage.forward(days=2, hours=1)
    (run,) = stage.take(node)
    stage.finish(node, run.id)
    stage.forward(days=-2)
    with stage.database.write() as connection:
        done = clock_steps.repair(connection, stage.database, node, stage.now)
        assert done == clock_steps.Repair(1, 0, run.scheduled_for)
        assert clock_steps.repair(connection, stage.database, "web-2", stage.now) is None
    assert stage.plan() == 1
    planned = stage.next_run(task)
    assert planned.scheduled_for == stage.now + timedelta(hours=1)
    stage.forward(hours=30)
    assert (
        "what ran ahead of its time, up to 2027-06-03 13:00 UTC" in message(stage, "backup")["clock-set-back"]
    )
    stage.forward(days=3)
    assert "clock-set-back" not in message(stage, "backup")
    assert database_facts(stage.database).last_set_back


def test_a_lease_that_no_clock_explains_is_explained(stage: Stage) -> None:
    stage.task("backup")
    node = stage.node()
    stage.sql("UPDATE nodes SET lease = 60")
    assert "clock-lease" not in message(stage, "backup")
    stage.forward(hours=-1)
    sentence = message(stage, "backup")["clock-lease"]
    assert sentence.startswith(f"the lease of {node} ends 2027-06-01 12:01 UTC, later than its 60s allow")
