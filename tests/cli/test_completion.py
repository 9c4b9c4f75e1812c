"""What the Tab key offers: the scripts that are printed, sourced in real shells."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.agents import run_once
from tests.support.cli import DCRON, Dcron
from tests.support.stage import Stage

pytestmark = pytest.mark.slow

BASH = """eval "$(_DCRON_COMPLETE=source_bash dcron)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dcron_completion dcron; printf '%s\\n' "${COMPREPLY[@]}" """
ZSH = """compdef() { }
_arguments() { print -l -- "$1" }
_files() { }
eval "$(_DCRON_COMPLETE=source_zsh dcron)"
words=("$@"); CURRENT=$#; _dcron_completion"""
FISH = '_DCRON_COMPLETE=source_fish dcron | source; complete -C "$argv"'


def offered(dcron: Dcron, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    return _in_shell(["bash", "--norc", "-c", BASH, "bash", *words], dcron)


def _in_shell(command: list[str], dcron: Dcron) -> list[str]:
    path = f"{DCRON.parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "DCRON_DB": dcron.url}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def full(sqlite: Dcron) -> Dcron:
    for name in ("backup", "backup-full", "report"):
        sqlite.done("add", "-n", name, "@yearly", "exit 7")
    sqlite.done("calendar", "add", "holidays", "12-25")
    sqlite.done("queue", "set", "mail", "--max-running", "3")
    return sqlite


@pytest.mark.parametrize("verb", ["view", "rm", "edit", "dead", "logs"])
def test_bash_completes_the_names_of_tasks(full: Dcron, verb: str) -> None:
    assert offered(full, "dcron", verb, "bac") == ["backup", "backup-full"]


def test_bash_completes_other_names(full: Dcron) -> None:
    assert offered(full, "dcron", "rm", "backup", "re") == ["report"]
    assert offered(full, "dcron", "dead", "dismiss", "re") == ["report"]
    assert offered(full, "dcron", "calendar", "view", "h") == ["holidays"]
    assert offered(full, "dcron", "set", "backup", "--except", "h") == ["holidays"]
    assert offered(full, "dcron", "queue", "set", "m") == ["mail"]
    assert offered(full, "dcron", "set", "backup", "--name", "b") == []
    full.done("set", "backup", "--label", "team=shop,tier=gold")
    assert offered(full, "dcron", "list", "-l", "t") == ["team=shop", "tier=gold"]
    assert offered(full, "dcron", "set", "report", "--label", "ti") == ["tier=gold"]


def test_bash_completes_contexts_and_their_tasks(
    full: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[context.prod]\ndatabase = "{full.url}"\n')
    config.chmod(0o600)
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    full.url = ""
    assert offered(full, "dcron", "-c", "p") == ["prod"]
    assert offered(full, "dcron", "-c", "prod", "view", "bac") == ["backup", "backup-full"]


def test_bash_completes_channels(full: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[notify.ops]\nkind = "mail"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    stage = Stage(full.url)
    stage.node(channels=("other", "mailto"))
    stage.database.close()
    assert offered(full, "dcron", "channel", "test", "o") == ["ops", "other"]
    assert offered(full, "dcron", "add", "--notify", "o") == ["ops", "other"]


def test_bash_completes_verbs_options_and_their_choices(full: Dcron) -> None:
    assert offered(full, "dcron", "undr") == ["undrain"]
    assert offered(full, "dcron", "run", "--fol") == ["--follow"]
    assert offered(full, "dcron", "add", "--overlap", "") == ["skip", "queue", "replace"]
    assert offered(full, "dcron", "add", "--tz", "Europe/Berl") == ["Europe/Berlin"]
    assert offered(full, "dcron", "list", "--sort", "n") == ["name", "next"]
    assert offered(full, "dcron", "runs", "--state", "sk") == ["skipped"]
    assert offered(full, "dcron", "set", "backup", "--clear", "jit") == ["jitter"]
    assert offered(full, "dcron", "add", "--deadline", "n") == ["none"]
    assert offered(full, "dcron", "add", "--user", "roo") == ["root"]


def test_bash_completes_runs_that_the_verb_can_act_on(full: Dcron) -> None:
    (dead,) = run_once(full, "backup")
    waiting = {str(run["id"]) for run in full.done("runs", "--state", "waiting", "--json").json}
    names = set(full.done("list", "--names").out.split())
    assert set(offered(full, "dcron", "retry", "")) == {str(dead), *names}
    assert set(offered(full, "dcron", "cancel", "")) == waiting | names
    assert set(offered(full, "dcron", "view", "--run", "")) == {*waiting, str(dead)}


def test_completing_makes_no_database_and_says_nothing(sqlite: Dcron) -> None:
    assert offered(sqlite, "dcron", "view", "b") == []
    assert offered(sqlite, "dcron", "--db", "nonsense://x", "view", "b") == []
    assert sqlite.done("info", "--json").code == 0


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes(full: Dcron) -> None:
    def zsh(*words: str) -> str:
        return " ".join(_in_shell(["zsh", "-f", "-c", ZSH, "zsh", *words], full))

    assert '"backup" "backup-full"' in zsh("dcron", "view", "bac")
    assert '"Europe/Berlin"' in zsh("dcron", "add", "--tz", "Europe/Berl")
    assert '"skip" "queue" "replace"' in zsh("dcron", "add", "--overlap", "")


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes(full: Dcron) -> None:
    def fish(line: str) -> list[str]:
        return _in_shell(["fish", "--no-config", "-c", FISH, line], full)

    assert fish("dcron view bac") == ["backup", "backup-full"]
    assert fish("dcron add --tz Europe/Berl") == ["Europe/Berlin"]
    assert sorted(fish("dcron add --overlap ")) == ["queue", "replace", "skip"]


def test_settings_and_past_times_are_offered(sqlite: Dcron) -> None:
    assert "keep.runs" in offered(sqlite, "dcron", "config", "set", "keep.")
    assert offered(sqlite, "dcron", "runs", "--since", "") == ["1h", "today", "yesterday"]
