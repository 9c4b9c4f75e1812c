"""The question before an act: which verbs ask where, and what answers it."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dcron.cli.asking.options import AskingVerb, WritingGroup
from dcron.database import open_database
from dcron.schema.tables import metadata
from tests.cli.test_help import COMMANDS
from tests.support.cli import Dcron, on_terminal
from tests.support.stage import Stage

CONFIG = """\
[context.prod]
database = "{url}"
protected = true

[context.dev]
database = "{url}"
"""
FILES = {
    "crontab": "#dcron: name=imported\n@daily x\n",
    "shop.cron": "#dcron: name=shop\n@daily x\n",
}
WRITING = {
    "add": ["add", "-n", "new", "@daily", "x"],
    "at": ["at", "tomorrow 09:00", "x"],
    "set": ["set", "backup", "--tries", "3"],
    "set -l": ["set", "-l", "team=shop", "--tries", "3"],
    "edit": ["edit", "backup"],
    "rm": ["rm", "backup"],
    "rm -l": ["rm", "-l", "team=shop"],
    "pause": ["pause", "backup"],
    "pause a b": ["pause", "backup", "other"],
    "pause -l": ["pause", "-l", "team=shop"],
    "resume": ["resume", "stopped"],
    "resume -l": ["resume", "-l", "team=old"],
    "run": ["run", "backup"],
    "run -l": ["run", "-l", "team=shop"],
    "run --with": ["run", "backup", "--with", "y"],
    "run --like": ["run", "--like", "3"],
    "emit": ["emit", "deploy"],
    "cancel": ["cancel", "5"],
    "cancel NAME": ["cancel", "backup"],
    "cancel -l": ["cancel", "-l", "team=shop"],
    "retry": ["retry", "3"],
    "retry NAME": ["retry", "backup"],
    "retry -l": ["retry", "-l", "team=shop"],
    "dead dismiss": ["dead", "dismiss", "3"],
    "dead dismiss NAME": ["dead", "dismiss", "backup"],
    "dead dismiss --all": ["dead", "dismiss", "--all"],
    "dead dismiss -l": ["dead", "dismiss", "-l", "team=shop"],
    "backfill": ["backfill", "backup", "--from", "3d", "--to", "now"],
    "calendar add": ["calendar", "add", "new", "12-25"],
    "calendar add known": ["calendar", "add", "holidays", "12-26"],
    "calendar rm": ["calendar", "rm", "holidays"],
    "queue set": ["queue", "set", "mail", "--max-running", "1"],
    "config set": ["config", "set", "timezone", "Asia/Tokyo"],
    "config unset": ["config", "unset", "timezone"],
    "drain": ["drain", "web-1"],
    "undrain": ["undrain", "web-1"],
    "freeze": ["freeze", "--until", "+1h"],
    "freeze --cancel": ["freeze", "--cancel"],
    "thaw": ["thaw"],
    "apply": ["apply", "-F", "shop.cron", "--source", "shop"],
    "import": ["import", "--user", "root", "crontab"],
    "restore": ["restore", "dump.json"],
    "prune": ["prune"],
    "prune NAME": ["prune", "backup", "--keep", "runs=1s"],
    "prune -l": ["prune", "-l", "team=shop"],
    "undo": ["undo", "stopped"],
    "undo --change": ["undo", "--change", "1"],
    "db upgrade": ["db", "upgrade"],
    "db scrub": ["db", "scrub", "--env", "TOKEN"],
}
NEVER_ASK = {"hold", "unhold", "ack"}
"""Verbs that write and stop nothing."""


@pytest.fixture
def contexts(dcron: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dcron:
    """`dcron` with two contexts, of which one is protected, for a database with some of everything."""
    (tmp_path / "config.toml").write_text(CONFIG.format(url=dcron.url))
    (tmp_path / "config.toml").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DCRON_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("EDITOR", "sed -i s/false/true/")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    _fill(dcron, tmp_path)
    dcron.url = ""
    return dcron


def _fill(dcron: Dcron, place: Path) -> None:
    dcron.done("add", "-n", "backup", "--label", "team=shop", "*/5 * * * *", "false")
    dcron.done("add", "-n", "other", "--label", "team=shop", "@on deploy", "x")
    dcron.done("add", "-n", "stopped", "--label", "team=old", "@daily", "x")
    dcron.done("run", "backup", "other")
    dcron.run_due()
    dcron.done("dump", str(place / "dump.json"))
    dcron.done("pause", "stopped")
    dcron.done("run", "backup", "other")
    dcron.done("calendar", "add", "holidays", "12-25")
    dcron.done("config", "set", "timezone", "UTC")
    stage = Stage(dcron.url)
    stage.node("web-1")
    stage.database.close()


def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables."""
    database = open_database(url)
    with database.read() as connection:
        found = {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }
    database.close()
    return found


def test_each_verb_that_writes_is_guarded_in_a_protected_context(contexts: Dcron, tmp_path: Path) -> None:
    asking = {words for words, command in COMMANDS.items() if isinstance(command, AskingVerb | WritingGroup)}
    tried = {" ".join(words[:2]) if words[0] in GROUPS else words[0] for words in WRITING.values()}
    assert tried == asking - NEVER_ASK
    url = (tmp_path / "config.toml").read_text().split('"')[1]
    before = rows(url)
    for words in WRITING.values():
        refused = contexts("-c", "prod", *words)
        assert refused.code == 1, (words, refused)
        assert "there is no terminal to ask on; add --confirm prod" in refused.err, (words, refused)
        forced = contexts("-c", "prod", *_with(words, "-f" if words[0] != "db" else "--force"))
        assert (forced.code, "add --confirm prod" in forced.err) == (1, True), (words, forced)
        other = contexts("-c", "prod", *_with(words, "--confirm", "dev"))
        assert (other.code, "--confirm dev: this is the context prod" in other.err) == (1, True), words
        assert rows(url) == before, words


GROUPS = {"dead", "calendar", "queue", "config", "db"}


def _with(words: list[str], *answer: str) -> list[str]:
    """Return the words with an answer behind the verb."""
    at = 2 if words[0] in GROUPS else 1
    return [*words[:at], *answer, *words[at:]]


def test_a_dry_run_names_all_and_changes_nothing(sqlite: Dcron) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        sqlite.done("add", "-n", name, "--label", "team=shop", "@yearly", "x")
    sqlite.done("run", "t00")
    before = rows(sqlite.url)
    for words, what in (
        (["pause", "-l", "team=shop"], f"pause 12 tasks: {', '.join(names)}"),
        (["rm", "t*"], f"remove 12 tasks: {', '.join(names)}"),
        (["rm", "t01"], "remove t01 (@yearly, x)"),
        (["run", "t01", "t02"], "run 2 tasks: t01, t02"),
        (["set", "t01", "--tries", "3"], "change t01: tries 1 -> 3"),
        (["set", "-l", "team=shop", "--tries", "3"], f"set 12 tasks: {', '.join(names)}"),
        (["cancel", "t00"], "cancel 1 waiting run of t00"),
        (["cancel", "-l", "team=shop"], "cancel run 13 of t00"),
    ):
        would = sqlite.done(*words, "--dry-run")
        assert would.out == f"would {what}\nnothing was changed\n"
        assert rows(sqlite.url) == before
    assert sqlite("pause", "t01", "--dry-run", "--json").code == 2


@pytest.mark.slow
@pytest.mark.terminal
def test_from_six_things_on_the_number_is_typed(sqlite: Dcron) -> None:
    for number in range(6):
        sqlite.done("add", "-n", f"t{number}", "@yearly", "x")
    asked = on_terminal("rm", "t*", url=sqlite.url, typed="y\n", wait_for="type 6 to agree")
    assert (asked.code, "nothing was done" in asked.out) == (1, True)
    done = on_terminal("rm", "t*", url=sqlite.url, typed="6\n", wait_for="type 6 to agree")
    assert (done.code, done.out.count("removed  t")) == (0, 6)
