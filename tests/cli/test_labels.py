"""Labels on the command line, and verbs that choose tasks by them (-l)."""

import pytest

from tests.support.cli import Dcron


@pytest.fixture
def shop(dcron: Dcron) -> Dcron:
    """A crontab with seven tasks of the shop, two of which are gold, and one other task."""
    text = ""
    for number in range(7):
        tier = "gold" if number < 2 else "tin"
        text += f'#dcron: name=t{number} label="team=shop,tier={tier}"\n0 {number} * * * x\n'
    dcron.done("import", "-", "--user", "root", stdin=(text + "#dcron: name=other\n0 9 * * * y\n").encode())
    return dcron


def names(dcron: Dcron, *words: str) -> list[str]:
    return dcron.done("list", "--names", *words).out.split()


def test_labels_are_added_changed_and_cleared(dcron: Dcron) -> None:
    task = dcron.done(
        "add", "-n", "a", "--label", "team=shop", "--label", "tier=gold", "--json", "@daily", "x"
    )
    assert task.json["labels"] == {"team": "shop", "tier": "gold"}
    assert "label" in dcron.done("view", "a").out
    changed = dcron.done("set", "a", "--label", "tier=tin,app=", "--clear", "label.team", "--json").json
    assert changed["labels"] == {"tier": "tin", "app": ""}
    exported = dcron.done("export").out
    assert 'label="tier=tin,app="' in exported
    dcron.done("rm", "-f", "a")
    dcron.done("import", "-", "--user", "root", stdin=exported.encode())
    assert dcron.done("view", "a", "--json").json["labels"] == {"tier": "tin", "app": ""}
    assert dcron.done("set", "a", "--clear", "label", "--json").json["labels"] == {}
    for words in (["--label", "team"], ["--label", "Team=x"], ["--label", "a=1", "--label", "a=2"]):
        assert dcron("set", "a", *words).code == 2


def test_reading_verbs_choose_by_labels(shop: Dcron) -> None:
    assert names(shop, "-l", "tier=gold") == ["t0", "t1"]
    assert names(shop, "-l", "team,tier!=gold", "--sort", "schedule") == ["t2", "t3", "t4", "t5", "t6"]
    assert names(shop, "-l", "!team") == ["other"]
    assert "name=t0" in shop.done("export", "-l", "tier=gold").out
    assert "other" not in shop.done("export", "-l", "tier=gold").out
    assert "t1" in shop.done("preview", "--all", "-l", "tier=gold").out
    assert "other" not in shop.done("preview", "--all", "-l", "tier=gold").out
    assert "no task matches -l team=api" in shop.done("list", "-l", "team=api").err
    bad = shop("list", "-l", "team>5")
    assert (bad.code, "-l: 'team>5' is not a label's key" in bad.err) == (2, True)


@pytest.mark.slow
def test_writing_verbs_need_names_or_labels_and_not_both(shop: Dcron) -> None:
    for verb in ("pause", "resume", "rm", "set", "run"):
        both = shop(verb, "t0", "-l", "tier=gold")
        assert (both.code, "give names or -l, not both" in both.err) == (2, True)
        assert shop(verb).code == 2
        missing = shop(verb, "-l", "team=api", "-f")
        assert (missing.code, "no task has the labels team=api" in missing.err) == (4, True)


@pytest.mark.slow
def test_many_tasks_are_changed_in_one_batch_after_a_question(shop: Dcron) -> None:
    asked = shop("pause", "-l", "team=shop")
    assert asked.code == 1
    assert "pause 7 tasks: t0, t1, t2, t3, t4, t5, t6: nothing was done: there is no terminal" in asked.err
    shop.done("pause", "t3")
    paused = shop.done("pause", "-f", "-l", "team=shop", "--json").json
    assert [task["name"] for task in paused] == ["t0", "t1", "t2", "t4", "t5", "t6"]
    batches = {change["batch"] for change in shop.done("history", "-n", "6", "--json").json}
    assert len(batches) == 1
    again = shop("pause", "-f", "-l", "team=shop")
    assert (again.code, "paused already" in again.err) == (1, True)
    assert shop.done("resume", "-f", "-l", "tier=gold").out == "resumed  t0\nresumed  t1\n"
    changed = shop.done("set", "-f", "-l", "team=shop", "--label", "tier=tin", "--queue", "shop")
    assert len(changed.out.splitlines()) == 7
    assert names(shop, "-l", "tier=tin") == [f"t{number}" for number in range(7)]
    runs = shop.done("run", "-f", "-l", "team=shop", "--json").json
    assert [run["task"] for run in runs] == [f"t{number}" for number in range(7)]
    shop.done("rm", "-f", "-l", "team=shop")
    assert names(shop) == ["other"]


def test_one_task_is_changed_without_a_question(shop: Dcron) -> None:
    shop.done("set", "other", "--label", "app=mail")
    assert shop.done("pause", "-l", "app").out == "paused   other\n"
    assert shop("rm", "-l", "app").code == 1


@pytest.mark.slow
def test_a_bad_value_is_reported_once_and_before_the_question(shop: Dcron) -> None:
    for option, value in (
        ("--label", "a=b=c"),
        ("--label", "Team=x"),
        ("--queue", "a b"),
        ("--notify", "a b"),
        ("--schedule", "nonsense"),
    ):
        refused = shop("set", "-l", "team=shop", option, value)
        assert refused.code == 2
        assert refused.err.count("\n") == 1
        assert "add -y" not in refused.err
    refused = shop("set", "-f", "-l", "team=shop", "--schedule", "@after nowhere")
    assert refused.code == 2
    assert refused.err.count("@after nowhere: there is no such task") == 1
    assert "were left alone" in refused.err


def test_lists_of_runs_and_changes_choose_by_labels(shop: Dcron) -> None:
    shop.done("run", "t0")
    shop.done("run", "other")
    due = shop.done("runs", "-l", "tier=gold", "--json").json
    assert {run["task"] for run in due} == {"t0", "t1"}
    assert {change["name"] for change in shop.done("history", "-l", "tier=gold", "--json").json} == {
        "t0",
        "t1",
    }
    for words in (["dead"], ["stats"], ["alerts"], ["stats", "--by", "queue"]):
        assert shop.done(*words, "-l", "team=shop", "--json").json == []
    report = shop.done("report", "-l", "tier=gold", "--since", "today", "--format", "json").json
    assert {change["task"] for change in report["changes"]} == {"t0", "t1"}
    shop.done("set", "other", "--schedule", "0 9 1 * mon")
    assert "day-or-weekday" in shop("lint", "-l", "!team").out
    assert "day-or-weekday" not in shop("lint", "-l", "team").out
    for verb in ("runs", "history", "stats", "prune"):
        assert shop(verb, "t0", "-l", "team=shop").code == 2


@pytest.mark.slow
def test_runs_and_dead_letters_are_changed_by_labels(shop: Dcron) -> None:
    shop.done("run", "t0", "t2")
    asked = shop("cancel", "-l", "team=shop")
    assert asked.code == 1
    assert "cancel 2 runs: " in asked.err
    cancelled = shop.done("cancel", "-f", "-l", "team=shop", "--json").json
    assert {run["task"] for run in cancelled} == {"t0", "t2"}
    assert "no run is due or has started" in shop("cancel", "-f", "-l", "team=shop").err
    for words in (["retry"], ["dead", "dismiss"]):
        none = shop(*words, "-f", "-l", "tier=gold")
        assert (none.code, "2 tasks: t0, t1: no dead letters" in none.err) == (1, True)
        assert shop(*words, "-f", "-l", "team=api").code == 4
        assert shop(*words).code == 2
    shop.done("set", "t0", "--command", "exit 3")
    shop.done("run", "t0")
    shop.run_due()
    assert [run["task"] for run in shop.done("dead", "-l", "tier=gold", "--json").json] == ["t0"]
    assert shop.done("dead", "-l", "tier=tin", "--json").json == []
    (retried,) = shop.done("retry", "-l", "tier=gold", "--json", "-f").json
    assert (retried["task"], retried["attempt"]) == ("t0", 2)
    shop.run_due()
    assert shop.done("dead", "dismiss", "-f", "-l", "tier=gold", "--json").json == {"dismissed": 1}
    assert shop.done("prune", "-l", "tier=gold", "--dry-run", "--json").json["runs"] == 0
    assert shop("prune", "-l", "tier=gold").code == 1


@pytest.mark.slow
def test_settings_by_label_are_listed_and_shown_with_the_task(shop: Dcron) -> None:
    shop.done("config", "set", "notify.default", "ops")
    assert shop.done("config", "set", "notify[team=shop]", "ops-shop").out == (
        "notify.default[team=shop]: ops-shop\n"
    )
    shop.done("config", "set", "expect.success[team=shop,tier=gold]", "26h")
    listed = {each["name"]: each["value"] for each in shop.done("config", "list", "--json").json}
    assert listed["notify.default[team=shop]"] == ["ops-shop"]
    assert "notify.default[team=shop] is ops-shop" in shop.done("view", "t0").out
    assert "expect.success[team=shop,tier=gold] is 1d2h" in shop.done("view", "t0").out
    assert "by label" not in shop.done("view", "other").out
    shop.done("set", "t0", "--notify", "mine")
    assert "ops-shop" not in shop.done("view", "t0").out
    shop.done("config", "unset", "notify[team=shop]")
    assert "notify.default[team=shop]" not in shop.done("config", "list").out
    assert shop("config", "set", "timezone[team=shop]", "UTC").code == 2
