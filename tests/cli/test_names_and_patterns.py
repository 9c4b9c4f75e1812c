"""Verbs that take several names, and patterns such as `shop-*`."""

import pytest

from tests.support.agents import run_once
from tests.support.cli import Dcron


@pytest.fixture
def shop(dcron: Dcron) -> Dcron:
    """Three tasks, which failed once each."""
    for name in ("shop-a", "shop-b", "other"):
        dcron.done("add", "-n", name, "@yearly", "exit 3")
    run_once(dcron, "shop-a", "shop-b", "other")
    return dcron


def test_verbs_that_read_take_several_names_and_patterns(shop: Dcron) -> None:
    for words, expected in (
        (["shop-*"], {"shop-a", "shop-b"}),
        (["other", "shop-[b-z]"], {"shop-b", "other"}),
        (["shop-a", "oth"], {"shop-a", "other"}),
    ):
        for verb in ("runs", "dead", "alerts"):
            assert {each["task"] for each in shop(verb, *words, "--json").json} == expected, verb
        for verb in ("list", "view", "stats", "history"):
            assert {each["name"] for each in shop(verb, *words, "--json").json} == expected, verb
        exported = shop.done("export", *words).out
        assert {name for name in ("shop-a", "shop-b", "other") if f"name={name}\n" in exported} == expected


def test_one_name_as_it_was_typed_is_one_document_and_a_pattern_a_list(shop: Dcron) -> None:
    assert shop.done("view", "other", "--json").json["name"] == "other"
    assert [each["name"] for each in shop.done("view", "oth*", "--json").json] == ["other"]
    run = shop.done("runs", "other", "--json").json[0]["id"]
    assert shop.done("view", str(run), "--json").json["id"] == run
    both = shop.done("view", str(run), "shop-a", "--json").json
    assert (both[0]["id"], both[1]["name"]) == (run, "shop-a")
    shown = shop.done("view", str(run), "shop-a").out
    assert shown.count("\n\n") == 1
    assert shown.startswith(f"run        {run}\n") or f"{run}" in shown.splitlines()[0]


@pytest.mark.parametrize("verb", ["list", "view", "runs", "stats", "dead", "alerts", "history", "export"])
def test_a_name_or_pattern_without_a_task_is_not_found(sqlite: Dcron, verb: str) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    for words in (["nope-*"], ["one", "nope"], ["one", "n?pe"]):
        missing = sqlite(verb, *words)
        assert (missing.code, missing.out) == (4, "")
        assert "nope" in missing.err or "n?pe" in missing.err
    beside = sqlite(verb, "one", "-l", "a=b")
    assert beside.code == 2


def test_a_removed_task_counts_by_its_name(shop: Dcron) -> None:
    shop.done("rm", "-f", "other")
    assert {each["task"] for each in shop.done("runs", "other", "shop-a", "--json").json} == {
        "other",
        "shop-a",
    }


def test_verbs_that_act_ask_about_a_pattern_as_about_labels(shop: Dcron) -> None:
    refused = shop("pause", "shop-*")
    assert (refused.code, "2 tasks: shop-a, shop-b" in refused.err) == (1, True)
    paused = shop.done("pause", "-f", "shop-*", "other", "--json").json
    assert {each["name"] for each in paused} == {"shop-a", "shop-b", "other"}
    assert {each["name"] for each in shop.done("resume", "-f", "*", "--json").json} == {
        *("shop-a", "shop-b", "other")
    }
    shop.done("set", "-f", "shop-*", "--timeout", "5m")
    assert [each["timeout"] for each in shop.done("list", "--json").json] == [None, 300, 300]
    assert len(shop.done("run", "-f", "shop-*", "--json").json) == 2
    missing = shop("rm", "-f", "shop-*", "nothing")
    assert (missing.code, len(shop.done("list", "--json").json)) == (4, 3)
    shop.done("rm", "-f", "shop-*")
    assert shop.done("list", "--names").out == "other\n"


def test_the_past_is_listed_by_pattern(shop: Dcron) -> None:
    assert shop.done("list", "--at", "0s", "--names", "shop-*").out == "shop-a\nshop-b\n"
    assert [each["name"] for each in shop.done("view", "--at", "0s", "shop-*", "--json").json] == [
        *("shop-a", "shop-b")
    ]
    assert "other" not in shop.done("export", "--at", "0s", "shop-*").out


def test_a_pattern_of_very_many_tasks_is_listed(sqlite: Dcron) -> None:
    text = "".join(f"#dcron: name=t{number}\n0 3 * * * x\n" for number in range(2000))
    sqlite.done("import", "-", "--user", "root", stdin=text.encode())
    assert len(sqlite.done("list", "--names", "t*").out.split()) == 2000
    assert sqlite.done("runs", "t1*", "--json").json is not None


def test_a_pattern_is_edited(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shop-a", "shop-b", "other"):
        sqlite.done("add", "-n", name, "@yearly", "true")
    monkeypatch.setenv("EDITOR", "sed -i s/@yearly/@daily/")
    sqlite.done("edit", "-f", "shop-*")
    schedules = [each["schedule"] for each in sqlite.done("list", "--json").json]
    assert schedules == ["@yearly", "@daily", "@daily"]


def test_a_removed_task_is_no_task_of_a_list(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "gone", "@yearly", "x")
    sqlite.done("rm", "-y", "gone")
    for words in (("list", "gone"), ("list", "gone", "--json"), ("export", "gone")):
        assert sqlite(*words).code == 4, words
    assert sqlite.done("runs", "gone").out == ""
