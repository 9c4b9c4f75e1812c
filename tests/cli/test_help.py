"""The help of every verb: plain, complete, short, and with examples that parse."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from dcron.cli import app
from dcron.cli.running.verbs import VERBS
from tests.support.cli import Dcron

DIALECT = re.compile(
    r"\b(told|tells?|whoever|nobody|somebody|mend|for certain|faces?|moments?"
    r"|passed over|made up for|make up for|turns?|so long|that there is none of|by then|runs on|anew)\b",
    re.IGNORECASE,
)
SHELL = ("|", "&&", ">", ";")
"""Words that end a command of the shell."""
MOST_LINES = 60


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every verb, and every verb of a group, with its words."""
    for verb in VERBS:
        command = app._load(verb)
        yield verb, command
        for name, each in getattr(command, "commands", {}).items():
            yield f"{verb} {name}", each


COMMANDS = dict(commands())


def examples(text: str) -> list[str]:
    """Return the lines of a help text that are command lines."""
    return [
        line.strip() for line in text.splitlines() if re.match(r"\s*([A-Z]+=|dcron |\S.*\| dcron )", line)
    ]


def words_of_dcron(example: str) -> list[str]:
    """Return the words after `dcron`, up to the next command of the shell."""
    words = shlex.split(example)
    words = words[words.index("dcron") + 1 :]
    return words[: next((at for at, word in enumerate(words) if word in SHELL), len(words))]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_parameter_has_one_sentence_of_help(words: str) -> None:
    for parameter in COMMANDS[words].params:
        text = parameter.help or ""
        assert re.match(r"[A-Z0-9]", text), (parameter.name, text)
        assert text.endswith((".", "]")), (parameter.name, text)


@pytest.mark.parametrize("words", COMMANDS)
def test_help_is_in_plain_english(sqlite: Dcron, words: str) -> None:
    shown = sqlite.done(*words.split(), "--help").out
    assert not DIALECT.findall(shown)


@pytest.mark.parametrize("words", COMMANDS)
def test_the_examples_of_a_verb_parse(words: str) -> None:
    command: Any = get_command(app.app)
    for example in examples(COMMANDS[words].help or ""):
        context = command.make_context("dcron", words_of_dcron(example))
        name, verb, rest = command.resolve_command(context, context._protected_args + context.args)
        below = verb.make_context(name, rest, parent=context)
        if hasattr(verb, "commands") and below._protected_args:
            name, verb, rest = verb.resolve_command(below, below._protected_args + below.args)
            verb.make_context(name, rest, parent=below)


def test_verbs_have_examples() -> None:
    """All but those that take hardly anything, and groups, whose verbs have them."""
    without = {words for words, command in COMMANDS.items() if not examples(command.help or "")}
    assert without == {
        *("tui", "nodes", "info", "calendar", "channel", "queue", "config", "db", "policy"),
        *(
            "calendar list",
            "calendar view",
            "calendar rm",
            "channel list",
            "queue list",
            "config list",
            "config unset",
        ),
        *("db init", "db upgrade", "db url"),
    }


@pytest.mark.parametrize("words", COMMANDS)
def test_the_help_of_a_verb_has_at_most_60_lines_of_80_columns(
    sqlite: Dcron, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = sqlite.done(*words.split(), "--help").out.splitlines()
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= 80 for line in lines)


def test_what_verbs_share_is_one_closing_line(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = sqlite.done("add", "--help").out.splitlines()
    assert [line.strip().startswith("dcron add") for line in shown[4:7]] == [True] * 3
    shared = " ".join(shown).partition("Also:")[2]
    assert shared.endswith("(dcron help options)")
    for option in ("--json", "--db URL", "-c CONTEXT", "-m TEXT"):
        assert option in shared
        assert " ".join(shown).count(f" {option}") == 1
    for option in ("--note", "--message"):
        assert option not in " ".join(shown)


def test_options_are_in_sections_with_their_defaults(sqlite: Dcron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = sqlite.done("add", "--help").out
    titles = re.findall(r"^ ([A-Z][a-z]+): ", shown, re.MULTILINE)
    assert titles == ["What", "When", "Limits", "Retries", "Where", "Alerts", "Also"]
    assert re.search(r"--tries N .*\[default: 1\]\.", shown)
    assert re.search(r"--count N .*\[default: 20\]\.", sqlite.done("runs", "--help").out)
