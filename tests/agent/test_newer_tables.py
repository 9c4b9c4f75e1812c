"""What a node does once its tables are of a newer release: it takes nothing new and keeps what it runs."""

from sqlalchemy import event, text

from dcron.migrations import VERSION_TABLE
from dcron.model import RunState
from tests.support.node import World


def upgrade(world: World) -> None:
    world.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))


def test_nothing_is_claimed_from_newer_tables(world: World) -> None:
    world.add("tick")
    node = world.node()
    world.clock.forward(minutes=1)
    upgrade(world)
    assert node.dispatch() == []
    assert node.dispatcher.closed
    assert [run.state for run in world.runs()] == [RunState.WAITING]


def test_a_beat_on_newer_tables_renews_the_lease_and_does_nothing_else(world: World) -> None:
    other = world.node("other")
    node = world.node("web-1")
    upgrade(world)
    world.clock.forward(seconds=30)
    node.heartbeat.step()
    world.clock.forward(minutes=10)
    node.heartbeat.step()
    assert (node.lease.tables, node.lease.has_other_tables) == ("9999", True)
    assert not node.lease.draining
    with world.database.read() as connection:
        died = {row.id: row.died_at for row in connection.execute(text("SELECT id, died_at FROM nodes"))}
        until = connection.scalar(text("SELECT count(DISTINCT alive_until) FROM nodes"))
    assert died == {node.id: None, other.id: None}
    assert until == 2


def test_the_version_of_the_tables_costs_an_idle_node_no_statement(world: World) -> None:
    node = world.node()
    seen: list[str] = []
    event.listen(world.database.engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
    node.heartbeat.step()
    assert len([statement for statement in seen if VERSION_TABLE in statement]) == 1
    assert all(statement.startswith("UPDATE nodes") for statement in seen if VERSION_TABLE in statement)
