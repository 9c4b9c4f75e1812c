"""The forecast of a time comes true when the dispatchers play it."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation.forecast_day import play_days_on_sqlite

SEEDS = int(os.environ.get("DCRON_TEST_SEEDS", "3"))
HOURS = 24
CLOSE = 2.0


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, max(1, SEEDS // 10)))
def test_the_longest_wait_is_predicted_within_a_factor_of_two(first: int) -> None:
    seeds = range(first, SEEDS, max(1, SEEDS // 10))
    for seed, day in play_days_on_sqlite(seeds, timedelta(hours=HOURS)):
        assert day.factor <= CLOSE, (seed, day)
        assert day.starts_predicted == pytest.approx(day.starts_played, rel=0.1), (seed, day)


def test_a_wrong_forecast_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds a forecast that does not know the slots."""
    monkeypatch.setattr(
        "dcron.services.forecast._nodes",
        lambda living, *_: [replace(node, slots=1) for node in living],
    )
    assert any(day.factor > CLOSE for _, day in play_days_on_sqlite(range(1), timedelta(hours=HOURS)))
