"""Selectors: what their texts mean."""

import pytest

from dcron.errors import UsageError
from dcron.policy.selectors import MOST_PARTS, Requirement, Selector

SHOP = {"team": "shop", "tier": "gold", "app": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        *(("team=shop", True), ("team==shop", True), ("team=api", False), ("nope=shop", False)),
        *(("tier!=gold", False), ("tier != bronze", True), ("nope!=x", True)),
        *(
            ("app", True),
            ("nope", False),
            ("!app", False),
            ("! nope", True),
            ("app=", True),
            ("team=", False),
        ),
        *(("team in (api, shop)", True), ("team in (api)", False), ("team notin (api,web)", True)),
        *(("nope notin (a)", True), ("nope in (a)", False), ("app in ()", True)),
        *(("team=shop,tier!=bronze, app", True), ("team=shop,team=api", False)),
        ("team in (a,shop),tier=gold,!legacy", True),
    ],
)
def test_a_selector_chooses_tasks_by_their_labels(text: str, matches: bool) -> None:
    assert Selector.parse(text).matches(SHOP) is matches


def test_a_selector_is_written_as_it_is_read() -> None:
    text = "team=shop,tier!=gold,app,!legacy,team in (a,b),x notin (c,d),empty="
    assert str(Selector.parse(text)) == text
    assert Selector.parse(" team == shop , app,app") == Selector.parse("team=shop,app")
    assert Selector.parse("team in (shop)").parts == (Requirement("team", ("shop",)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(("", "'' is not a part of a selector; write team=shop"), ("team=shop,", "'' is not a part")),
        *(("Team=shop", "'Team' is not a label's key"), ("team=ä", "'ä' is not a label's value")),
        *(("team=a b", "is not a part"), ("team in a,b", "'team in a' is not a part"), ("=x", "not a part")),
        *(("team in (a", "is not a part"), ("!team=x", "is not a part"), ("team>5", "is not a label's key")),
        (",".join(f"k{number}" for number in range(MOST_PARTS + 1)), "a selector of 21 parts"),
        ("x" * 3000, "a selector of 3,000 characters"),
    ],
)
def test_a_bad_selector_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(UsageError) as failure:
        Selector.parse(text)
    assert message in str(failure.value)


def test_labels_that_cannot_be_read_are_none() -> None:
    assert not Selector.parse("team").matches(None)
    assert Selector.parse("!team").matches([5])
