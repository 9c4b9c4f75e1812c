"""Runs whose commands go on while their node is cut off, step by step."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, select, update

from dcron.agent.lease import Fenced
from dcron.agent.spool import deliver_abandoned
from dcron.errors import DatabaseError
from dcron.model import Run, RunState, SkipCode, Trigger
from dcron.schema import tables
from dcron.schema.tables import runs
from dcron.services.settings import SharedSettings
from dcron.store.nodes import rows as nodes
from dcron.warden.spool import Spool
from tests.support.node import NINE, HandNode, World


def stamps(world: World) -> dict[str, str | None]:
    """Return what running rows say, by task."""
    with world.database.read() as connection:
        query = select(runs.c.task, runs.c.on_disconnect).where(runs.c.state == RunState.RUNNING)
        return {row.task: row.on_disconnect for row in connection.execute(query)}


# -- the start


def test_a_start_writes_the_choice_of_the_task_and_of_the_settings(world: World) -> None:
    settings = SharedSettings(world.crontab)
    settings.set("on-disconnect[team=shop]", "keep")
    world.add("kept", on_disconnect="keep")
    world.add("shop", labels={"team": "shop"})
    world.add("not-shop", labels={"team": "shop"}, on_disconnect="stop")
    world.add("plain")
    node = world.node(slots=8)
    node.heartbeat.step()
    world.clock.forward(minutes=1)
    assert len(node.dispatch()) == 4
    assert stamps(world) == {"kept": "keep", "shop": "keep", "not-shop": None, "plain": None}

    settings.set("on-disconnect", "keep")
    world.add("later")
    node.heartbeat.step()
    world.clock.forward(minutes=1)
    node.dispatch()
    assert stamps(world)["later"] == "keep"
    assert stamps(world)["plain"] is None, "a change counts for later starts"


def test_a_held_claim_gets_the_stamp_with_its_start(world: World) -> None:
    world.add("quick", max_running=None)
    world.add("kept", "0 0 1 1 *", on_disconnect="keep", max_running=None)
    node = world.node(slots=1)
    world.clock.forward(minutes=1)
    (first,) = node.dispatch()
    for _ in range(3):
        world.crontab.run(world.crontab.get("kept"))
    node.end(first)
    node.recorder.step()
    for _ in range(3):
        (run_id,) = node.dispatch()
        assert stamps(world) == {"kept": "keep"}
        node.end(run_id)
        node.recorder.step()
    assert not node.dispatch()


def test_a_start_has_to_come_before_the_fence_of_its_own_renewal(world: World) -> None:
    world.add("backup")
    node = world.node(lease=60)
    world.clock.forward(minutes=1)
    sent = world.clock.boottime()
    node.dispatch()
    assert [job.start_by for job in node.launched] == [sent + 50]
    assert [job.run_id for job in node.launched] == [each.id for each in world.runs(RunState.RUNNING)]


def test_a_start_with_a_lost_reply_keeps_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add("backup", on_disconnect="keep")
    node = world.node(lease=60)
    world.clock.forward(minutes=1)
    sent = world.clock.boottime()
    lose_next_reply(node, monkeypatch)
    with pytest.raises(DatabaseError):
        node.dispatch()
    world.clock.forward(seconds=20)
    assert len(node.dispatch()) == 1
    assert [job.start_by for job in node.launched] == [sent + 50]


def lose_next_reply(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction that starts runs be committed without a reply."""
    write = node.database.write
    lost: list[bool] = []

    @contextmanager
    def losing(*, starts: bool = False, **options: bool) -> Iterator[Connection]:
        with write(starts=starts, **options) as connection:
            yield connection
        if starts and not lost:
            lost.append(True)
            raise DatabaseError("the connection was cut after the commit")

    monkeypatch.setattr(node.database, "write", losing)


# -- the node is declared dead, and comes back


def step(world: World, *others: HandNode, seconds: float = 10) -> None:
    """Let this time pass, with a heartbeat of these nodes every ten seconds."""
    for _ in range(max(1, int(seconds // 10))):
        world.clock.forward(seconds=10)
        for other in others:
            other.heartbeat.step()


def cut_off(world: World, **fields: Any) -> tuple[HandNode, HandNode, Run, Run]:
    """Start a kept and a stopped run on a node that is then declared dead; return it, another, the runs."""
    world.add("backup", on_disconnect="keep", timeout=600.0, **fields)
    world.add("short", "0 0 1 1 *")
    world.crontab.run(world.crontab.get("short"))
    node, other = world.node("web-1"), world.node("web-2")
    world.clock.forward(minutes=1)
    node.dispatch()
    step(world, other, seconds=90)
    (backup,) = [run for run in world.runs() if run.task == "backup" and run.owner == node.id]
    (short,) = [run for run in world.runs() if run.task == "short" and run.owner == node.id]
    return node, other, backup, short


def is_alive(world: World, node: HandNode) -> bool:
    with world.database.read() as connection:
        return nodes.is_alive(connection, node.id)


def test_a_kept_run_of_a_dead_node_stays_and_holds_its_place(world: World) -> None:
    node, other, backup, short = cut_off(world, on_lost="retry", tries=2)
    assert not is_alive(world, node)
    assert (short.state, short.unheard_since) == (RunState.LOST, None)
    assert backup.state is RunState.RUNNING
    assert (backup.started_at, backup.unheard_since) == (NINE + timedelta(minutes=1),) * 2
    assert backup.lost_after == NINE + timedelta(minutes=1, seconds=600 + 6 + 10 + 120)
    other.dispatch()
    (skipped,) = [run for run in world.runs(RunState.SKIPPED) if run.task == "backup"]
    assert (skipped.skip_code, skipped.caused_by) == (SkipCode.OVERLAP, backup.id)
    assert not [run for run in world.runs() if run.trigger is Trigger.RETRY]


def test_what_the_row_says_counts_not_the_task_as_it_is_now(world: World) -> None:
    world.add("kept", on_disconnect="keep")
    world.add("stopped", on_disconnect="stop")
    node, other = world.node("web-1"), world.node("web-2")
    world.clock.forward(minutes=1)
    node.dispatch()
    world.crontab.edit(world.crontab.get("kept"), {"on_disconnect": "stop"})
    world.crontab.edit(world.crontab.get("stopped"), {"on_disconnect": "keep"})
    step(world, other, seconds=90)
    found = {run.task: run.state for run in world.runs() if run.owner == node.id}
    assert found == {"kept": RunState.RUNNING, "stopped": RunState.LOST}


def test_a_node_with_a_kept_run_goes_on_under_its_id(world: World) -> None:
    node, _, backup, short = cut_off(world)
    before = node.deadlines[-1:]
    assert node.heartbeat.step() == 0.0
    assert is_alive(world, node)
    found = world.run(backup.id)
    assert (found.state, found.unheard_since, found.lost_after) == (RunState.RUNNING, None, None)
    assert node.fenced == [short.id], "another node may run it by now"
    assert node.deadlines[-1] == world.clock.boottime() + 50
    assert node.deadlines[-1:] != before
    node.heartbeat.step()
    assert node.killed == []
    node.end(backup.id)
    node.recorder.step()
    assert world.run(backup.id).state is RunState.SUCCEEDED
    world.clock.forward(minutes=1)
    node.dispatcher.look_again()
    assert node.dispatch(), "it takes runs again"


def test_a_node_without_a_kept_run_is_another_one_from_then_on(world: World) -> None:
    world.add("short")
    node, other = world.node("web-1"), world.node("web-2")
    world.clock.forward(minutes=1)
    node.dispatch()
    step(world, other, seconds=90)
    with pytest.raises(Fenced):
        node.heartbeat.step()
    node.dispatcher.look_again()
    with pytest.raises(Fenced):
        node.dispatch()


def test_a_node_that_signed_off_or_is_unknown_is_not_taken_back(world: World) -> None:
    world.add("backup", on_disconnect="keep")
    node = world.node("web-1")
    world.clock.forward(minutes=1)
    node.dispatch()
    world.execute(update(tables.nodes).values(died_at=NINE, died_how="stopped"))
    with pytest.raises(Fenced):
        node.heartbeat.step()
    world.execute(delete(tables.nodes))
    with pytest.raises(Fenced, match="unknown"):
        node.heartbeat.step()


def test_an_end_is_recorded_while_the_node_counts_as_dead(world: World) -> None:
    node, _, backup, _ = cut_off(world)
    node.end(*(job.run_id for job in node.launched))
    node.recorder.step()
    assert world.run(backup.id).state is RunState.SUCCEEDED
    with pytest.raises(Fenced):
        node.heartbeat.step()


def test_the_dispatcher_of_a_dead_node_waits_for_the_heartbeat(world: World) -> None:
    node, _, backup, _ = cut_off(world)
    world.crontab.run(world.crontab.get("short"))
    node.dispatcher.look_again()
    assert node.dispatcher.step() > 0
    assert node.context.wake_heartbeat.is_set()
    node.heartbeat.step()
    (run_id,) = node.dispatch()
    assert world.run(run_id).task == "short"
    assert world.run(backup.id).unheard_since is None


def test_a_reviving_heartbeat_without_a_reply_is_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _, backup, short = cut_off(world)
    write = node.database.write

    @contextmanager
    def losing(**options: bool) -> Iterator[Connection]:
        with write(**options) as connection:
            yield connection
        raise DatabaseError("the connection was cut after the commit")

    monkeypatch.setattr(node.database, "write", losing)
    with pytest.raises(DatabaseError):
        node.heartbeat.step()
    monkeypatch.undo()
    assert (is_alive(world, node), node.fenced) == (True, [])
    step(world, node, seconds=20)
    assert node.killed == [short.id], "at the second look, as one that is not ours"
    assert world.run(backup.id).unheard_since is None


def test_a_start_without_a_reply_is_kept_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add("backup", on_disconnect="keep")
    node, other = world.node("web-1", lease=60), world.node("web-2")
    world.clock.forward(minutes=1)
    sent = world.clock.boottime()
    lose_next_reply(node, monkeypatch)
    with pytest.raises(DatabaseError):
        node.dispatch()
    step(world, other, seconds=90)
    node.heartbeat.step()
    assert is_alive(world, node)
    node.dispatch()
    assert [job.start_by for job in node.launched] == [sent + 50], "too late: the warden refuses it"


# -- the node stays away


def test_a_kept_run_counts_as_lost_when_its_time_is_over(world: World) -> None:
    node, other, backup, _ = cut_off(world, on_lost="retry", tries=2, backoff=0.0)
    assert backup.lost_after is not None
    while world.clock.now + timedelta(seconds=10) < backup.lost_after:
        step(world, other)
    assert world.run(backup.id).state is RunState.RUNNING
    step(world, other, seconds=20)
    lost = world.run(backup.id)
    assert lost.state is RunState.LOST
    assert "its time is over" in str(lost.reason)
    (retry,) = [run for run in world.runs() if run.trigger is Trigger.RETRY]
    assert retry.retry_of == backup.id

    node.heartbeat.step()
    assert backup.id in node.fenced, "it does not go on beside the retry"
    assert world.run(backup.id).state is RunState.LOST
    node.end(backup.id)
    node.recorder.step()
    assert world.run(backup.id).state is RunState.SUCCEEDED, "the truth replaces what was assumed"
    assert world.run(retry.id).state is RunState.SKIPPED


def test_a_clock_that_was_set_forward_gives_nothing_up(world: World) -> None:
    _, other, backup, _ = cut_off(world)
    step(world, other)
    world.clock.ahead = timedelta(days=1)
    with other_boottime(world, other):
        step(world, other, seconds=60)
    assert world.run(backup.id).state is RunState.RUNNING


@contextmanager
def other_boottime(world: World, node: HandNode) -> Iterator[None]:
    """Let the node have a clock that was not set with the database's."""
    before = node.lease.clock
    node.lease.clock = world.clock.boottime
    yield
    node.lease.clock = before


def test_without_a_timeout_it_waits(world: World) -> None:
    world.add("backup", on_disconnect="keep")
    node, other = world.node("web-1"), world.node("web-2")
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    step(world, other, seconds=3600)
    run = world.run(run_id)
    assert (run.state, run.lost_after) == (RunState.RUNNING, None)
    assert run.unheard_since is not None


# -- the next agent of the spool


def test_the_next_agent_of_the_spool_settles_what_left_no_end(world: World, tmp_path: Path) -> None:
    world.add("backup", on_disconnect="keep")
    world.add("short")
    node = world.node("web-1")
    world.clock.forward(minutes=1)
    node.dispatch()
    directory = tmp_path / "spool"
    Spool.make(directory, node.id).close()
    Spool.make(directory, "web-9-0badcafe").close()
    assert deliver_abandoned(world.database, directory, set()) == 0
    states = {run.task: run.state for run in world.runs() if run.owner == node.id}
    assert states == {"backup": RunState.LOST, "short": RunState.RUNNING}, "of others the lease decides"
    (lost,) = world.runs(RunState.LOST)
    assert lost.reason is not None
    assert lost.reason.endswith("how it ended is unknown")
    assert list(directory.iterdir()) == []
