"""One heartbeat renews the node's own lease, and does what any node does for all."""

import logging

import pytest

from dcron.errors import DatabaseError
from dcron.warden.client import Finished
from tests.support.node import World


def test_what_fails_for_others_does_not_cost_the_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that fell silent may hold the rows of a dead node locked for long."""
    node, silent = world.node("web-1", lease=60), world.node("web-2", lease=60)
    for each in (node, silent):
        each.heartbeat.step()

    def refuse(*_: object) -> None:
        raise DatabaseError("canceling statement due to lock timeout")

    failed = 0
    with monkeypatch.context() as patched:
        patched.setattr("dcron.agent.upkeep.reaping.reap", refuse)
        for _ in range(24):
            world.clock.forward(seconds=10)
            try:
                node.heartbeat.step()
            except DatabaseError:
                failed += 1
            assert node.lease.left > 0
    assert failed > 3
    world.watch(node, 20)
    assert {each.id for each in world.crontab.nodes() if each.died_at} == {silent.id}


def test_the_log_names_commands_that_end_with_the_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The database is away, so nothing else can say it."""
    node = world.node()
    node.warden.end(7)
    (done,) = node.warden.reports
    assert isinstance(done, Finished)
    node.warden.reports = [done, Finished(8, done.result._replace(run_id=8, reason="lease"))]
    with caplog.at_level(logging.WARNING):
        node.receiver.receive(0.0)
    assert caplog.messages == ["the lease was not renewed in time: ended run 8"]
