"""The commands in README.md run as they are printed."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.cli import Dcron

README = (Path(__file__).parents[2] / "README.md").read_text()
SHEET = README.partition("## Everyday commands")[2].split("```")[1]
NEEDS_AN_AGENT = ("dcron agent", "dcron run ")
"""They do not end without one."""
NEEDS_A_NODE = ("dcron drain", "dcron undrain")
ASKS = ("dcron rm", "dcron undo")


def _blocks() -> list[str]:
    """Return the commands of console blocks."""
    return re.findall(r"^\$ (dcron \w.*?)(?: {2,}#.*)?$", README, re.MULTILINE)


def _sheet() -> list[str]:
    """Return the everyday commands."""
    cells = re.findall(r"(?:^| {2})(dcron (?:(?! {2}).)*)", SHEET, re.MULTILINE)
    return [command for cell in cells for command in re.split(r"; (?=dcron)", cell)]


def _words(command: str) -> list[str]:
    """Return the words of a command up to a pipe."""
    words = shlex.split(command)
    return words[1 : words.index("|")] if "|" in words else words[1:]


@pytest.fixture
def here(sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dcron:
    """A crontab with the context `prod`, in a directory with files to import."""
    monkeypatch.chdir(tmp_path)
    sqlite.environment |= {"EDITOR": "true", "DCRON_CONFIG": str(tmp_path / "config.toml")}
    (tmp_path / "config.toml").write_text(f'[context.prod]\ndatabase = "{sqlite.url}"\n')
    for name in ("deploy", "crontab"):
        (tmp_path / name).write_text("0 3 * * * true\n")
    return sqlite


@pytest.mark.slow
def test_every_command_in_a_block_runs(here: Dcron) -> None:
    commands = [command for command in _blocks() if not command.startswith(NEEDS_AN_AGENT)]
    assert len(commands) > 5
    codes = {}
    for command in commands:
        codes[command] = here(*_words(command.replace("/srv/crontabs/deploy", "deploy"))).code
    assert codes == dict.fromkeys(commands, 0)


@pytest.mark.slow
def test_every_everyday_command_runs(here: Dcron) -> None:
    commands = [command for command in _sheet() if not command.startswith(NEEDS_AN_AGENT)]
    assert len(commands) > 25
    codes, run = {}, ""
    for command in commands:
        if "812" in command and not run:
            run = str(here.done("run", "backup", "--json").json["id"])
        typed = _words(command.replace("812", run or "812"))
        more = ["-f"] if command.startswith(ASKS) else ["--user", "me"] if "import" in typed else []
        codes[command] = here(*typed, *more).code
        if typed[0] == "add" and "backup" in typed:
            here.done("run", "backup")
            here.run_due()
            here.done("add", "-n", "shop-a", "@yearly", "true")
    expected = {command: 4 if command.startswith(NEEDS_A_NODE) else 0 for command in commands}
    expected |= {"dcron alerts": 1, "dcron logs backup -f": 127}  # there is no program `backup` here
    assert codes == expected
