"""What a verb loads, and what the help says."""

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dcron import __version__
from dcron.cli import app
from dcron.cli.asking.options import CommandLast
from dcron.cli.running.verbs import VERBS
from tests.support.cli import DCRON, Dcron, real

UNUSED = (
    *("alembic", "icalendar", "prometheus_client", "psycopg", "pydantic", "rich"),
    *("sqlalchemy.orm", "textual", "tomllib"),
)
"""Modules that take long to load, and that none of the verbs below needs."""
HEAVY = (*UNUSED, "importlib.metadata", "croniter", "dateutil", "_hashlib", "socket", "sqlalchemy")


def loaded(*words: str, names: Sequence[str] = HEAVY, url: str = "") -> set[str]:
    """Return which of the named modules a command line loads."""
    return loaded_by_all([words], names, url)


def loaded_by_all(lines: Sequence[Sequence[str]], names: Sequence[str] = HEAVY, url: str = "") -> set[str]:
    """Return which of the named modules a process loads that runs these command lines."""
    program = (
        "import sys\n"
        "from dcron.cli.app import main\n"
        f"for words in {[list(words) for words in lines]!r}:\n"
        "    code = main(words)\n"
        "    assert code == 0, (words, code)\n"
        f"print([name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "DCRON_DB": url},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(eval(done.stderr.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["--version"], [], ["add", "--help"], ["agent", "--help"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    assert loaded(*words) == set()


@pytest.mark.slow
def test_the_help_of_no_verb_loads_anything_heavy() -> None:
    names = [name for name in HEAVY if name != "_hashlib"]  # `channel` makes a token
    assert loaded_by_all([(verb, "--help") for verb in VERBS], names) == set()


def test_preview_of_an_expression_needs_no_database() -> None:
    assert loaded("preview", "0 9 * * *") == {"croniter", "dateutil"}


POSTGRES_ONLY = ("dcron.database.connecting", "dcron.database.patience", "sqlalchemy.dialects.postgresql")
EVALUATION = ("croniter", "dateutil")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["list"], (*UNUSED, *POSTGRES_ONLY, *EVALUATION)),
        (["add", "@daily", "true"], (*UNUSED, *POSTGRES_ONLY)),
    ],
)
def test_sqlite_needs_neither_postgres_nor_alembic(
    sqlite_url: str, words: list[str], unused: Sequence[str]
) -> None:
    assert loaded(*words, names=unused, url=sqlite_url) == set()


def cpu_seconds(*command: str) -> float:
    """What a process uses of a processor: a busy machine stretches that less than the time on the clock."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
def test_help_is_quick() -> None:
    bare, message = math.inf, math.inf
    for _ in range(60):  # the least of each, taken in turns, until it is clear
        bare = min(bare, cpu_seconds(sys.executable, "-c", "pass"))
        message = min(message, cpu_seconds(str(DCRON), "--help"))
        if message <= 7 * bare:
            break
    assert message <= 8 * bare


def test_alone_it_prints_help(sqlite: Dcron) -> None:
    alone = sqlite.done()
    assert alone.out == sqlite.done("--help").out == sqlite.done("-h").out


def test_version(sqlite: Dcron) -> None:
    assert sqlite.done("--version").out == f"dcron {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_begins_as_the_list_says(sqlite: Dcron, verb: str) -> None:
    shown = sqlite.done(verb, "--help").out
    usage, _, first, *_ = shown.splitlines()
    assert usage.startswith(f"Usage: dcron {verb}")
    assert "{" not in usage
    assert first.strip().startswith(VERBS[verb].sentence)
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_every_option_has_a_help_text() -> None:
    for verb in VERBS:
        command = app._load(verb)
        for each in [command, *getattr(command, "commands", {}).values()]:
            for parameter in each.params:
                assert parameter.help, (verb, parameter.name)


def test_the_verbs_that_end_in_a_command_are_those_that_take_one() -> None:
    for verb in VERBS:
        command = app._load(verb)
        takes_command = any(
            parameter.name == "command" and parameter.nargs == -1 for parameter in command.params
        )
        assert isinstance(command, CommandLast) is takes_command, verb


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lst"], "did you mean list?"),
        (["list", "--jsno"], "--json"),
        (["view"], "give the name of a task"),
        (["--nonsense"], "no option --nonsense"),
        (["agent", "--slots", "0"], "--slots"),
        (["agent", "--lease", "1s", "--once"], "lease"),
        (["agent", "--lease", "long", "--once"], "--lease"),
        (["agent", "--grace", "x", "--once"], "--grace"),
        (["agent", "--name", "a/b", "--once"], "--name"),
        (["demo", "--agents", "0"], "--agents"),
    ],
)
def test_wrong_usage_is_2_with_a_hint(sqlite: Dcron, words: list[str], message: str) -> None:
    wrong = sqlite(*words)
    assert wrong.code == 2
    assert message in wrong.err.lower()
    assert wrong.err.startswith("dcron: ")
    assert wrong.out == ""


@pytest.mark.slow
def test_an_agent_that_cannot_start_is_wrong_usage_for_the_shell_too(sqlite: Dcron) -> None:
    assert real("agent", "--lease", "1s", url=sqlite.url).code == 2


@pytest.mark.slow
def test_names_are_completed_by_the_shell(dcron: Dcron) -> None:
    for name in ("backup", "report"):
        dcron.done("add", "-n", name, "@daily", "ls")
    env = {"_DCRON_COMPLETE": "complete_bash", "COMP_WORDS": "dcron view b", "COMP_CWORD": "2"}
    assert real(url=dcron.url, **env).out.split() == ["backup"]
    env["COMP_WORDS"], env["COMP_CWORD"] = "dcron vi", "1"
    assert real(url=dcron.url, **env).out.split() == ["view"]


@pytest.mark.slow
def test_completing_makes_no_database(tmp_path: Path) -> None:
    file = tmp_path / "none.db"
    env = {"_DCRON_COMPLETE": "complete_bash", "COMP_WORDS": "dcron view b", "COMP_CWORD": "2"}
    for url in (f"sqlite:///{file}", "postgresql://127.0.0.1:1/none", "nonsense"):
        assert real(url=url, **env).out.strip() == ""
    assert not file.exists()
