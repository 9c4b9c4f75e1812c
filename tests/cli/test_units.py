"""systemd accepts the units in docs/cli.md."""

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dcron.cli.app import main

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
UNITS = re.findall(r"```ini\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


def parsed(unit: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    return parser


def test_there_is_one_with_root_and_one_without() -> None:
    assert [parsed(unit).has_option("Service", "User") for unit in UNITS] == [False, True]


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_gives_the_agent_time_to_stop_and_a_spool_that_exists(unit: str) -> None:
    service = parsed(unit)["Service"]
    grace = re.search(r"--grace (\d+)s", service["ExecStart"])
    assert grace
    assert int(service["TimeoutStopSec"]) >= int(grace[1]) + 20
    assert service["Environment"] == f"DCRON_SPOOL=/var/lib/{service['StateDirectory']}"
    assert service["KillMode"] == "mixed"


@pytest.mark.parametrize("unit", UNITS)
def test_the_command_of_a_unit_is_one_that_dcron_takes(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, *words = parsed(unit)["Service"]["ExecStart"].split()
    assert main([*words, "--help"]) == 0
    assert "--grace" in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_has_nothing_to_say_against_a_unit(unit: str, tmp_path: Path) -> None:
    known = unit.replace("/usr/local/bin/dcron", "/bin/true").replace(
        "User=cron-runner", f"User={os.getuid()}"
    )
    path = tmp_path / "dcron-agent.service"
    path.write_text(known)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "dcron-agent.service" in line]
    assert own == []
    path.write_text(known.replace("KillMode=mixed", "KillMood=mixed"))
    broken = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "KillMood" in broken.stderr, "it sees what is wrong"
