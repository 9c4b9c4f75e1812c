"""A warden that is killed while it starts is replaced."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from dcron.agent.agent import Agent
from dcron.agent.settings import AgentSettings
from dcron.database import Database, open_database
from dcron.errors import WardenFailed
from dcron.warden import client


def kill_wardens(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Kill the next wardens before they are ready; return the list of all that are started."""
    spawn, started = client._spawn_warden, []

    def spawned(*given: object) -> object:
        ours, process = spawn(*given)  # type: ignore[arg-type]
        started.append(process.pid)
        if len(started) <= number:
            os.kill(process.pid, signal.SIGKILL)
        return ours, process

    monkeypatch.setattr(client, "_spawn_warden", spawned)
    return started


def agent_of(database: Database, directory: Path) -> Agent:
    return Agent(database, AgentSettings(name="web-1", spool=directory, slots=1, grace=0.5))


def test_a_warden_that_is_killed_while_it_starts_is_replaced(
    monkeypatch: pytest.MonkeyPatch, database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started = kill_wardens(monkeypatch, 2)
    with closing(open_database(database_url)) as database:
        agent_of(database, tmp_path / "spool").run(once=True)
    assert len(started) == 3
    assert caplog.text.count("starting another one") == 2


@pytest.mark.slow
def test_an_agent_that_never_gets_a_warden_gives_up(
    monkeypatch: pytest.MonkeyPatch, database_url: str, tmp_path: Path
) -> None:
    started = kill_wardens(monkeypatch, 1000)
    with closing(open_database(database_url)) as database, pytest.raises(WardenFailed, match="did not start"):
        agent_of(database, tmp_path / "spool").run(once=True)
    assert len(started) == 10
