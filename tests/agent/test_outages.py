"""Agents record outages of the database that lasted for half of the lease, and the doctor compares them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dcron.agent.lease import Fenced
from dcron.errors import DatabaseError
from dcron.presentation.doctor import Finding
from dcron.services.doctor import fleet
from dcron.services.doctor.service import Doctor
from dcron.store.nodes import outages
from dcron.store.nodes.outages import Outage
from tests.support.node import NINE, HandNode, World


def away(world: World, node: HandNode, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Let the node try in vain for so long, and reach the database again."""
    with monkeypatch.context() as patched:

        @contextmanager
        def refusing(**_: Any) -> Iterator[None]:
            raise DatabaseError("the database is away")
            yield

        patched.setattr(node.database, "write", refusing)
        for _ in range(seconds // 10):
            world.clock.forward(seconds=10)
            with pytest.raises(DatabaseError):
                node.heartbeat.step()
    node.heartbeat.step()


def seen(world: World) -> list[tuple[str, float]]:
    with world.database.read() as connection:
        now = world.database.now(connection)
        return [(each.node_id, each.seconds) for each in outages.since(connection, now.replace(year=2000))]


def test_an_outage_of_half_a_lease_is_recorded_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, other = world.node("web-1", lease=60), world.node("web-2", lease=60)
    for each in (node, other):
        each.heartbeat.step()
    away(world, node, monkeypatch, 20)
    assert seen(world) == [], "too short"
    away(world, node, monkeypatch, 40)
    assert seen(world) == [(node.id, 40.0)]
    other.counters.contact.has_failed = True
    other.heartbeat.step()
    assert seen(world) == [(node.id, 40.0)], "the same outage"
    away(world, other, monkeypatch, 50)
    assert seen(world) == [(other.id, 50.0), (node.id, 40.0)]


def test_a_node_that_only_stood_still_has_seen_no_outage(world: World) -> None:
    node = world.node(lease=60)
    node.heartbeat.step()
    world.clock.forward(seconds=50)
    node.heartbeat.step()
    assert seen(world) == []


def test_a_node_declared_dead_records_it_under_its_new_id(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, other = world.node("web-1", lease=60), world.node("web-2", lease=60)
    for each in (node, other):
        each.heartbeat.step()
    with monkeypatch.context() as patched:
        patched.setattr(node.lease, "beat", fails)
        with pytest.raises(DatabaseError):
            node.heartbeat.step()
    world.watch(other, 100)
    with pytest.raises(Fenced):
        node.heartbeat.step()
    assert seen(world) == []
    again = world.node("web-1", lease=60)
    again.counters.contact = node.counters.contact  # one agent, another node
    again.heartbeat.step()
    assert seen(world) == [(again.id, 100.0)]


def fails(*_: object) -> None:
    raise DatabaseError("the database is away")


def found(world: World, lease: float, *lengths: float) -> list[Finding]:
    """Return what the doctor says of outages of these lengths."""
    world.node(lease=lease)
    lengths_of = [Outage(NINE, f"web-{number}", each) for number, each in enumerate(lengths)]
    return list(fleet.examine_leases(world.crontab.nodes(), lengths_of))


def test_an_outage_far_shorter_than_the_lease_is_no_finding(world: World) -> None:
    assert found(world, 60, 39.0) == []


def test_an_outage_near_the_end_of_the_lease_is_a_warning(world: World) -> None:
    (finding,) = found(world, 60, 31.0, 45.0)
    assert finding.code == "lease"
    assert "could not renew their leases of 1m 0s for up to 45s (web-1, until 2026-11-20 09:00 UTC" in (
        finding.problem
    )
    assert "1 outage in the last 90 days" in finding.problem
    assert finding.effect.startswith("a little longer")
    assert "--lease 90s" in finding.advice


def test_of_outages_that_ended_commands_the_longest_decides(world: World) -> None:
    (finding,) = found(world, 60, 130.0, 51.0, 45.0)
    assert finding.effect.startswith("2 times the commands")
    assert "--lease 210s" in finding.advice
    assert list(finding.subjects) == ["web-0", "web-1", "web-2"]


def test_an_outage_of_many_minutes_is_no_reason_for_such_a_lease(world: World) -> None:
    (finding,) = found(world, 60, 1200.0)
    assert "--lease" not in finding.advice
    assert "--on-disconnect keep" in finding.advice
    assert "dcron freeze" in finding.advice


def test_the_doctor_reads_what_agents_have_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.node(lease=60)
    node.heartbeat.step()
    away(world, node, monkeypatch, 50)
    assert "lease" in [each.code for each in Doctor(world.database).examine()]
    world.clock.forward(days=91)
    node.heartbeat.step()
    assert "lease" not in [each.code for each in Doctor(world.database).examine()]
