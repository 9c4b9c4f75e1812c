"""When a lease of another node is over, whatever the wall clock does meanwhile."""

from datetime import UTC, datetime, timedelta

import pytest

from dcron.agent.lease import OtherLeases
from dcron.store.upkeep.reaping import HeldLease

NINE = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PATIENCE = 20.0


def at(seconds: float) -> datetime:
    return NINE + timedelta(seconds=seconds)


def over(
    others: OtherLeases, leases: dict[str, datetime], now: datetime, moment: float
) -> dict[str, datetime]:
    """The same of nodes that do not say how long their leases last."""
    return others.over({node: HeldLease(until) for node, until in leases.items()}, now, moment)


def watch(others: OtherLeases, leases: dict[str, datetime], since: float, moment: float) -> None:
    """Look at each beat until shortly before `moment`; none of the leases runs out meanwhile."""
    for beat in range(int(since) + 10, int(moment), 10):
        assert over(others, leases, at(beat - 1000), beat) == {}


def test_a_lease_is_over_once_the_time_it_had_left_has_passed() -> None:
    others = OtherLeases(PATIENCE)
    lease = {"web-1": at(60)}
    assert over(others, lease, at(0), 1000.0) == {}
    watch(others, lease, 1000, 1060)
    assert over(others, lease, at(59.9), 1059.9) == {}
    assert over(others, lease, at(60), 1060.0) == lease


def test_a_renewed_lease_counts_from_when_it_was_seen() -> None:
    others = OtherLeases(PATIENCE)
    over(others, {"web-1": at(60)}, at(0), 1000.0)
    watch(others, {"web-1": at(60)}, 1000, 1060)
    watch(others, {"web-1": at(115)}, 1045, 1115)
    assert over(others, {"web-1": at(115)}, at(114), 1114.0) == {}
    assert over(others, {"web-1": at(115)}, at(115), 1115.0) == {"web-1": at(115)}


def test_a_clock_set_forward_ends_no_lease() -> None:
    others = OtherLeases(PATIENCE)
    over(others, {"web-1": at(60), "web-2": at(58)}, at(0), 1000.0)
    # A second later it is five minutes later; one of the two has not renewed its lease yet.
    seen = {"web-1": at(60), "web-2": at(361)}
    assert over(others, seen, at(301), 1001.0) == {}
    for beat in range(1010, 1060, 10):
        assert over(others, seen, at(beat - 700), beat) == {}
    assert over(others, seen, at(360), 1060.0) == {"web-1": at(60)}
    assert over(others, {"web-2": at(361)}, at(361), 1061.0) == {"web-2": at(361)}


def test_a_clock_set_back_keeps_no_dead_node_alive() -> None:
    others = OtherLeases(PATIENCE)
    over(others, {"web-1": at(60)}, at(0), 1000.0)
    for beat in range(1010, 1060, 10):
        assert over(others, {"web-1": at(60)}, at(beat - 1300), beat) == {}
    assert over(others, {"web-1": at(60)}, at(-240), 1060.0) == {"web-1": at(60)}


def test_a_lease_that_looks_over_at_first_sight_is_watched_for_a_while() -> None:
    others = OtherLeases(PATIENCE)
    lease = {"web-1": at(-3600)}
    assert over(others, lease, at(0), 1000.0) == {}
    assert over(others, lease, at(19), 1019.0) == {}
    assert over(others, lease, at(20), 1020.0) == lease


def test_who_has_no_time_to_watch_believes_the_clock() -> None:
    others = OtherLeases(0.0)
    leases = {"web-1": at(-1), "web-2": at(1)}
    assert over(others, leases, at(0), 1000.0) == {"web-1": at(-1)}


def test_after_an_outage_each_lease_is_watched_anew() -> None:
    """No node could renew its lease while the database was away; the first that is back must wait."""
    others = OtherLeases(PATIENCE)
    leases = {"web-1": at(60), "web-2": at(55)}
    over(others, leases, at(0), 1000.0)
    watch(others, leases, 1000, 1020)
    assert over(others, leases, at(300), 1300.0) == {}
    assert over(others, leases, at(310), 1310.0) == {}
    back = {"web-1": at(371), "web-2": at(55)}
    assert over(others, back, at(319), 1319.0) == {}
    assert over(others, back, at(320), 1320.0) == {"web-2": at(55)}


def test_nodes_that_are_gone_are_forgotten() -> None:
    others = OtherLeases(PATIENCE)
    over(others, {"web-1": at(60)}, at(0), 1000.0)
    over(others, {}, at(10), 1010.0)
    over(others, {}, at(30), 1030.0)
    over(others, {}, at(50), 1050.0)
    assert over(others, {"web-1": at(60)}, at(70), 1070.0) == {}


def test_a_lease_that_ends_impossibly_late_lasts_one_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = OtherLeases(PATIENCE)
    lease = {"web-1": HeldLease(at(3660), 60.0)}  # renewed before the machine came up with its clock behind
    assert others.over(lease, at(0), 1000.0) == {}
    assert "the clock was set back, or was ahead" in caplog.text
    for beat in range(1010, 1060, 10):
        assert others.over(lease, at(beat - 1000), beat) == {}
    assert others.over(lease, at(59), 1059.0) == {}
    assert others.over(lease, at(60), 1060.0) == {"web-1": at(3660)}
    assert len(caplog.records) == 1
