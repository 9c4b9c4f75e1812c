"""`history`, `undo` and --at: what they print, and their exit codes."""

import re
import time

import pytest

from tests.support.cli import Dcron


def batch_of_last(dcron: Dcron) -> str:
    (last,) = dcron.done("history", "-n", "1", "--json").json
    return str(last["batch"])


def test_the_history_shows_who_how_and_why(dcron: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    dcron.done("add", "-n", "a", "-m", "first", "@daily", "date")
    dcron.done("set", "a", "--timeout", "5m", "--note", "it hung")
    shown = dcron.done("history", "a").out
    assert re.search(r"cli set +a +set timeout +b\w{9} +it hung", shown)
    assert re.search(r"cli add +a +add +b\w{9} +first", shown)
    assert "timeout=5m" in dcron.done("history", "a", "-p", "-n", "1").out


@pytest.mark.slow
def test_a_change_is_undone_after_its_difference_is_shown(dcron: Dcron) -> None:
    dcron.done("add", "-n", "a", "@daily", "date")
    dcron.done("set", "a", "--schedule", "@hourly")
    refused = dcron("undo", "a")
    assert refused.code == 1
    assert "add -y" in refused.err
    would = dcron.done("undo", "a", "--dry-run")
    assert "-@hourly date" in would.out
    assert "+@daily date" in would.out
    assert "nothing was changed" in would.out
    assert "redo" in dcron.done("undo", "a", "-f", "-m", "too often").out
    assert dcron.done("view", "a", "--json").json["schedule"] == "@daily"
    (last,) = dcron.done("history", "-n", "1", "--json").json
    assert (last["via"], last["note"], last["fields"]) == ("undo", "too often", ["schedule"])


def test_undo_takes_the_whole_name_also_of_a_removed_task(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@daily", "true")
    refused = dcron("undo", "backu", "-f")
    assert refused.code == 4
    assert "this verb takes the whole name: backup" in refused.err
    dcron.done("rm", "backup", "-f")
    assert dcron("undo", "backu", "-f").code == 4
    dcron.done("undo", "backup", "-f")


def test_the_undo_of_a_pause_shows_the_pause_and_no_empty_difference(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@daily", "true")
    dcron.done("pause", "backup", "--reason", "holidays")
    assert dcron.done("undo", "backup", "-n").out == "backup  -# paused: holidays\nnothing was changed\n"


@pytest.mark.slow
def test_a_later_change_is_shown_and_refuses_the_undo_with_code_5(dcron: Dcron) -> None:
    dcron.done("add", "-n", "a", "@daily", "date")
    dcron.done("set", "a", "--timeout", "5m")
    first = batch_of_last(dcron)
    dcron.done("set", "a", "--schedule", "@hourly", "-m", "more often")
    refused = dcron("undo", "--batch", first)
    assert refused.code == 5
    assert "set schedule (more often)" in refused.err
    dcron.done("undo", "--batch", first, "-f")
    assert dcron.done("view", "a", "--json").json["timeout"] is None


@pytest.mark.slow
def test_a_removal_of_several_tasks_is_undone_as_a_batch(dcron: Dcron) -> None:
    dcron.done("add", "-n", "a", "@daily", "date")
    dcron.done("add", "-n", "b", "@daily", "date")
    before = [(each["name"], each["schedule"]) for each in dcron.done("list", "--json").json]
    dcron.done("rm", "-f", "a", "b")
    done = dcron.done("undo", "--batch", batch_of_last(dcron), "-f", "--json").json
    assert sorted(each["name"] for each in done["tasks"]) == ["a", "b"]
    assert [(each["name"], each["schedule"]) for each in dcron.done("list", "--json").json] == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["undo"], 2),
        (["undo", "a", "--change", "1"], 2),
        (["undo", "--change", "99"], 4),
        (["undo", "--batch", "nonsense"], 4),
        (["undo", "missing"], 4),
        (["history", "missing"], 4),
        (["list", "--at", "2h", "--failed"], 2),
        (["list", "--at", "tomorrow"], 2),
        (["preview", "--all", "--at", "2h"], 2),
    ],
)
def test_wrong_words_have_their_codes(dcron: Dcron, words: list[str], code: int) -> None:
    assert dcron(*words).code == code


@pytest.mark.slow
def test_the_crontab_is_shown_as_it_was(dcron: Dcron) -> None:
    dcron.done("add", "-n", "a", "@daily", "date")
    dcron.done("add", "-n", "b", "@hourly", "date")
    dcron.done("pause", "b")
    text = dcron.done("export").out
    at = str(dcron.done("history", "-n", "1", "--json").json[0]["at"])
    time.sleep(1)  # this time is of whole seconds
    dcron.done("set", "a", "--schedule", "@weekly")
    dcron.done("rm", "-f", "b")
    assert dcron.done("export", "--at", at).out == text
    assert [each["name"] for each in dcron.done("list", "--at", at, "--json").json] == ["a", "b"]
    assert dcron.done("list", "--at", at, "--paused", "--names").out == "b\n"
    assert dcron.done("view", "a", "--at", at, "--json").json["schedule"] == "@daily"
    assert dcron.done("preview", "a", "--at", at, "--json").json["schedule"] == "@daily"
    early = dcron.done("list", "--at", "2h")
    assert "the history begins at" in early.err


WRITING = [
    ["add", "-n", "c", "@daily", "date"],
    ["at", "-n", "d", "2050-01-01", "date"],
    ["in", "-n", "e", "1h", "date"],
    ["set", "a", "--timeout", "5m"],
    ["pause", "a", "b"],
    ["resume", "a", "b"],
    ["run", "a", "b"],
    ["cancel", "RUNS"],
    ["retry", "RUNS"],
    ["import", "-", "--user", "root"],
    ["queue", "set", "mail", "--max-running", "2"],
    ["calendar", "add", "holidays", "12-25"],
    ["calendar", "rm", "holidays", "-f"],
    ["config", "set", "timezone", "Europe/Berlin"],
    ["config", "unset", "timezone"],
    ["hold", "a"],
    ["unhold", "a"],
    ["rm", "a", "b", "-f"],
    ["undo", "a", "-f"],
]


@pytest.mark.slow
def test_every_writing_verb_leaves_exactly_one_batch(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "a", "@daily", "date")
    sqlite.done("add", "-n", "b", "@daily", "date")
    for words in WRITING:
        known = {each["id"] for each in sqlite.done("history", "-n", "999", "--json").json}
        runs = sqlite.done("runs", "--json").json
        by_hand = [str(each["id"]) for each in runs if each["trigger"] == "manual"]
        verb = 2 if words[0] in ("queue", "calendar", "config") else 1
        rest = [number for word in words[verb:] for number in (by_hand if word == "RUNS" else [word])]
        sqlite.done(*words[:verb], "-m", "why", *rest, stdin=b"@daily date\n")
        found = sqlite.done("history", "-n", "999", "--json").json
        new = [each for each in found if each["id"] not in known]
        assert len({each["batch"] for each in new}) == 1, words
        assert {each["note"] for each in new} == {"why"}, words
