"""The forecast of a time comes true when the dispatchers play it."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dcron import migrations
from dcron.database import open_database
from tests.simulation.forecast_day import play_days_on_sqlite
from tests.simulation.forecast_runs import KINDS, play_both

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(max(2, SEEDS // 10)))
def test_every_run_and_skip_comes_as_it_was_forecast(kind: str, seed: int, tmp_path: Path) -> None:
    """With known durations a forecast is exact, but for the fractions of a second that agents wait."""
    url = f"sqlite:///{tmp_path / 'dcron.db'}"
    database = open_database(url)
    migrations.prepare(database)
    database.close()
    forecast, played = play_both(url, kind, seed, timedelta(hours=2))
    assert forecast.skips == played.skips
    assert [task for task, _, _ in forecast.runs] == [task for task, _, _ in played.runs]
    assert times(forecast.runs) == pytest.approx(times(played.runs), abs=1.0)


def times(runs: Sequence[tuple[str, float, float]]) -> list[float]:
    """Return when each of the runs is due and when it starts."""
    return [time for _, due, start in runs for time in (due, start)]
