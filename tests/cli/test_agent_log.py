"""What `dcron agent` says, and how it ends."""

import re
import signal
from pathlib import Path

import pytest

from tests.support.agents import agent
from tests.support.cli import Dcron, real, until

pytestmark = pytest.mark.slow

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (info|warning|error) \S.*")


def test_the_log_is_one_line_a_message_in_utc_on_stderr(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "exit 3")
    dcron.done("run", "one")
    ran = real("agent", "--once", "--name", "web-9", "--slots", "1", url=dcron.url, TZ="Asia/Tokyo")
    assert (ran.code, ran.out) == (0, "")
    lines = ran.err.splitlines()
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert any("web-9" in line for line in lines)
    assert any("warning" in line and "exit 3" in line for line in lines)
    assert dcron.done("nodes", "--json").json[-1]["state"] == "stopped"


def test_the_node_is_named_by_the_config_file_or_the_host(sqlite: Dcron, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[agent]\nname = "configured"\n')
    assert real("agent", "--once", url=sqlite.url, DCRON_CONFIG=str(config)).code == 0
    assert sqlite.done("nodes", "--json").json[0]["name"] == "configured"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_in_a_burst_stop_an_agent_once(sqlite: Dcron, number: signal.Signals) -> None:
    """`timeout` sends two, and a terminal with a wrapper too: what runs has its grace all the same."""
    sqlite.done("add", "-n", "slow", "@yearly", "sleep 2; echo whole")
    with agent(sqlite, "web-1", "--grace", "15s") as process:
        run = sqlite.done("run", "slow", "--json").json["id"]
        until(lambda: sqlite.done("runs", "--id", str(run), "--json").json["state"] == "running")
        for _ in range(50):
            process.send_signal(number)
        assert process.wait(20) == 0
    assert sqlite.done("runs", "--id", str(run), "--json").json["state"] == "succeeded"
    assert sqlite.done("nodes", "--json").json[0]["state"] == "stopped"
