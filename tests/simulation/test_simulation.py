"""A few of the many histories that `python -m tests.simulation` plays, on both databases."""

import os

import pytest

from dcron.store.runs.candidates import Alive
from tests.simulation.playing import Failed, play, play_on_sqlite

SEEDS = int(os.environ.get("DCRON_TEST_SEEDS", "60"))
CHUNK = 10
STEPS = 60
MORE_STEPS = 150


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_whatever_happens_in_whatever_order_everything_holds(first: int) -> None:
    played, starts = play_on_sqlite(range(first, first + CHUNK), STEPS)
    assert played == CHUNK
    assert starts > CHUNK * 40


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_same_holds_on_postgres(database_url: str) -> None:
    assert len(play(database_url, seed=SEEDS + 1, steps=2 * MORE_STEPS).ledger) > 20


def test_one_seed_is_one_history(tmp_path_factory: pytest.TempPathFactory) -> None:
    twice = [play(f"sqlite:///{tmp_path_factory.mktemp('seed') / 'x.db'}", 7, 60) for _ in range(2)]
    assert twice[0].trace == twice[1].trace
    assert len(twice[0].trace) > 20


def test_a_broken_rule_is_noticed_and_its_trace_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classic mistake: the limit is forgotten."""
    monkeypatch.setattr("dcron.store.runs.candidates._alive", lambda *_: Alive())
    with pytest.raises(Failed, match=r"commands of \w+ are alive(?s:.)*replay it with"):
        play_on_sqlite(range(5), MORE_STEPS)
