"""The commands in README.md run as they are printed."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.cli import Dcron

README = (Path(__file__).parents[2] / "README.md").read_text()
NEEDS_AN_AGENT = ("dcron agent", "dcron run")
NEEDS_A_RUN_OR_NODE = ("dcron cancel", "dcron retry", "dcron drain", "dcron undrain")

NO_SUCH_TIME = ("dcron quiet 20m",)
"""Its answer is no, and so is its exit code: a task of the README starts every five minutes."""


def _commands() -> list[str]:
    """Return the commands of console blocks, and those of the table of everyday commands."""
    blocks = re.findall(r"^\$ (dcron \w.*?)(?: {2,}#.*)?$", README, re.MULTILINE)
    table = README.partition("## Everyday commands")[2].partition("##")[0]
    rows = [line[1:].partition("` |")[0] + "`" for line in table.splitlines() if line.startswith("| `")]
    cells = [command for row in rows for command in re.findall(r"`(dcron .*?)`", row.replace("\\|", "|"))]
    return [command for command in [*blocks, *cells] if not command.startswith(NEEDS_AN_AGENT)]


@pytest.mark.slow
def test_every_command_of_the_readme_runs(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "true")
    (tmp_path / "deploy").write_text("0 3 * * * true\n")
    commands = _commands()
    assert len(commands) > 20
    codes = {}
    for command in commands:
        words = shlex.split(command.replace("/srv/crontabs/deploy", "deploy"))
        codes[command] = sqlite(*words[1:]).code
        if words[1] == "add" and "digest" in words:
            sqlite.done("run", "digest")
            sqlite.run_due()
    expected = {command: 4 if command.startswith(NEEDS_A_RUN_OR_NODE) else 0 for command in commands}
    expected |= dict.fromkeys(NO_SUCH_TIME, 1)
    assert codes == expected
