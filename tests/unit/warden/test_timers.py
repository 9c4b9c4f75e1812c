"""Timers call in order, once, and not after they were cancelled."""

import math
import select

import pytest

from dcron.warden.linux import IntervalTimer, boottime
from dcron.warden.timers import Timers


@pytest.fixture
def timers() -> Timers:
    """Return no timers."""
    return Timers()


def wait(timers: Timers) -> bool:
    """Wait for the alarm, for a second at most."""
    timers.arm()
    ready, _, _ = select.select([timers.fd], [], [], 1)
    return bool(ready)


def test_an_alarm_is_set_until_its_time_comes() -> None:
    alarm = IntervalTimer()
    alarm.set(boottime() + 60)
    assert alarm.is_set()
    alarm.set(boottime() - 1)
    assert not alarm.is_set()
    assert alarm.has_expired()
    assert not alarm.is_set()
    alarm.set(math.inf)
    assert alarm.is_set()
    assert not alarm.has_expired()


def test_calls_come_in_the_order_of_their_times(timers: Timers) -> None:
    called: list[str] = []
    now = boottime()
    timers.at(now + 0.03, lambda: called.append("third"))
    timers.at(now + 0.01, lambda: called.append("first"))
    timers.at(now + 0.01, lambda: called.append("second"))
    while len(called) < 3:
        assert wait(timers)
        timers.run_due()
    assert called == ["first", "second", "third"]
    assert boottime() >= now + 0.03


def test_nothing_is_called_early(timers: Timers) -> None:
    called: list[float] = []
    when = boottime() + 0.05
    timers.at(when, lambda: called.append(boottime()))
    timers.run_due()
    assert called == []
    assert wait(timers)
    timers.run_due()
    assert when <= called[0] < when + 0.5


def test_a_time_that_has_passed_is_due_at_once(timers: Timers) -> None:
    called: list[bool] = []
    timers.at(-1.0, lambda: called.append(True))
    assert wait(timers)
    timers.run_due()
    assert called == [True]


def test_a_cancelled_call_does_not_come(timers: Timers) -> None:
    called: list[str] = []
    timer = timers.at(boottime() + 0.01, lambda: called.append("cancelled"))
    timers.at(boottime() + 0.02, lambda: called.append("other"))
    timers.cancel(timer)
    timers.cancel(timer)
    timers.cancel(None)
    while not called:
        assert wait(timers)
        timers.run_due()
    assert called == ["other"]


def test_an_earlier_timer_moves_the_alarm(timers: Timers) -> None:
    called: list[str] = []
    timers.at(boottime() + 3600, lambda: called.append("late"))
    timers.arm()
    timers.at(boottime() + 0.01, lambda: called.append("early"))
    assert wait(timers)
    timers.run_due()
    assert called == ["early"]


def test_a_call_may_make_and_cancel_others(timers: Timers) -> None:
    called: list[str] = []
    other = timers.at(boottime() + 0.01, lambda: called.append("cancelled"))

    def first() -> None:
        timers.cancel(other)
        timers.at(0.0, lambda: called.append("made"))

    timers.at(0.0, first)
    assert wait(timers)
    timers.run_due()
    assert called == ["made"]


def test_cancelled_timers_do_not_pile_up(timers: Timers) -> None:
    """A run's timeout lies hours ahead; a thousand runs a second end before theirs."""
    kept = [timers.at(boottime() + 3600, lambda: None) for _ in range(10)]
    for _ in range(10_000):
        timers.cancel(timers.at(boottime() + 3600, lambda: None))
    assert len(timers._heap) < 300
    assert all(timer in timers._heap for timer in kept)
