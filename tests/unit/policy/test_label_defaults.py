"""Settings for tasks with certain labels."""

import pytest

from dcron.errors import UsageError
from dcron.policy.conditions.rules import rules_of
from dcron.settings.labels import applying
from dcron.settings.registry import find
from dcron.values.unreadable import Unreadable
from tests.support.definitions import definition

STORED = {
    "notify.default": ["ops"],
    "notify.default[team=shop]": ["ops-shop"],
    "notify.default[team=shop,tier=gold]": ["pager"],
    "notify.default[app=x]": ["ops-x"],
    "expect.success[tier=gold]": 3600,
    "notify.after[team=shop]": 3,
}


def test_most_labels_win_and_ties_go_by_name() -> None:
    channels = {
        (): ("ops",),
        (("team", "shop"),): ("ops-shop",),
        (("team", "shop"), ("tier", "gold")): ("pager",),
        (("team", "shop"), ("app", "x")): ("ops-x",),
        (("team", "api"), ("tier", "gold")): ("ops",),
    }
    for labels, expected in channels.items():
        assert rules_of(STORED, definition(labels=dict(labels))).channels == expected
    assert applying(STORED, {"team": "shop"}) == {
        "notify.default": "notify.default[team=shop]",
        "notify.after": "notify.after[team=shop]",
    }


def test_what_a_task_says_itself_comes_first() -> None:
    rules = rules_of(
        STORED, definition(labels={"team": "shop", "tier": "gold"}, notify=("mine",), notify_after=2)
    )
    assert (rules.channels, rules.after, rules.success) == (("mine",), 2, 3600.0)
    assert rules_of(STORED).success is None
    assert rules_of(STORED, definition(labels=Unreadable("x"))).channels == ("ops",)


def test_a_setting_for_labels_is_found_and_checked() -> None:
    setting = find("notify[tier=gold,team=shop]")
    assert setting.name == "notify.default[team=shop,tier=gold]"
    assert setting.read("a,b") == ["a", "b"]
    assert find("expect.start[team=shop]").read("5m") == 300
    assert find("keep.runs[team=shop]").read("90d") == 90 * 86_400
    for name, message in (
        ("keep.events[team=shop]", "keep.events: labels are possible with notify.default"),
        ("notify[Team=x]", "'Team' is not a label's key"),
        ("notify[]", "is not a label"),
        (f"notify[{','.join(f'{each}=' + 'x' * 30 for each in 'abcd')}]", "at most 100"),
    ):
        with pytest.raises(UsageError, match=message):
            find(name)
