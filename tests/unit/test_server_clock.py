"""The clock of a Postgres server as this machine knows it between two readings."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dcron.database import server_clock
from dcron.database.server_clock import ServerClock

NINE = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


class Machine:
    """This machine's clock that cannot be set."""

    seconds = 1000.0

    def read(self, _: int) -> float:
        return self.seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(server_clock, "clock_gettime", machine.read)
    return machine


def test_without_a_reading_the_time_is_unknown(machine: Machine) -> None:
    assert ServerClock().now() is None


def test_the_time_is_the_reading_and_what_has_passed_here(machine: Machine) -> None:
    clock = ServerClock()
    assert clock.read(NINE.astimezone(timezone(timedelta(hours=5)))) == NINE
    machine.seconds += 1.5
    now = clock.now()
    assert now == NINE + timedelta(seconds=1.5)
    assert now.tzinfo is UTC


def test_a_reading_is_stale_after_two_seconds(machine: Machine) -> None:
    clock = ServerClock()
    clock.read(NINE)
    machine.seconds += 1.999
    assert clock.now() is not None
    machine.seconds += 0.001
    assert clock.now() is None
    clock.read(NINE)
    assert clock.now() == NINE


def test_a_forgotten_reading_is_not_used(machine: Machine) -> None:
    clock = ServerClock()
    clock.read(NINE)
    clock.forget()
    assert clock.now() is None


def test_a_server_whose_clock_goes_back_is_followed_at_once(machine: Machine) -> None:
    clock = ServerClock()
    clock.read(NINE)
    machine.seconds += 1
    clock.read(NINE - timedelta(hours=1))
    machine.seconds += 1
    assert clock.now() == NINE - timedelta(hours=1) + timedelta(seconds=1)
