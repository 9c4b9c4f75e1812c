"""What `dcron agent` says, and how it ends."""

import io
import json
import logging
import os
import re
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import update

from dcron import agent as agent_package
from dcron.cli.running.agent_log import AgentLog, LogFormat
from dcron.schema.tables import maintenance_jobs
from dcron.store.retention.walk import JOB
from tests.support.agents import agent
from tests.support.cli import DCRON, Dcron, real
from tests.support.patience import PATIENCE, until
from tests.support.retention import insert_history
from tests.support.stage import Stage

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


def test_pruning_is_announced_where_history_is_older_than_a_day(sqlite: Dcron) -> None:
    stage = Stage(sqlite.url)
    stage.now = datetime.now(UTC)
    task = stage.task("one", "@yearly")
    insert_history(stage, [{"task_id": task.id, "days": 0.5}])
    assert real("agent", "--once", url=sqlite.url).code == 0
    waits = {"position": {"wait_until": (stage.now + timedelta(hours=9)).isoformat()}}
    stage.execute(update(maintenance_jobs).where(maintenance_jobs.c.name == JOB).values(waits))
    assert "old history" not in real("agent", "--once", url=sqlite.url).err
    insert_history(stage, [{"task_id": task.id, "days": 2}])
    stage.database.close()
    assert "old history is pruned from" in real("agent", "--once", url=sqlite.url).err


KEYS = {"time", "level", "message", "node", "run", "task", "event"}


def test_the_log_as_json_has_stable_keys(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "exit 3")
    run = dcron.done("run", "one", "--json").json["id"]
    ran = real("agent", "--once", "--name", "web-9", "--log-format", "json", url=dcron.url, TZ="Asia/Tokyo")
    messages = [json.loads(line) for line in ran.err.splitlines()]
    assert set().union(*messages) == KEYS
    events = {each["event"]: each for each in messages}
    assert {"node-registered", "run-started", "run-ended", "node-ended"} <= events.keys()
    for name, level in (("run-started", "info"), ("run-ended", "warning")):
        found = events[name]
        assert (found["level"], found["run"], found["task"]) == (level, run, "one")
        assert found["node"].startswith("web-9-")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["time"])


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_journal_gets_priorities_and_no_time(sqlite: Dcron, tmp_path: Path, style: str) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "exit 3")
    sqlite.done("run", "one")
    log = tmp_path / "journal"
    with log.open("w") as stream:
        status = os.fstat(stream.fileno())
        journal = f"{status.st_dev}:{status.st_ino}"
        words = [str(DCRON), "agent", "--once", "--log-format", style, "--db", sqlite.url]
        environment = {**os.environ, "JOURNAL_STREAM": journal}
        assert subprocess.run(words, stderr=stream, env=environment, timeout=60, check=False).returncode == 0
    lines = log.read_text().splitlines()
    assert {line[:3] for line in lines} == {"<6>", "<4>"}
    [ended] = [line for line in lines if "exit 3" in line]
    assert ended.startswith("<4>run " if style == "text" else '<4>{"time": ')


def test_a_traceback_keeps_its_lines_except_in_json() -> None:
    for style, count in (("text", 5), ("json", 1)):
        stream = io.StringIO()
        try:
            raise RuntimeError("postgresql://cron:secret@db/cron")
        except RuntimeError as error:
            record = logging.LogRecord(
                "dcron", logging.ERROR, "", 1, "it broke", (), (type(error), error, None)
            )
            record.exc_info = (type(error), error, error.__traceback__)
            AgentLog(stream, cast("LogFormat", style)).handle(record)
        assert len(stream.getvalue().splitlines()) == count, stream.getvalue()
        assert "secret" not in stream.getvalue()


def test_every_event_is_documented() -> None:
    source = Path(agent_package.__file__).parents[1]
    found = {
        event
        for path in source.rglob("*.py")
        for event in re.findall(r'"event": "([a-z-]+)"', path.read_text())
    }
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    assert sorted(event for event in found if f"`{event}`" not in page) == []


def test_another_format_is_wrong_usage(
    sqlite: Dcron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sqlite("agent", "--once", "--log-format", "xml").code == 2
    config = tmp_path / "config.toml"
    config.write_text('[agent]\nlog-format = "xml"\n')
    monkeypatch.setenv("DCRON_CONFIG", str(config))
    wrong = sqlite("agent", "--once")
    assert (wrong.code, wrong.err) == (2, "dcron: --log-format xml: give text or json\n")


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
        until(lambda: sqlite.done("view", "--run", str(run), "--json").json["state"] == "running")
        for _ in range(50):
            process.send_signal(number)
        assert process.wait(PATIENCE) == 0
    assert sqlite.done("view", "--run", str(run), "--json").json["state"] == "succeeded"
    assert sqlite.done("nodes", "--json").json[0]["state"] == "stopped"
