"""The dispatcher of a node, step by step."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import text

from dcron.agent.dispatcher import Dispatcher
from dcron.agent.lease import Fenced
from dcron.errors import DatabaseError
from dcron.model import Definition, RunState, Trigger
from dcron.policy.starting.lanes import Lane
from dcron.store.claims import finishing
from dcron.store.claims.claims import ClaimResult
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import Capacity
from dcron.store.tasks import queues
from dcron.store.upkeep import reaping
from tests.support.node import NINE, World

MINUTE = timedelta(minutes=1)


def test_a_node_sleeps_until_the_next_run_is_due(world: World) -> None:
    world.add("tick", "@every 3s")
    world.clock.forward(seconds=1)
    node = world.node()
    assert node.dispatcher.step() == pytest.approx(2.0)


def test_a_node_without_tasks_sleeps_a_bounded_time(world: World) -> None:
    assert 0 < world.node().dispatcher.step() <= 5


def test_a_due_run_is_launched_and_its_task_has_the_next_one(world: World) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    run = world.run(run_id)
    assert (run.state, run.owner, run.scheduled_for) == (RunState.RUNNING, node.id, NINE + MINUTE)
    (waiting,) = world.runs(RunState.WAITING)
    assert waiting.scheduled_for == NINE + 2 * MINUTE


def test_only_what_the_database_reports_as_owned_starts(world: World) -> None:
    """A node reads its ownership again: a write that did not happen starts nothing."""
    world.add("tick"), world.add("kept")
    node = world.node()
    refused = "NEW.task = 'kept' AND NEW.state = 'running'"
    with world.database.write() as connection:
        if world.database.is_sqlite:
            statements = [
                f"CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN {refused} BEGIN SELECT RAISE(IGNORE); END"
            ]
        else:
            body = f"BEGIN IF {refused} THEN RETURN NULL; END IF; RETURN NEW; END"
            statements = [
                f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$",
                "CREATE TRIGGER refuse BEFORE UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION refuse()",
            ]
        for statement in statements:
            connection.execute(text(statement))
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    assert world.run(run_id).task == "tick"


def test_two_nodes_share_the_runs_and_none_runs_twice(world: World) -> None:
    for number in range(6):
        world.add(f"task-{number}")
    one, other = world.node("one"), world.node("other")
    world.clock.forward(minutes=1)
    assert len(one.dispatch()) == 4
    assert len(other.dispatch()) == 2
    assert len({run.task for run in world.runs(RunState.RUNNING)}) == 6


def test_a_node_takes_no_more_than_its_slots(world: World) -> None:
    for number in range(3):
        world.add(f"task-{number}")
    node = world.node(slots=2)
    world.clock.forward(minutes=1)
    first = node.dispatch()
    assert len(first) == 2
    node.finish(first[:1])
    assert len(node.dispatch()) == 1


def test_only_the_home_of_an_account_may_be_missing(world: World) -> None:
    world.add("home")
    world.add("elsewhere", cwd="/srv")
    world.add("own", env={"HOME": "/srv/home"})
    node = world.node("web-1")
    world.clock.forward(minutes=1)
    node.dispatch()
    at_home = {job.env["DCRON_TASK"]: job.at_home for job in node.launched}
    assert at_home == {"home": True, "elsewhere": False, "own": False}


def test_the_command_gets_its_facts_in_the_environment(world: World) -> None:
    world.add("tick", env={"COLOR": "blue", "PATH": "/opt/bin"}, cwd="/srv", stdin="in")
    node = world.node("web-1")
    world.clock.forward(minutes=1)
    node.dispatch()
    (job,) = node.launched
    assert job.argv == ("/bin/sh", "-c", "true")
    assert (job.cwd, job.stdin) == ("/srv", b"in")
    assert (
        job.env.items()
        >= {
            "COLOR": "blue",
            "PATH": "/opt/bin",
            "DCRON_TASK": "tick",
            "DCRON_RUN_ID": str(job.run_id),
            "DCRON_FENCE": str(job.run_id),
            "DCRON_SCHEDULED_FOR": "2026-11-20T09:01:00Z",
            "DCRON_ATTEMPT": "1",
            "DCRON_TRIGGER": "schedule",
            "DCRON_NODE": "web-1",
            "DCRON_NODE_ID": node.id,
        }.items()
    )


def test_a_payload_reaches_stdin_and_the_environment(world: World) -> None:
    task = world.add("tick", "0 0 1 1 *", stdin="usual")
    world.crontab.run(task, "special")
    node = world.node()
    node.dispatch()
    (job,) = node.launched
    assert (job.stdin, job.env["DCRON_PAYLOAD"], job.env["DCRON_TRIGGER"]) == (
        b"special",
        "special",
        "manual",
    )


def test_run_now_of_a_paused_task_runs_but_its_schedule_does_not(world: World) -> None:
    task = world.crontab.pause(world.add("tick"))
    world.clock.forward(minutes=5)
    node = world.node()
    assert node.dispatch() == []
    world.crontab.run(task)
    assert len(node.dispatch()) == 1


def test_an_overlapping_run_is_skipped_with_the_reason(world: World) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    assert len(node.dispatch()) == 1
    world.clock.forward(minutes=1)
    assert node.dispatch() == []
    (skipped,) = world.runs(RunState.SKIPPED)
    assert skipped.reason == "overlap: the previous run is still alive"
    assert [run.scheduled_for for run in world.runs(RunState.WAITING)] == [NINE + 3 * MINUTE]


def test_after_downtime_the_last_occurrence_runs_and_the_others_are_one_row(world: World) -> None:
    world.add("tick")
    world.clock.forward(minutes=10, seconds=30)
    node = world.node()
    (run_id,) = node.dispatch()
    assert world.run(run_id).scheduled_for == NINE + 10 * MINUTE
    (skipped,) = world.runs(RunState.SKIPPED)
    assert skipped.reason == (
        "missed: no agent could start it (9 occurrences, 2026-11-20T09:01:00Z to 2026-11-20T09:09:00Z)"
    )
    assert [run.scheduled_for for run in world.runs(RunState.WAITING)] == [NINE + 11 * MINUTE]


def test_a_row_written_by_hand_gets_its_run(world: World) -> None:
    world.execute(
        text("INSERT INTO crontab (name, schedule, command) VALUES ('by-hand', '*/5 * * * *', 'true')")
    )
    node = world.node()
    node.dispatch()
    (waiting,) = world.runs(RunState.WAITING)
    assert (waiting.task, waiting.scheduled_for) == ("by-hand", NINE + 5 * MINUTE)


def test_a_row_deleted_by_hand_ends_as_a_skipped_run(world: World) -> None:
    world.add("tick")
    world.execute(text("DELETE FROM crontab"))
    world.clock.forward(minutes=1)
    node = world.node()
    assert node.dispatch() == []
    (skipped,) = world.runs()
    assert (skipped.state, skipped.reason) == (RunState.SKIPPED, "no longer wanted: removed")


@pytest.mark.slow
def test_a_pause_that_is_over_ends_by_itself(world: World) -> None:
    task = world.add("tick")
    world.crontab.pause(task, "release", until=NINE + timedelta(minutes=3, seconds=30))
    node = world.node()
    world.clock.forward(minutes=2)
    assert node.dispatch() == []
    world.clock.forward(minutes=2)
    node.dispatch()
    assert world.crontab.get("tick").enabled
    (skipped,) = world.runs(RunState.SKIPPED)
    assert skipped.reason
    assert skipped.reason.startswith("paused by tester@here: release (")
    assert [run.scheduled_for for run in world.runs(RunState.WAITING)] == [NINE + 5 * MINUTE]


def test_reboot_tasks_run_once_on_each_node_that_starts(world: World) -> None:
    world.add("boot", "@reboot")
    one, other = world.node("one"), world.node("other")
    assert one.dispatch() == other.dispatch() == []
    fresh = type(one)(world.database, "fresh").register(reboot=True)
    assert other.dispatch() == []
    (run_id,) = fresh.dispatch()
    assert (world.run(run_id).trigger, world.run(run_id).for_node) == (Trigger.REBOOT, fresh.id)
    assert world.runs(RunState.WAITING) == []


def test_a_node_declared_dead_cannot_claim(world: World) -> None:
    world.add("tick")
    frozen, other = world.node("frozen"), world.node("other")
    other.heartbeat.step()
    world.watch(other, 61)
    with pytest.raises(Fenced):
        frozen.dispatcher.step()
    with pytest.raises(Fenced):
        frozen.heartbeat.step()
    assert len(other.dispatch()) == 1


def test_the_runs_of_a_dead_node_are_lost_and_its_claims_wait_again(world: World) -> None:
    world.add("ran"), world.add("claimed")
    dying, other = world.node("dying", slots=1), world.node("other")
    world.clock.forward(minutes=1)
    other.heartbeat.step()
    (run_id,) = dying.dispatch()
    with world.database.write() as connection:
        now = world.database.now(connection)
        from dcron.store.claims import claims

        offer = Capacity(node_id=dying.id, slots=1)
        (held,) = claims.claim(connection, world.database, offer, now, [Lane()]).claimed
    other.heartbeat.step()
    world.watch(other, 61)
    lost = world.run(run_id)
    assert (lost.state, lost.reason) == (RunState.LOST, f"node {dying.id} died while it ran")
    assert lost.dead_at is not None
    assert world.run(held.id).state is RunState.WAITING
    assert held.id in other.dispatch()


def test_a_refused_run_fails_when_the_last_node_for_it_has_died(world: World) -> None:
    task = world.add("job")
    dying, one, two = (world.node(name) for name in ("dying", "one", "two"))
    world.clock.forward(minutes=1)
    for node in (one, two):
        (run_id,) = node.dispatch()
        with world.database.write() as connection:
            now = world.database.now(connection)
            refused = RunResult(run_id, RunState.FAILED, now, "no such directory", never_begun=True)
            finishing.finish(connection, world.database, node.id, [refused], now)
    two.dispatch()
    [again] = [run for run in world.runs(RunState.WAITING) if run.trigger is Trigger.RETRY]
    with world.database.write() as connection:
        reaping.sign_off(connection, world.database, dying.id, world.database.now(connection))
    world.clock.forward(seconds=10)
    one.dispatch()
    end = world.run(again.id)
    assert (end.state, end.attempt, list(end.refused_by or ())) == (RunState.FAILED, 1, [one.id, two.id])
    assert end.dead_at is not None
    assert task.tries == 1


def test_the_late_truth_of_a_lost_run_is_taken_from_its_owner_alone(world: World) -> None:
    world.add("tick")
    dying, other = world.node("dying"), world.node("other")
    world.clock.forward(minutes=1)
    other.heartbeat.step()
    (run_id,) = dying.dispatch()
    other.heartbeat.step()
    world.clock.forward(seconds=59)
    other.heartbeat.step()
    world.clock.forward(seconds=2)
    other.heartbeat.step()
    assert other.finish([run_id]) == set()
    assert dying.finish([run_id]) == {run_id}
    assert world.run(run_id).state is RunState.SUCCEEDED
    assert dying.finish([run_id], RunState.FAILED) == set()


def test_a_start_whose_answer_is_lost_starts_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    cut_commit(world, monkeypatch, is_committed=True)
    with pytest.raises(DatabaseError):
        node.dispatch()
    assert node.launched == []
    assert node.dispatch() == [job.run_id for job in node.launched]
    (run,) = world.runs(RunState.RUNNING)
    assert [job.run_id for job in node.launched] == [run.id]
    assert len(world.runs(RunState.WAITING)) == 1


def test_a_start_that_was_not_committed_is_claimed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    cut_commit(world, monkeypatch, is_committed=False)
    with pytest.raises(DatabaseError):
        node.dispatch()
    assert node.launched == []
    (waiting,) = world.runs(RunState.WAITING)
    assert node.dispatch() == [waiting.id]


def test_a_cancelled_run_is_killed_once(world: World) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    world.crontab.cancel(run_id)
    node.dispatcher.step()
    node.dispatcher.step()
    assert node.killed == [run_id]


def test_a_closed_node_takes_nothing(world: World) -> None:
    world.add("tick")
    node = world.node()
    node.dispatcher.closed = True
    world.clock.forward(minutes=1)
    assert node.dispatch() == []
    assert world.runs(RunState.WAITING)


def test_a_draining_mark_reaches_the_node_with_its_next_beat(world: World) -> None:
    node = world.node()
    world.execute(text("UPDATE nodes SET draining = true"))
    node.heartbeat.step()
    assert node.lease.draining


def test_a_deadline_lies_a_margin_before_the_lease_is_over(world: World) -> None:
    node = world.node()
    assert node.heartbeat.step() == pytest.approx(10)
    assert node.deadlines == [world.clock.now.timestamp() + 50]


def test_a_claim_renews_the_lease_and_moves_the_deadline_too(world: World) -> None:
    world.add("tick")
    node = world.node()
    node.heartbeat.step()
    world.clock.forward(seconds=59)
    assert node.dispatcher.step() > 0  # nothing is due, so nothing is claimed
    assert len(node.deadlines) == 1
    world.clock.forward(seconds=1)
    assert len(node.dispatch()) == 1
    assert node.deadlines[1:] == [world.clock.now.timestamp() + 50]


def test_due_rows_that_cannot_be_taken_are_asked_for_ever_less_often(world: World) -> None:
    world.add("tick")
    with world.database.write() as connection:
        queues.put(connection, "default", 0, world.clock.now, "ann@desk")
    world.clock.forward(minutes=1)
    node = world.node()
    pauses = [node.dispatcher.step() for _ in range(10)]
    assert pauses == sorted(pauses)
    assert pauses[0] > 0
    assert pauses[-1] == pytest.approx(5)


def cut_commit(world: World, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool) -> None:
    """Let the next write fail at its end, as when the connection is cut before or after the commit."""
    from collections.abc import Iterator
    from contextlib import contextmanager

    from sqlalchemy import Connection

    write = world.database.write

    @contextmanager
    def cut(**options: bool) -> Iterator[Connection]:
        monkeypatch.setattr(world.database, "write", write)
        with write(**options) as connection:
            yield connection
            if not is_committed:
                raise DatabaseError("the connection was cut")
        raise DatabaseError("the connection was cut")

    monkeypatch.setattr(world.database, "write", cut)


def test_one_pass_looks_into_all_lanes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcron.store.planning.planning.MOST_LANES", 2)
    for number in range(4):
        world.add(f"later{number}", "0 0 1 1 *", queue=f"a{number}")
    world.add("tick", queue="z")
    world.clock.forward(minutes=1)
    node = world.node()
    dispatcher = Dispatcher(node.context, is_single_pass=True)
    while dispatcher.step() == 0:
        pass
    assert len(node.launched) == 1


def test_a_one_off_whose_time_passes_while_it_is_added_runs_at_once(world: World) -> None:
    once = Definition(name="once", schedule="@at 2026-11-20T09:00:00Z", timezone="UTC", command="true")
    task = world.crontab.add(once, once=True, since=NINE - timedelta(seconds=1))
    assert world.crontab.view("once").next_run_at == NINE
    node = world.node()
    assert len(node.dispatch()) == 1
    assert [run.task_id for run in world.runs(RunState.RUNNING)] == [task.id]


def test_a_suspected_rollback_holds_up_due_runs_until_a_heartbeat_has_checked_it(world: World) -> None:
    node = world.node()
    world.add("hourly", "0 * * * *")
    node.dispatch()
    world.clock.forward(hours=1)
    node.rollback_detector.settled(renewals=1_000)  # the next renewal has a smaller number
    assert node.dispatch() == []
    assert node.dispatcher.is_held_up
    node.heartbeat.step()
    assert not node.dispatcher.is_held_up
    assert len(node.dispatch()) == 1


def test_a_step_works_out_the_free_capacity_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.node()
    world.add("hourly", "0 * * * *")
    node.dispatch()
    world.clock.forward(hours=1)
    free = Mock(side_effect=node.active_runs.free_capacity)
    monkeypatch.setattr(node.active_runs, "free_capacity", free)
    node.dispatcher.step()
    assert len(node.launched) == free.call_count == 1


def test_after_a_slow_claim_that_took_most_slots_the_next_one_waits_for_quick_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        world.add(f"task-{number}")
    node = world.node()
    world.clock.forward(minutes=1)
    claim = node.dispatcher._claim

    def slow_claim(*given: Any) -> ClaimResult:
        result = claim(*given)
        world.clock.forward(seconds=0.8)
        return result

    monkeypatch.setattr(node.dispatcher, "_claim", slow_claim)
    assert node.dispatcher.step() == 0
    assert node.dispatcher.step() == pytest.approx(0.1)
    node.end(*node.active_runs.ids())
    assert node.dispatcher.step() == 0
    assert len(node.launched) == 8
