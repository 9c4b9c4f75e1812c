"""The first screen, the pages of `dcron help`, words of other tools, and the forms of 0.1."""

import re

import pytest

from dcron.cli import app
from dcron.cli.running.other_words import ALIASES, ANSWERS, CRONTAB
from dcron.cli.running.topics import TOPICS
from dcron.cli.running.verbs import GROUPS, VERBS
from tests.support.cli import Dcron


def fits(text: str, lines: int = 40) -> bool:
    """Return whether a page has at most so many lines, of 80 columns."""
    return len(text.splitlines()) <= lines and all(len(line) <= 80 for line in text.splitlines())


def test_the_first_screen_has_every_verb_once_and_fits_a_terminal(sqlite: Dcron) -> None:
    shown = sqlite.done("--help").out
    assert fits(shown)
    everyday, more = shown.split("\nEveryday:\n")[1].split("\nMore")
    lines = {line.split()[0]: line for line in (everyday + more.split("\n\n")[0]).splitlines() if line}
    for name, verb in VERBS.items():
        line = lines[name if verb.group == "everyday" else verb.group]
        assert re.search(rf"(?<![a-z]){name}(?![a-z])", line), (name, line)
    assert len(everyday.splitlines()) == 13


@pytest.mark.parametrize("width", ["40", "200"])
def test_the_first_screen_is_the_same_at_any_width(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    shown = sqlite.done("--help").out
    monkeypatch.setenv("COLUMNS", width)
    assert sqlite.done("help").out == sqlite.done().out == shown


@pytest.mark.parametrize("page", [*GROUPS, *TOPICS])
def test_a_page_of_help_fits_a_terminal(sqlite: Dcron, page: str) -> None:
    shown = sqlite.done("help", page)
    assert fits(shown.out)
    assert shown.err == ""


def test_help_of_a_group_lists_its_verbs_and_help_all_lists_all(sqlite: Dcron) -> None:
    servers = sqlite.done("help", "servers").out
    assert re.findall(r"^  (\w+)", servers, re.MULTILINE) == [
        *("agent", "nodes", "policy", "drain", "undrain", "freeze", "thaw")
    ]
    everything = sqlite.done("help", "all").out
    assert re.findall(r"^  (\w+)", everything, re.MULTILINE) == list(VERBS)
    assert fits(everything, 80)


def test_help_of_a_verb_is_found_by_its_aliases_and_takes_no_more_words(sqlite: Dcron) -> None:
    assert sqlite.done("help", "ls").out == sqlite.done("list", "--help").out
    assert "calendar list" in sqlite.done("help", "calendars").out
    wrong = sqlite("help", "add", "backup")
    assert (wrong.code, "leave out 'backup': `dcron help add`" in wrong.err) == (2, True)
    wrong = sqlite("help", "calendar", "add", "x")
    assert (wrong.code, "leave out 'x'" in wrong.err) == (2, True)


@pytest.mark.parametrize(
    ("word", "answer"),
    [("tims", "did you mean times?"), ("nothing", "`dcron help all`"), ("kill", "`dcron cancel RUN`")],
)
def test_help_of_another_word_names_the_nearest_page(sqlite: Dcron, word: str, answer: str) -> None:
    wrong = sqlite("help", word)
    assert (wrong.code, wrong.out, answer in wrong.err) == (2, "", True)


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_its_verb(sqlite: Dcron, alias: str) -> None:
    meant = ALIASES[alias].split()
    assert sqlite.done(alias, "--help").out == sqlite.done(*meant, "--help").out


def test_aliases_do_what_their_verbs_do(sqlite: Dcron) -> None:
    sqlite.done("in", "1h", "-n", "later", "true")
    sqlite.done("add", "-n", "one", "@daily", "true")
    assert sqlite.done("suspend", "one").out.startswith("paused")
    assert sqlite.done("unpause", "one").out.startswith("resumed")
    assert sqlite.done("trigger", "one", "--json").json["task"] == "one"
    assert sqlite.done("tasks", "--names").out == "later\none\n"
    assert sqlite.done("describe", "one", "--json").json["name"] == "one"
    sqlite.done("del", "-f", "one")
    sqlite.done("calendar", "create", "off", "2030-01-01")
    sqlite.done("queue", "add", "mail", "--max-running", "2")
    assert "off" in sqlite.done("calendars").out
    assert "mail" in sqlite.done("queues").out


@pytest.mark.parametrize("word", ANSWERS)
def test_a_word_of_another_tool_is_answered(sqlite: Dcron, word: str) -> None:
    answered = sqlite(word, "backup")
    assert (answered.code, answered.out) == (2, "")
    first = answered.err.splitlines()[0]
    assert first.startswith(f"dcron: there is no verb '{word}': ")
    assert "{" not in first
    assert word not in VERBS
    assert word not in ALIASES


def test_an_answer_has_the_name_that_was_typed(sqlite: Dcron) -> None:
    assert "`dcron resume backup` ends the pause of backup" in sqlite("enable", "backup").err
    assert "`dcron resume NAME` ends the pause of a task" in sqlite("enable").err
    assert "`dcron thaw` ends a freeze" in sqlite("freeze", "end").err


@pytest.mark.parametrize("option", CRONTAB)
def test_the_options_of_crontab_are_answered(sqlite: Dcron, option: str) -> None:
    answered = sqlite(option)
    assert (answered.code, answered.out) == (2, "")
    assert re.search(r"`dcron \w+", answered.err.splitlines()[0])


@pytest.mark.parametrize("file", ["-", "/etc/crontab", "./tab"])
def test_a_file_is_answered_with_import(sqlite: Dcron, file: str) -> None:
    answered = sqlite(file)
    assert (answered.code, "`dcron import FILE`" in answered.err) == (2, True)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("unpuase", "unpause"), ("unhld", "unhold"), ("undran", "undrain"), ("reusme", "resume")),
        *(("lst", "list"), ("frezee", "freeze"), ("rport", "report")),
    ],
)
def test_a_typo_is_never_answered_with_the_opposite_verb(sqlite: Dcron, typed: str, meant: str) -> None:
    assert f"did you mean {meant}?" in sqlite(typed).err


@pytest.mark.parametrize("typed", ["unlist", "unrun", "deack", "unkill"])
def test_an_opposite_that_does_not_exist_is_answered_with_nothing(sqlite: Dcron, typed: str) -> None:
    assert "did you mean" not in sqlite(typed).err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["quiet", "2m", "--until", "+1h"], ["forecast", "--quiet", "2m", "--until", "+1h"]),
        (["freezes", "-n", "1"], ["freeze", "list", "-n", "1"]),
        (["runs", "--id", "1"], ["view", "1"]),
        (["runs", "--id=1"], ["view", "1"]),
    ],
)
def test_an_old_form_works_with_a_note(sqlite: Dcron, old: list[str], new: list[str]) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    sqlite.done("freeze", "-f", "--from", "+3d", "--until", "+4d")
    sqlite.done("run", "one")
    before, after = sqlite(*old), sqlite(*new)
    note = f"dcron: `{' '.join(old)}` is now `dcron {' '.join(new)}`; the old form goes with 0.3\n"
    assert (before.code, before.err) == (after.code, note + after.err)
    assert re.sub(r"\d+", "0", before.out) == re.sub(r"\d+", "0", after.out)  # but for the seconds
    for json in (["--json"], ["-o", "json"]):
        assert sqlite(*old, *json).err == after.err


def test_the_note_about_an_old_form_shows_no_password(sqlite: Dcron) -> None:
    shown = sqlite("quiet", "2m", "--db", "postgresql://ann:secret@127.0.0.1:1/cron").err
    assert "the old form goes with 0.3" in shown
    assert "secret" not in shown


@pytest.mark.parametrize("option", ["-m", "--reason", "--note", "--message"])
def test_a_reason_is_kept_with_the_object_and_in_the_history(sqlite: Dcron, option: str) -> None:
    sqlite.done("add", "-n", "one", "@daily", "exit 3", "--notify-after", "1")
    assert sqlite.done("pause", "one", option, "why 1", "--json").json["paused_reason"] == "why 1"
    assert sqlite.done("freeze", "-f", option, "why 2", "--json").json["reason"] == "why 2"
    assert sqlite.done("hold", "one", option, "why 3", "--json").json["reason"] == "why 3"
    sqlite.done("resume", "one", option, "why 4")
    notes = [each["note"] for each in sqlite.done("history", "--json").json]
    assert notes[:4] == ["why 4", "why 3", "why 2", "why 1"]


def test_an_old_spelling_of_a_reason_is_no_word_of_the_command(sqlite: Dcron) -> None:
    added = sqlite.done("add", "--note", "first", "-n", "one", "@daily", "echo", "--note", "x", "--json")
    assert sqlite.done("view", "one", "--json").json["argv"] == ["echo", "--note", "x", "--json"]
    assert added.out.startswith("added")
    assert sqlite.done("history", "one", "--json").json[0]["note"] == "first"


@pytest.mark.parametrize("noun", ["calendar", "queue", "channel", "config"])
def test_a_noun_alone_lists(sqlite: Dcron, noun: str) -> None:
    sqlite.done("add", "-n", "one", "@daily", "true")
    for options in ([], ["--json"]):
        alone, listed = sqlite(noun, *options), sqlite(noun, "list", *options)
        assert (alone.code, alone.out, alone.err) == (listed.code, listed.out, listed.err)
    assert sqlite.done(noun, "--help").out != sqlite.done(noun, "list", "--help").out


def test_a_noun_without_a_list_prints_its_help(sqlite: Dcron) -> None:
    assert sqlite.done("db").out == sqlite.done("db", "--help").out


@pytest.mark.parametrize("verb", ["apply", "diff"])
def test_a_file_behind_f_is_answered_with_the_letter_for_files(sqlite: Dcron, verb: str) -> None:
    wrong = sqlite(verb, "-f", "x.toml")
    assert (wrong.code, f"`dcron {verb} -F x.toml` (-f is --force)" in wrong.err) == (2, True)


def letters() -> dict[str, dict[str, set[str]]]:
    """Return which long options each letter has, in verbs that act and in verbs that read."""
    found: dict[str, dict[str, set[str]]] = {"acts": {}, "reads": {}}
    for verb in VERBS:
        command = app._load(verb)
        for each in (command, *getattr(command, "commands", {}).values()):
            shown = [parameter for parameter in each.params if not getattr(parameter, "hidden", False)]
            options = {option for parameter in shown for option in parameter.opts}
            kind = "acts" if {"--reason", "--force", "--yes", "--dry-run"} & options else "reads"
            for parameter in shown:
                long = max(parameter.opts, key=len)
                for letter in parameter.opts:
                    if len(letter) == 2 and letter.startswith("-"):
                        found[kind].setdefault(letter, set()).add(long)
    return found


@pytest.mark.parametrize("kind", ["acts", "reads"])
def test_a_letter_has_one_meaning_among_the_verbs_that_act_and_among_those_that_read(kind: str) -> None:
    """`-n` is a name in verbs that add a task and a number in those that list."""
    several = {letter: long for letter, long in letters()[kind].items() if len(long) > 1}
    assert several == {}
