"""Whether a due run may start, waits, or is left out."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.model import Block, SkipCode, Trigger
from dcron.policy.starting import admission
from dcron.policy.starting.admission import Admit, Wait
from dcron.policy.starting.skip_reasons import Skip
from tests.support.definitions import NOON, task

TURNS = (Trigger.SCHEDULE, Trigger.MANUAL, Trigger.REBOOT, Trigger.NODE)
FOLLOWED_BY_NONE = (Trigger.RETRY, Trigger.AFTER, Trigger.BACKFILL)


@pytest.mark.parametrize(
    ("max_running", "alive", "reason"),
    [
        (1, 0, None),
        (1, 1, "overlap: the previous run is still alive"),
        (3, 2, None),
        (3, 3, "overlap: 3 runs are still alive"),
        (1, 2, "overlap: 2 runs are still alive"),
        (None, 99, None),
    ],
)
def test_a_run_starts_while_fewer_are_alive_than_may_be(
    max_running: int | None, alive: int, reason: str | None
) -> None:
    admitted = admission.admit(task(max_running=max_running), Trigger.SCHEDULE, alive, in_backlog=False)
    assert admitted == (Skip(SkipCode.OVERLAP, reason) if reason else Admit())


@pytest.mark.parametrize("trigger", TURNS)
@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", Skip(SkipCode.OVERLAP, "overlap: the previous run is still alive")),
        ("queue", Wait(Block.LIMIT)),
        ("replace", Wait(Block.LIMIT, replaces=True)),
    ],
)
def test_a_run_beyond_the_limit_obeys_its_overlap(trigger: Trigger, overlap: str, expected: Any) -> None:
    assert admission.admit(task(overlap=overlap), trigger, 1, in_backlog=False) == expected


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_what_no_other_run_follows_waits(overlap: str) -> None:
    for trigger in FOLLOWED_BY_NONE:
        assert admission.admit(task(overlap=overlap), trigger, 1, in_backlog=False) == Wait(Block.LIMIT)
    event = admission.admit(task(overlap=overlap), Trigger.EVENT, 1, in_backlog=False)
    assert event == Wait(Block.LIMIT, replaces=overlap == "replace")


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_what_is_in_the_backlog_waits_and_replaces_nothing(overlap: str) -> None:
    admitted = admission.admit(task(overlap=overlap), Trigger.SCHEDULE, 1, in_backlog=True)
    assert admitted == Wait(Block.LIMIT)
    assert admission.admit(task(overlap=overlap), Trigger.SCHEDULE, 0, in_backlog=True) == Admit()


@pytest.mark.parametrize("trigger", list(Trigger))
def test_a_paused_task_starts_only_what_a_person_requests(trigger: Trigger) -> None:
    admitted = admission.admit(task(enabled=False), trigger, 0, in_backlog=False)
    assert admitted == (Admit() if trigger is Trigger.MANUAL else Wait(Block.PAUSED))


def test_a_run_is_expired_after_its_deadline_and_not_at_it() -> None:
    late = NOON + timedelta(microseconds=1)
    assert admission.expired(task(deadline=90.0), NOON, NOON) is None
    assert admission.expired(task(deadline=90.0), NOON, late) == Skip(
        SkipCode.EXPIRED, "expired: not started within 1m30s"
    )
    assert admission.expired(task(), NOON, late) == Skip(SkipCode.EXPIRED, "expired: not started in time")
    assert admission.expired(task(deadline=90.0), None, late) is None
