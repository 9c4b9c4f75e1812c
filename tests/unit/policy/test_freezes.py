"""When the crontab is frozen: freezes that overlap, and those that were thawed or withdrawn."""

from datetime import timedelta

import pytest

from dcron.model import LATE_AFTER, Freeze
from dcron.policy.conditions.lateness import is_late, late_before
from dcron.policy.starting.freezes import NEVER, FrozenTime, reason_of, state_of
from tests.support.definitions import NOON

HOUR = timedelta(hours=1)


def freeze(begin: float, end: float | None = None, thawed: float | None = None, number: int = 1) -> Freeze:
    """Return a freeze between these hours after noon."""
    times = [None if each is None else NOON + each * HOUR for each in (end, thawed)]
    return Freeze(
        id=number,
        from_at=NOON + begin * HOUR,
        until_at=times[0],
        reason="upgrade",
        selector=None,
        created_at=NOON,
        created_by="ann@desk",
        thawed_at=times[1],
        thawed_by=None,
    )


@pytest.mark.parametrize(
    ("each", "state"),
    [
        (freeze(0), "active"),
        (freeze(0, 1), "active"),
        (freeze(0, 0.5), "over"),
        (freeze(1, 2), "planned"),
        (freeze(1, 2, thawed=0.4), "over"),
        (freeze(0, 2, thawed=0.5), "over"),
    ],
)
def test_the_state_of_a_freeze(each: Freeze, state: str) -> None:
    assert state_of(each, NOON + 0.5 * HOUR) == state


def test_overlapping_freezes_count_once() -> None:
    frozen = FrozenTime([freeze(1, 3), freeze(2, 4, number=2), freeze(6, 9, thawed=7, number=3)])
    assert frozen.between(NOON, NOON + 10 * HOUR) == 4 * HOUR
    assert frozen.between(NOON + 2 * HOUR, NOON + 3 * HOUR) == HOUR
    assert frozen.end_after(NOON + HOUR) == NOON + 4 * HOUR
    assert frozen.end_after(NOON) == NOON
    holding = frozen.at(NOON + 2.5 * HOUR)
    assert holding
    assert holding.id == 2
    assert frozen.at(NOON + 4 * HOUR) is None


def test_a_freeze_without_an_end_lasts() -> None:
    frozen = FrozenTime([freeze(1)])
    assert frozen.end_after(NOON + 2 * HOUR) is None
    assert frozen.between(NOON, NOON + 5 * HOUR) == 4 * HOUR
    assert frozen.reason_at(NOON + 2 * HOUR) == "frozen by ann@desk: upgrade" == reason_of(freeze(1))


def test_a_time_that_was_mostly_frozen_has_its_freeze() -> None:
    frozen = FrozenTime([freeze(1, 3)])
    assert frozen.mostly(NOON + HOUR, NOON + HOUR)
    assert frozen.mostly(NOON, NOON + 4 * HOUR)
    assert frozen.mostly(NOON, NOON + 5 * HOUR) is None
    assert FrozenTime().mostly(NOON, NOON + HOUR) is None


def test_frozen_time_is_not_waited() -> None:
    frozen = FrozenTime([freeze(1, 3), freeze(2, 4, number=2), freeze(5, thawed=6, number=3)])
    now = NOON + 7 * HOUR
    assert frozen.waited(NOON, now) == 3 * HOUR
    assert frozen.waited(NOON + 3.5 * HOUR, now) == 2 * HOUR
    assert frozen.waited(now + HOUR, now) == timedelta(0)
    for halves in range(1, 10):
        wait = halves * HOUR / 2
        since = frozen.waiting_since(wait, now)
        assert frozen.waited(since, now) == wait
        assert frozen.waited(since - timedelta(microseconds=1), now) > wait


def test_runs_are_late_before_a_time_unless_a_freeze_holds_them_back() -> None:
    frozen = FrozenTime([freeze(1, 3)])
    assert late_before(NOON + 2 * HOUR, frozen) is None
    assert not is_late(NOON, NOON + 2 * HOUR, frozen)
    assert late_before(NOON + 3 * HOUR, frozen) == NOON + HOUR - LATE_AFTER
    assert late_before(NOON + 2 * HOUR, NEVER) == NOON + 2 * HOUR - LATE_AFTER
