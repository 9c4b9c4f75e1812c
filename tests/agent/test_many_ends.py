"""Many runs that end at once: the database is asked as often as for one run."""

from collections.abc import Sequence

import pytest
from sqlalchemy import event, select

from dcron.model import RunState
from dcron.schema.tables import alerts, notifications
from tests.support.node import HandNode, World

MANY = 12


class Statements:
    """Counts the statements that a world's database executes."""

    def __init__(self, world: World) -> None:
        self.number = 0
        event.listen(world.database.engine, "before_cursor_execute", self._count)

    def _count(self, *_: object) -> None:
        self.number += 1


@pytest.fixture
def node(world: World) -> HandNode:
    return world.node(slots=2 * MANY)


def start(world: World, node: HandNode, number: int) -> list[int]:
    """Let these many runs become due, and start them."""
    world.clock.forward(minutes=30)
    started = node.dispatch()
    assert len(started) == number
    return started


def statements_of(
    world: World, node: HandNode, number: int, states: Sequence[RunState], **fields: object
) -> list[int]:
    """Return how many statements record one end each of so many tasks, for each of these states in turn."""
    added = [
        world.add(f"of-{number}-{each:02}", "*/30 * * * *", notify=("ops",), **fields)
        for each in range(number)
    ]
    statements = Statements(world)
    taken: list[int] = []
    for state in states:
        run_ids = start(world, node, number)
        statements.number = 0
        assert node.finish(run_ids, state) == set(run_ids)
        taken.append(statements.number)
    world.crontab.remove(*added)
    return taken


@pytest.mark.parametrize(
    ("attempts", "states"),
    [(1, [RunState.FAILED, RunState.FAILED, RunState.SUCCEEDED]), (3, [RunState.FAILED])],
    ids=["alerts", "retries"],
)
def test_many_ends_take_as_few_statements_as_one(
    world: World, node: HandNode, attempts: int, states: Sequence[RunState]
) -> None:
    one = statements_of(world, node, 1, states, tries=attempts)
    assert statements_of(world, node, MANY, states, tries=attempts) == one


def test_each_of_many_tasks_has_its_alert_and_its_notification(world: World, node: HandNode) -> None:
    for each in range(MANY):
        world.add(f"task-{each:02}", "*/30 * * * *", notify=("ops",))
    failed = start(world, node, MANY)
    node.finish(failed, RunState.FAILED)
    succeeded = start(world, node, MANY)
    node.finish(succeeded)
    with world.database.read() as connection:
        rows = connection.execute(select(notifications.c.kind, notifications.c.run_id)).all()
        is_open = connection.scalars(select(alerts.c.closed_at.is_(None))).all()
    assert sorted(rows) == sorted(
        [*(("opened", run_id) for run_id in failed), *(("closed", run_id) for run_id in succeeded)]
    )
    assert is_open == [False] * MANY
