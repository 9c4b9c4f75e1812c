"""An end whose COMMIT is not answered is recorded once, and counted and reported once."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from dcron.errors import OutcomeUnknown
from dcron.model import RunState
from tests.support.node import HandNode, World


@pytest.fixture
def node(world: World) -> HandNode:
    return world.node()


def lose_the_next_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction of the recorder be committed, and its connection break then."""
    write = world.database.write

    @contextmanager
    def unanswered() -> Iterator[Connection]:
        monkeypatch.setattr(world.database, "write", write)
        with write() as connection:
            yield connection
        raise OutcomeUnknown("lost the database during a commit")

    monkeypatch.setattr(world.database, "write", unanswered)


def begin(world: World, node: HandNode) -> int:
    world.add("dump", "*/30 * * * *")
    world.clock.forward(minutes=30)
    [run_id] = node.dispatch()
    node.end(run_id)
    return run_id


def test_an_end_that_was_committed_after_all_counts_as_recorded(
    world: World, node: HandNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run_id = begin(world, node)
    lose_the_next_answer(world, monkeypatch)
    with pytest.raises(OutcomeUnknown):
        node.recorder.step()
    assert "is not recorded" not in caplog.text
    node.recorder.step()
    assert world.run(run_id).state is RunState.SUCCEEDED
    assert f"run {run_id} of dump: succeeded" in caplog.text
    assert "is not recorded" not in caplog.text
    assert node.counters.finished[RunState.SUCCEEDED] == 1
    assert node.recorder.is_settled


def test_an_end_that_another_has_taken_is_still_reported(
    world: World, node: HandNode, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = begin(world, node)
    node.finish([run_id], RunState.CANCELLED)
    node.recorder.step()
    assert f"run {run_id}: its end (succeeded) is not recorded, it is no longer ours" in caplog.text
    assert node.counters.finished[RunState.SUCCEEDED] == 0
