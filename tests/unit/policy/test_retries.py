"""What follows a failure."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.model import RunState
from dcron.policy.starting import retries
from dcron.policy.starting.retries import SPREAD
from tests.support.definitions import NOON, definition

FAILED, LOST = RunState.FAILED, RunState.LOST


@pytest.mark.parametrize(
    ("state", "attempt", "fields", "again"),
    [
        (FAILED, 1, {"tries": 1}, False),
        (FAILED, 1, {"tries": 2}, True),
        (FAILED, 2, {"tries": 2}, False),
        (FAILED, 3, {"tries": 2}, False),
        (LOST, 1, {"tries": 2}, False),
        (LOST, 1, {"tries": 2, "on_lost": "retry"}, True),
        (LOST, 2, {"tries": 2, "on_lost": "retry"}, False),
        (RunState.CANCELLED, 1, {"tries": 2}, False),
        (RunState.SUCCEEDED, 1, {"tries": 2}, False),
        (RunState.SKIPPED, 1, {"tries": 2}, False),
    ],
)
def test_what_failed_is_tried_again_while_tries_are_left(
    state: RunState, attempt: int, fields: dict[str, Any], again: bool
) -> None:
    assert (retries.retry_at(definition(**fields), 1, attempt, state, NOON) is not None) is again


def test_waits_grow_by_their_factor_up_to_the_ceiling() -> None:
    growing = definition(backoff=10.0, backoff_factor=3.0, backoff_max=100.0)
    for run_id in range(50):
        first, second, third, fourth = (retries.retry_delay(growing, run_id, each) for each in (1, 2, 3, 4))
        assert 10 <= first <= 10 * (1 + SPREAD)
        assert second == pytest.approx(first * 3)
        assert 90 <= third <= 100
        assert fourth == 100


def test_what_failed_together_does_not_come_back_together() -> None:
    waits = {retries.retry_delay(definition(backoff=100.0), run_id, 1) for run_id in range(100)}
    assert len(waits) == 100
    assert max(waits) - min(waits) > 20
    assert retries.retry_delay(definition(backoff=100.0), 7, 1) in waits, "and always by the same amount"


@pytest.mark.parametrize("attempt", [1, 50, 999])
def test_the_longest_row_of_attempts_waits_no_longer_than_the_ceiling(attempt: int) -> None:
    steep = definition(backoff=1.0, backoff_factor=1000.0, backoff_max=60.0)
    assert retries.retry_delay(steep, 1, attempt) <= 60
    assert retries.retry_delay(definition(backoff=0.0, backoff_factor=1000.0), 1, attempt) == 0
    assert retries.retry_delay(definition(backoff=5.0, backoff_factor=1.0), 1, attempt) <= 5 * (1 + SPREAD)


def test_a_retry_is_counted_from_the_end_of_the_attempt_before() -> None:
    again = retries.retry_at(definition(tries=2, backoff=60.0), 1, 1, FAILED, NOON)
    assert again
    assert NOON + timedelta(seconds=60) <= again <= NOON + timedelta(seconds=75)


def test_what_was_never_begun_comes_again_however_few_tries_there_are() -> None:
    once = definition(tries=1, on_lost="dead", backoff=0.0)
    assert retries.begin_again_at(once, 1, 1, NOON) == NOON + timedelta(seconds=1)
    patient = definition(tries=3, backoff=60.0)
    assert retries.begin_again_at(patient, 7, 1, NOON) == NOON + timedelta(
        seconds=retries.retry_delay(patient, 7, 1)
    )
