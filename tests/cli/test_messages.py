"""Messages: what a value of an option should be, which word was meant, and how to go on."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.cli import Dcron

DATA = Path(__file__).parent.parent / "data"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["add", "--tries", "0", "@daily", "x"],
            "--tries: 0 is not valid; give 1 to 1000, the first included",
        ),
        (["add", "--tries", "x", "@daily", "x"], "--tries: 'x' is not a whole number; give 1 to 1000"),
        (["add", "--backoff-factor", "0", "@daily", "x"], "--backoff-factor: 0.0 is not valid; give 1 to"),
        (
            ["add", "--priority", "top", "@daily", "x"],
            "--priority: 'top' is not one of 'high', 'normal', 'low'",
        ),
        (["agent", "--slots", "0"], "--slots: 0 is not valid; give 1 or more"),
        (["agent", "--slots", "x"], "--slots: x is not valid; give 1 or more"),
        (["agent", "--lease", "1s"], "--lease: 1s is not valid; give 4s or more"),
        (["runs", "-n", "0"], "--count: 0 is not valid; give 1 or more"),
        (["preview", "-n", "100001", "@daily"], "--count: 100001 is not valid; give 1 to 100,000"),
    ],
)
def test_an_invalid_value_is_answered_in_one_style(sqlite: Dcron, words: list[str], message: str) -> None:
    refused = sqlite(*words)
    assert refused.code == 2
    assert refused.err.startswith(f"dcron: {message}")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["prevew"], "did you mean preview?"),
        (["staus"], "did you mean status?"),
        (["unhld"], "did you mean unhold?"),
        (["queue", "lits"], "there is no verb 'queue lits'; did you mean list?"),
        (["add", "--nme", "a", "@daily", "x"], "there is no option --nme; did you mean --name?"),
    ],
)
def test_a_similar_word_is_suggested(sqlite: Dcron, words: list[str], meant: str) -> None:
    refused = sqlite(*words)
    assert (refused.code, meant in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("words", [["jobs"], ["add", "--timezone", "UTC", "@daily", "x"]])
def test_a_word_that_is_hardly_similar_is_not_suggested(sqlite: Dcron, words: list[str]) -> None:
    refused = sqlite(*words)
    assert (refused.code, "did you mean" in refused.err) == (2, False), refused.err


@pytest.mark.parametrize("verb", ["why", "rm"])
def test_the_number_of_a_run_is_no_name(sqlite: Dcron, verb: str) -> None:
    assert "`dcron view 32`" in sqlite(verb, "32").err


def test_the_help_of_set_shows_no_defaults_of_add(sqlite: Dcron) -> None:
    before_own_options = sqlite.done("set", "--help").out.partition("--clear")[0]
    assert "[default" not in before_own_options
    assert "[default" in sqlite.done("add", "--help").out


def test_usage_lines_call_a_verb_a_verb(sqlite: Dcron) -> None:
    assert "dcron [OPTIONS] VERB ..." in sqlite("lst").err
    assert "dcron queue [OPTIONS] VERB ..." in sqlite.done("queue", "--help").out


def test_a_result_is_shown_once(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "flaky", "@yearly", "exit 3")
    sqlite.done("run", "flaky")
    sqlite.run_due()
    assert sqlite.done("dead").out.count("exit 3") == 1


WRONG_LINES = [
    block.partition("\n")
    for block in (DATA / "messages.txt").read_text().split("\n\n")
    if block.startswith("$ ")
]
"""Each line as it is typed, and its answer."""


@pytest.mark.parametrize(("typed", "answer"), [(typed, answer) for typed, _, answer in WRONG_LINES])
def test_a_wrong_line_is_answered_with_the_next_step(sqlite: Dcron, typed: str, answer: str) -> None:
    sqlite.done("add", "-n", "j", "-z", "UTC", "0 9 * * *", "true")
    sqlite.done("add", "-n", "tick", "-z", "UTC", "0 9 * * *", "true")
    sqlite.done("pause", "tick")
    given = sqlite(*shlex.split(typed.removeprefix("$ ")))
    left_out = ("usage:", "see `dcron", "no agent is running")
    printed = [line for line in given.err.splitlines() if not line.startswith(left_out)]
    expected = re.escape(answer.strip()).replace("…", ".*")
    assert re.fullmatch(expected, "\n".join([*printed, f"-> {int(given.code)}"])), given


def test_there_are_many_wrong_lines() -> None:
    assert len(WRONG_LINES) >= 60


def test_a_path_is_a_sqlite_file(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sqlite.done("--db", f"{tmp_path}/a.db", "add", "-n", "one", "@daily", "x")
    assert sqlite.done("--db", "./a.db", "list", "--names").out == "one\n"
    assert sqlite("--db", "a.db", "list").code == 2


def test_a_word_of_the_shell_in_quotes_needs_no_warning(sqlite: Dcron) -> None:
    assert "shell-word" not in sqlite.done("add", "@daily", "cmd > out").err
    assert "shell-word" not in sqlite.done("add", "@daily", "grep", "-r", "a|b", "/srv").err
