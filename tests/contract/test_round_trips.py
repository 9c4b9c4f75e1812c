"""How many round trips to Postgres an agent's acts take, counted on the wire."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from dcron.database import Database, open_database
from tests.support.node import HandNode, StandingClock, World

pytestmark = pytest.mark.parametrize("database_url", ["postgres"], indirect=True)

WARM = 8
"""Rounds after which the driver has prepared all statements."""
LOOK, CLAIM, FINISH, BEAT = 1, 2, 2, 3
"""A heartbeat of an agent needs one more: here the clock does not move and is not read."""


class Wire:
    """What the connections of a database have sent, as libpq records it."""

    def __init__(self, database: Database, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        event.listen(database.engine, "connect", self._record)

    def _record(self, connection: Any, _: object) -> None:
        connection.pgconn.trace(self._file)

    def _messages(self) -> list[list[str]]:
        return [line.split("\t") for line in self._path.read_text().splitlines()]

    def trips(self, do: Callable[[], object]) -> int:
        """How many times `do` waits for the server."""
        before = len(self._messages())
        do()
        sent = [fields for fields in self._messages()[before:] if "F" in fields[:2]]
        return sum(not {"Sync", "Query"}.isdisjoint(fields) for fields in sent)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    clock = StandingClock()
    database = open_database(database_url, clock=clock)
    yield World(database, clock)
    database.close()


@pytest.fixture
def wire(world: World, tmp_path: Path) -> Wire:
    wire = Wire(world.database, tmp_path / "wire")
    world.database.close()
    return wire


@pytest.fixture
def node(world: World, wire: Wire) -> HandNode:
    """A node whose statements are all prepared, with two tasks that have just become due."""
    for name in ("a", "b"):
        world.add(name)
    node = world.node()
    for _ in range(WARM):
        world.clock.forward(minutes=1)
        node.end(*node.dispatch())
        node.recorder.step()
        node.heartbeat.step()
    world.clock.forward(minutes=1)
    return node


def test_a_step_claims_and_starts_runs_in_few_round_trips(node: HandNode, wire: Wire) -> None:
    assert wire.trips(node.dispatcher.step) <= LOOK + CLAIM
    assert len(node.launched) == 2 * (WARM + 1)


def test_a_run_that_is_due_soon_after_a_claim_needs_no_look(world: World, node: HandNode, wire: Wire) -> None:
    world.add("soon", "@every 1s", max_running=None)
    world.clock.forward(seconds=0.5)
    node.dispatch()
    assert node.dispatcher.step() == pytest.approx(0.5)
    world.clock.forward(seconds=0.5)
    assert wire.trips(node.dispatcher.step) <= CLAIM
    assert node.launched[-1].env["DCRON_TASK"] == "soon"


def test_a_step_that_finds_nothing_is_one_round_trip(node: HandNode, wire: Wire) -> None:
    node.dispatch()
    assert wire.trips(node.dispatcher.step) <= LOOK


def test_the_ends_of_runs_are_recorded_in_few_round_trips(node: HandNode, wire: Wire) -> None:
    node.end(*node.dispatch())
    assert wire.trips(node.recorder.step) <= FINISH


def test_a_heartbeat_takes_few_round_trips(node: HandNode, wire: Wire) -> None:
    node.dispatch()
    assert wire.trips(node.heartbeat.step) <= BEAT
