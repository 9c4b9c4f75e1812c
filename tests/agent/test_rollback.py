"""A database that goes back in time under nodes that run: a backup is put back, a failover loses commits."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import select, text

from dcron.agent.lease import Fenced
from dcron.agent.rollback_detection import Memory
from dcron.model import RunState
from dcron.schema.tables import changes
from dcron.store.nodes import epochs
from dcron.store.nodes.epochs import GAP
from tests.support.backups import Backup
from tests.support.node import HandNode, World

BEAT = 10


def beat(world: World, *nodes: HandNode, times: int = 1) -> None:
    for _ in range(times):
        world.clock.forward(seconds=BEAT)
        for node in nodes:
            node.heartbeat.step()


def start_one(world: World, node: HandNode) -> int:
    world.clock.forward(minutes=1)
    (run_id,) = node.dispatch()
    return run_id


def declared(world: World) -> list[dict[str, object]]:
    with world.database.read() as connection:
        rows = connection.execute(select(changes.c.after).where(changes.c.action == "epoch"))
        return [row.after for row in rows]


def test_a_run_that_the_node_does_not_have_is_lost_at_the_second_beat(world: World) -> None:
    task = world.add("tick", on_lost="retry", tries=2)
    node = world.node()
    run_id = start_one(world, node)
    node.active_runs.remove([run_id])
    node.heartbeat.step()
    assert world.run(run_id).state is RunState.RUNNING
    node.heartbeat.step()
    lost = world.run(run_id)
    assert (lost.state, lost.owner) == (RunState.LOST, node.id)
    assert lost.reason
    assert "does not have it" in lost.reason
    retries = [run for run in world.runs(RunState.WAITING) if run.attempt == 2]
    assert [run.task_id for run in retries] == [task.id]


def test_a_claim_that_the_node_does_not_know_of_waits_again(world: World) -> None:
    world.add("tick")
    node = world.node()
    (waiting,) = world.runs(RunState.WAITING)
    world.execute(
        text("UPDATE runs SET state = 'claimed', owner = :node, claimed_at = due_at"), {"node": node.id}
    )
    node.heartbeat.step()
    assert world.run(waiting.id).state is RunState.CLAIMED
    node.heartbeat.step()
    assert world.run(waiting.id).state is RunState.WAITING


def test_what_runs_stays_as_it_is_however_many_beats_there_are(world: World) -> None:
    world.add("tick")
    node = world.node()
    run_id = start_one(world, node)
    beat(world, node, times=5)
    assert world.run(run_id).state is RunState.RUNNING
    assert node.killed == []
    assert declared(world) == []


def test_a_run_that_is_not_the_nodes_any_more_is_ended_once(world: World) -> None:
    world.add("tick")
    node = world.node()
    run_id = start_one(world, node)
    world.execute(text("DELETE FROM runs WHERE id = :id"), {"id": run_id})
    node.heartbeat.step()
    assert node.killed == []
    for _ in range(3):
        node.heartbeat.step()
    assert node.killed == [run_id]


def test_a_node_whose_database_went_back_repeats_no_id_and_keeps_no_run_open(world: World) -> None:
    world.add("tick", max_running=None)
    node = world.node()
    before = start_one(world, node)
    beat(world, node)
    backup = Backup(world.database)
    node.finish([before])
    after = start_one(world, node)
    beat(world, node)
    backup.restore()

    world.clock.forward(minutes=1)
    assert node.dispatch() == []  # nothing is claimed before a beat has looked into it
    assert node.doubts
    node.heartbeat.step()
    assert node.killed == [after]
    (epoch,) = declared(world)
    assert epoch["ids"] >= after + GAP  # type: ignore[operator]
    assert epoch["reason"]
    node.active_runs.remove([after])
    beat(world, node, times=2)
    assert world.run(before).state is RunState.LOST
    started = node.dispatch()
    assert started
    assert min(started) > after + GAP
    assert not world.runs(RunState.CLAIMED)


def test_the_second_node_to_notice_moves_the_ids_no_further(world: World) -> None:
    world.add("tick", max_running=None)
    first, second = world.node("web-1"), world.node("web-2")
    backup = Backup(world.database)
    for _ in range(3):
        first.finish([start_one(world, first)])
        beat(world, first, second)
    backup.restore()
    beat(world, first, second, times=3)
    assert len(declared(world)) == 1


def test_a_start_that_was_forgotten_is_recorded_again(world: World) -> None:
    world.add("tick")
    node = world.node()
    run_id = start_one(world, node)
    with world.database.write() as connection:
        connection.execute(text("DELETE FROM runs WHERE id <> :id"), {"id": run_id})
        connection.execute(text("UPDATE runs SET state = 'claimed', started_at = NULL"))
    node.heartbeat.step()
    assert world.run(run_id).state is RunState.RUNNING
    assert len(world.runs(RunState.WAITING)) == 1
    assert node.killed == []


def test_a_node_that_the_database_does_not_know_ends(world: World) -> None:
    node = world.node()
    world.execute(text("DELETE FROM nodes"))
    with pytest.raises(Fenced, match="unknown to the database"):
        node.heartbeat.step()


def test_an_agent_that_starts_after_a_restore_remembers_the_ids(world: World, tmp_path: Path) -> None:
    world.add("tick")
    memory = Memory.of(tmp_path, "db")
    memory.newest = 500
    memory.save()
    node = HandNode(world.database, "web-1", memory=Memory.of(tmp_path, "db")).register()
    (epoch,) = declared(world)
    assert (epoch["ids"], epoch["renumbered"]) == (500 + GAP, 1)
    world.clock.forward(minutes=1)
    assert node.dispatch() == [500 + GAP + 1]


def test_what_could_have_been_started_gets_a_new_id(world: World) -> None:
    world.add("tick")
    world.clock.forward(minutes=1)
    with world.database.write() as connection:
        epoch = epochs.declare(
            connection, world.database, "web-1", world.clock.now, seen=7, timeline="2", reason="a test"
        )
        assert epoch
        again = epochs.declare(
            connection, world.database, "web-2", world.clock.now, seen=epoch.beyond, timeline="2", reason="x"
        )
        assert again is None
    assert (epoch.before, epoch.renumbered) == (1, 1)
    (run,) = world.runs(RunState.WAITING)
    assert run.id == epoch.beyond + 1
    assert world.node().dispatch() == [run.id]


def test_an_epoch_that_was_rolled_back_is_declared_again(world: World) -> None:
    """Postgres's ids stay moved then: they must not look like an epoch of another agent."""
    world.add("tick")
    world.clock.forward(seconds=30)  # it waits for its time

    def declare(actor: str) -> epochs.Epoch | None:
        return epochs.declare(
            connection, world.database, actor, world.clock.now, seen=7, timeline="2", reason="a test"
        )

    with suppress(ZeroDivisionError), world.database.write() as connection:
        assert declare("web-1")
        raise ZeroDivisionError
    with world.database.write() as connection:
        epoch = declare("web-2")
        assert epoch
        assert epoch.renumbered == 1
        assert declare("web-3") is None
    (run,) = world.runs(RunState.WAITING)
    assert run.id == epoch.beyond + 1


def test_another_timeline_of_the_server_is_noticed_before_the_next_claim(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add("tick")
    monkeypatch.setattr(world.database, "timeline", lambda _: "00000001")
    node = world.node()
    node.heartbeat.step()
    monkeypatch.setattr(world.database, "timeline", lambda _: "00000002")
    world.database.close()
    world.clock.forward(minutes=1)
    assert node.dispatch() == []
    node.heartbeat.step()
    (epoch,) = declared(world)
    assert epoch["timeline"] == "00000002"
    assert len(node.dispatch()) == 1
    beat(world, node, times=2)
    assert len(declared(world)) == 1


def test_memory_is_of_one_database_and_survives_what_is_not_json(tmp_path: Path) -> None:
    for address, newest in (("a", 3), ("b", 4)):
        memory = Memory.of(tmp_path, address)
        memory.newest = newest
        memory.save()
    assert [Memory.of(tmp_path, each).newest for each in ("a", "b", "c")] == [3, 4, 0]
    assert json.loads((tmp_path / "seen.json").read_text())["a"]["newest"] == 3
    (tmp_path / "seen.json").write_text("{")
    assert Memory.of(tmp_path, "a").newest == 0


def test_ids_that_were_deleted_are_no_sign(world: World) -> None:
    world.add("tick")
    node = world.node()
    beat(world, node)
    world.crontab.remove(world.crontab.get("tick"))
    beat(world, node, times=2)
    assert declared(world) == []


def test_ids_are_asked_for_without_another_statement(world: World) -> None:
    """An idle heartbeat renews the lease and reads what it has to look after, ids included."""
    from sqlalchemy import event

    node = world.node()
    beat(world, node, times=3)
    seen: list[str] = []
    count = lambda *given: seen.append(given[2])  # noqa: E731
    event.listen(world.database.engine, "before_cursor_execute", count)
    node.heartbeat.step()
    event.remove(world.database.engine, "before_cursor_execute", count)
    asked = [each for each in seen if not each.startswith(("BEGIN", "SELECT set_config"))]
    assert len(asked) == 2, asked


@pytest.mark.parametrize(
    "known", ['{"a": {"newest": "x", "timeline": 5}}', '{"a": {"newest": null}}', "[" * 60_000, "5", "\xff"]
)
def test_a_memory_that_no_agent_wrote_is_none(tmp_path: Path, known: str) -> None:
    (tmp_path / "seen.json").write_bytes(known.encode("latin-1"))
    found = Memory.of(tmp_path, "a")
    assert (found.newest, found.timeline) == (0, None)
    found.newest = 7
    found.save()
    assert Memory.of(tmp_path, "a").newest == 7


@pytest.mark.parametrize("how", ["pipe", "link", "owner"])
def test_a_memory_of_another_account_is_not_read_and_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_text('{"a": {"newest": 7}}')
    (tmp_path / "spool").mkdir()
    seen = tmp_path / "spool" / "seen.json"
    (tmp_path / "spool" / f".seen.json.{os.getpid()}").symlink_to(precious)
    if how == "pipe":
        os.mkfifo(seen)
    elif how == "link":
        seen.symlink_to(precious)
    else:
        seen.write_text(precious.read_text())
        monkeypatch.setattr("os.geteuid", lambda: seen.stat().st_uid + 1)
    memory = Memory.of(seen.parent, "a")
    assert memory.newest == 0
    memory.newest = 8
    memory.save()
    assert precious.read_text() == '{"a": {"newest": 7}}'
    assert json.loads(seen.read_text())["a"]["newest"] == 8
