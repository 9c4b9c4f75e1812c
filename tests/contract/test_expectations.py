"""What a task expects of its runs, by its own field and by the settings."""

from datetime import timedelta
from typing import Any

import pytest

from dcron.errors import UsageError
from dcron.fields import FIELDS
from dcron.fields.expectations import EXPECT, runtime_bounds
from dcron.model import AlertKind, Definition
from dcron.policy.conditions.rules import AGAIN, Rules, bounds_of, learned_bounds, rules_of
from tests.support.stage import NOON


def task(**fields: Any) -> Definition:
    return Definition(name="backup", schedule="@daily", timezone="UTC", command="true", **fields)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("start=15m", {"start": 900.0}),
        ("start=none", {"start": "none"}),
        ("runtime=90s..2h", {"runtime": "1m30s..2h"}),
        ("runtime=..1h", {"runtime": "..1h"}),
        ("runtime=2m..", {"runtime": "2m.."}),
        ("runtime=auto", {"runtime": "auto"}),
        ("success=26h", {"success": 93_600.0}),
    ],
)
def test_expectations_are_read_and_written(typed: str, value: dict[str, Any]) -> None:
    kind = FIELDS["expect"].kind
    assert EXPECT.parse([typed]) == value
    assert EXPECT.parse([kind.format(value)]) == value
    assert kind.read(kind.write(value)) == value
    assert kind.problem(value) is None


@pytest.mark.parametrize(
    "typed",
    [
        "start",
        "start=x",
        "start=0s",
        "speed=1s",
        "runtime=1h",
        "runtime=..",
        "runtime=2h..1h",
        "runtime=x..y",
    ],
)
def test_a_bad_expectation_is_refused(typed: str) -> None:
    with pytest.raises(UsageError):
        EXPECT.parse([typed])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("notify", ("Ops",)),
        ("notify", ("none", "ops")),
        ("notify", ("ops", "ops")),
        ("notify", ("mailto:",)),
        ("notify", ("mailto:a b@c",)),
        ("notify", ("mailto:-f@c",)),
        ("notify", ("mailto:|/bin/sh",)),
        ("notify", ("mailto:/etc/passwd",)),
        ("notify", ("mailto::include:/etc/shadow",)),
        ("notify", ("mailto:a@b\nBcc: x",)),
        ("notify", ("mailto:a@b@c",)),
        ("notify", ("mailto:=?utf-8?q?x?=",)),
        ("notify", tuple(f"c{number}" for number in range(11))),
        ("notify_on", ("failed",)),
        ("notify_on", ("late", "late")),
        ("notify_after", 0),
        ("notify_after", 1001),
        ("expect", {"start": "15m"}),
        ("expect", {"runtime": 5}),
        ("expect", {"success": None}),
        ("expect", {"pace": 1.0}),
    ],
)
def test_a_bad_value_is_a_problem(name: str, value: Any) -> None:
    assert FIELDS[name].kind.problem(value)


@pytest.mark.parametrize("value", [("none",), ("ops", "mailto:ann@example.org"), ("mailto:root",), ()])
def test_a_good_channel_is_none(value: tuple[str, ...]) -> None:
    assert FIELDS["notify"].kind.problem(value) is None


def test_defaults() -> None:
    rules = rules_of({}, task())
    assert rules == Rules() == rules_of({})
    assert (rules.channels_for("failing"), rules.start, rules.success, rules.after) == ((), 600.0, None, 1)


def test_a_task_says_more_than_the_settings() -> None:
    known = {"notify.default": ["ops"], "notify.after": 5, "expect.start": 60.0, "expect.success": 3600.0}
    own = task(notify=("web",), notify_after=2, notify_on=("late",), expect={"start": "none"})
    rules = rules_of(known, own)
    assert (rules.channels, rules.after, rules.start, rules.success) == (("web",), 2, None, 3600.0)
    assert rules.channels_for(AlertKind.LATE) == ("web",)
    assert rules.channels_for(AlertKind.FAILING) == ()
    assert rules_of(known, task()).channels == ("ops",)
    assert rules_of(known, task(notify=("none",))).channels == ()


@pytest.mark.parametrize("bad", [5, "x", None, [5], {"a": 1}, ["Ops"], True, float("nan")])
@pytest.mark.parametrize(
    "name",
    ["notify.default", "notify.on", "notify.after", "expect.start", "expect.runtime", "expect.success"],
)
def test_a_setting_written_by_hand_is_ignored_if_it_is_not_valid(name: str, bad: Any) -> None:
    rules = rules_of({name: bad}, task())
    assert rules in (Rules(), Rules(after=5), Rules(start=5.0), Rules(success=5.0))


def test_reminders() -> None:
    assert Rules(channels=("ops",)).remind_at(NOON) == NOON + timedelta(seconds=AGAIN)
    assert Rules(channels=("ops",), again=None).remind_at(NOON) is None
    assert Rules().remind_at(NOON) is None


def test_runtimes() -> None:
    assert runtime_bounds("2m..1h") == (120.0, 3600.0)
    assert bounds_of("..90s") == (None, 90.0)
    assert bounds_of(None) == (None, None)
    assert learned_bounds([30.0] * 9) == (None, None)
    assert learned_bounds([30.0] * 50) == (10.0, 90.0)
    assert learned_bounds([1.0] * 50) == (1 / 3, 60.0)
