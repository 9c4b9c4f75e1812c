"""Several crontabs in one config file: which one a verb uses, and what a protected one asks."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Answer, Dcron, on_terminal

CONFIG = """\
database = "sqlite:///{place}/plain.db"
timezone = "UTC"

[context.staging]
database = "sqlite:///{place}/staging.db"

[context.prod]
database = "sqlite:///{place}/prod.db"
timezone = "Asia/Tokyo"
protected = true
"""


class Contexts:
    """A config file with two contexts."""

    def __init__(self, dcron: Dcron, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._dcron = dcron
        dcron.url = ""
        self.file = place / "config.toml"
        self.file.write_text(CONFIG.format(place=place))
        self.file.chmod(0o600)
        monkeypatch.setenv("DCRON_CONFIG", str(self.file))

    def __call__(self, *words: str, stdin: bytes = b"") -> Answer:
        return self._dcron(*words, stdin=stdin)

    def done(self, *words: str) -> Answer:
        return self._dcron.done(*words)

    def names(self, *words: str) -> list[str]:
        return [task["name"] for task in json.loads(self.done(*words, "list", "--json").out)]


@pytest.fixture
def contexts(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contexts:
    return Contexts(sqlite, tmp_path, monkeypatch)


@pytest.fixture
def filled(contexts: Contexts, tmp_path: Path) -> Contexts:
    """The same with a task in each crontab."""
    contexts.done("--db", f"sqlite:///{tmp_path}/plain.db", "add", "-n", "of-plain", "@daily", "x")
    contexts.done("-c", "staging", "add", "-n", "of-staging", "@daily", "x")
    contexts.done("-c", "prod", "add", "--confirm", "prod", "-n", "of-prod", "@daily", "x")
    return contexts


def test_each_context_is_a_crontab_of_its_own(filled: Contexts) -> None:
    assert filled.names() == ["of-plain"]
    assert filled.names("-c", "staging") == ["of-staging"]
    assert filled.names("--context", "prod") == ["of-prod"]
    behind = filled.done("list", "--json", "-c", "staging").out
    assert [task["name"] for task in json.loads(behind)] == ["of-staging"]


def test_a_verb_that_has_changed_something_names_its_context(filled: Contexts, tmp_path: Path) -> None:
    filled.done("-c", "staging", "add", "-n", "after", "--label", "team=a", "@after of-staging", "x")
    filled.done("-c", "staging", "set", "of-staging", "--label", "team=a")
    partly = filled(
        "-c", "staging", "set", "-l", "team", "--schedule", "@after of-staging", "--tries", "2", "-f"
    )
    assert (partly.code, "in the context staging" in partly.err) == (2, True)
    file = tmp_path / "shop.cron"
    file.write_text("#dcron: name=new\n@daily x\n")
    for words in (("undo", "after", "-n"), ("apply", "-F", str(file), "--source", "shop", "-n")):
        assert "in the context" not in filled.done("-c", "staging", *words).err


def test_the_strongest_wins(
    filled: Contexts, sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the strongest: --db, --context, $DCRON_DB, $DCRON_CONTEXT, default_context, database."""
    plain = f"sqlite:///{tmp_path}/plain.db"
    filled.file.write_text('default_context = "staging"\n' + filled.file.read_text())
    assert filled.names() == ["of-staging"]
    sqlite.environment = {"DCRON_CONTEXT": "prod"}
    assert filled.names() == ["of-prod"]
    sqlite.url = plain
    assert filled.names() == ["of-plain"]
    assert filled.names("-c", "staging") == ["of-staging"]
    sqlite.url = ""
    assert filled.names("--db", plain) == ["of-plain"]
    sqlite.environment = {"DCRON_CONTEXT": ""}
    assert filled.names() == ["of-plain"]


def test_a_context_and_a_url_contradict_each_other(contexts: Contexts) -> None:
    refused = contexts("-c", "prod", "--db", "sqlite:////tmp/other.db", "list")
    assert (refused.code, "give --db or --context, not both" in refused.err) == (2, True)
    refused = contexts("-c", "prod", "list", "--db", "sqlite:////tmp/other.db")
    assert (refused.code, "give --db or --context, not both" in refused.err) == (2, True)


def test_an_unknown_context_is_refused(contexts: Contexts) -> None:
    refused = contexts("-c", "prud", "list")
    assert refused.code == 2
    assert "there is no context 'prud'; did you mean prod?" in refused.err
    refused = contexts("-c", "x", "list")
    assert "there are prod, staging" in refused.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[context.a]\ntimezone = 'UTC'", "[context.a] names no database"),
        ("[context.prod]\ndatabase = ''\nprotected = true", "[context.prod] names no database"),
        ("[context.a]\ndatabase = 5", "[context.a]: database is not a text in quotes"),
        ("[context.a]\ndatabase = 'sqlite:////x'\nprotected = 'yes'", "protected is true or false"),
        ("[context.a]\ndatabase = 'sqlite:////x'\nslots = 3", "unknown setting 'slots'"),
        ("[context.'a b']\ndatabase = 'sqlite:////x'", "'a b' cannot be a context's name"),
        ("default_context = 'a'", "there is no context 'a'"),
        ("context = 'prod'", "[context.NAME]"),
    ],
)
def test_a_mistake_in_the_file_is_refused(contexts: Contexts, text: str, message: str) -> None:
    contexts.file.write_text(text)
    refused = contexts("list")
    assert (refused.code, message in refused.err) == (2, True), refused.err


def test_a_context_has_a_time_zone_of_its_own(filled: Contexts) -> None:
    assert "Asia/Tokyo" in filled.done("-c", "prod", "preview", "0 9 * * *").out
    assert json.loads(filled.done("-c", "prod", "info", "--json").out)["context"] == "prod"
    assert json.loads(filled.done("-c", "prod", "info", "--json").out)["database_from"] == "the context prod"
    assert json.loads(filled.done("info", "--json").out)["context"] is None


def test_a_verb_that_writes_says_where(filled: Contexts) -> None:
    assert "context staging\n" in filled.done("-c", "staging", "pause", "of-staging").err
    assert "context" not in filled.done("-c", "staging", "list").err
    assert "context" not in filled.done("pause", "of-plain").err


def test_a_protected_context_wants_its_name(filled: Contexts) -> None:
    for yes in ("-y", "--yes", "-f", "--force"):
        refused = filled("-c", "prod", "rm", yes, "of-prod")
        assert refused.code == 1
        assert "remove of-prod (@daily, x): nothing was done: the context prod is protected" in refused.err
        assert refused.err.endswith("there is no terminal to ask on; add --confirm prod\n")
    refused = filled("-c", "prod", "rm", "-y", "--confirm", "staging", "of-prod")
    message = "--confirm staging: this is the context prod; nothing was done"
    assert (refused.code, message in refused.err) == (1, True)
    assert filled.names("-c", "prod") == ["of-prod"]
    filled.done("-c", "prod", "rm", "--confirm", "prod", "of-prod")
    assert filled.names("-c", "prod") == []


def test_a_name_that_is_not_that_of_the_context_is_refused_also_elsewhere(filled: Contexts) -> None:
    refused = filled("-c", "staging", "set", "of-staging", "--tries", "2", "--confirm", "prod")
    assert (refused.code, "--confirm prod: this is the context staging" in refused.err) == (1, True)
    refused = filled("set", "of-plain", "--tries", "2", "--confirm", "prod")
    assert (refused.code, "--confirm prod: no context is in use" in refused.err) == (1, True)
    filled.done("-c", "staging", "rm", "--confirm", "staging", "of-staging")
    assert filled.names("-c", "staging") == []


def test_one_word_answers_the_question_of_a_script(filled: Contexts) -> None:
    refused = filled("rm", "of-plain")
    assert refused.code == 1
    assert "nothing was done: there is no terminal to ask on; add -y\n" in refused.err
    for name, yes in (("of-plain", "-y"), ("b", "--yes"), ("c", "-f"), ("d", "--force")):
        if name != "of-plain":
            filled.done("add", "-n", name, "@daily", "x")
        filled.done("rm", yes, name)
    assert filled.names() == []


@pytest.mark.slow
def test_on_a_terminal_the_name_is_typed(filled: Contexts) -> None:
    wrong = on_terminal("-c", "prod", "rm", "of-prod", url="", typed="y\n", wait_for="type prod")
    assert (wrong.code, "nothing was done" in wrong.out) == (1, True), wrong.out
    right = on_terminal("-c", "prod", "rm", "of-prod", url="", typed="prod\n", wait_for="type prod")
    assert (right.code, "removed  of-prod" in right.out) == (0, True), right.out
