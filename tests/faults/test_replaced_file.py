"""A SQLite file that is deleted or replaced under a running agent."""

import shutil
import sqlite3
import uuid
from pathlib import Path

import pytest

from dcron.model import RunState
from dcron.store.nodes.epochs import GAP
from tests.support.cluster import AgentProcess, Cluster, cluster, processes_with, wait_for

LEASE = 4.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dcron.db"


def reports(agent: AgentProcess, what: str) -> None:
    wait_for(lambda: what in agent.log.read_text(), 15, f"the agent says that {what}")


def start_long(team: Cluster) -> int:
    """A run that prints, and goes on for long; its id, once the database knows what it printed."""
    run = team.crontab.run(team.crontab.get("long"))
    wait_for(lambda: team.crontab.output(run.id, 0), 10, "it has printed something")
    return run.id


def test_an_agent_whose_file_is_replaced_goes_on_in_the_new_one(path: Path, tmp_path: Path) -> None:
    marker = f"300.{uuid.uuid4().int % 10**12}"
    with cluster(f"sqlite:///{path}", tmp_path) as team:
        team.add("long", "0 0 1 1 *", f"echo old; sleep {marker}")
        team.add("again", "0 0 1 1 *", "echo new")
        agent = team.start_agent("web", lease=LEASE)
        team.wait_until_alive(1)
        backup = tmp_path / "backup.db"
        with sqlite3.connect(path) as connection:
            connection.execute("VACUUM INTO ?", [str(backup)])
        connection.close()
        run_id = start_long(team)

        path.unlink()
        reports(agent, "the file is no longer there")
        assert not path.exists()

        backup.replace(path)
        reports(agent, "was replaced")
        reports(agent, "go on above")
        wait_for(lambda: not processes_with(f"sleep\0{marker}"), 10, "its command is ended")
        team.database.close()
        again = team.crontab.run(team.crontab.get("again"))
        assert again.id > run_id + GAP  # an id is of one run alone, in whichever file
        wait_for(lambda: team.crontab.find_run(again.id).state is RunState.SUCCEEDED, 15, "it goes on")
        assert [chunk.data for chunk in team.crontab.output(again.id, 0)] == [b"new\n"]
        agent.terminate()
        assert agent.wait(15) == 0


def test_an_agent_waits_for_a_copy_that_is_not_complete(path: Path, tmp_path: Path) -> None:
    with cluster(f"sqlite:///{path}", tmp_path) as team:
        agent = team.start_agent("web", lease=LEASE)
        reports(agent, f"lease {LEASE:g}s")  # an agent that is still starting would make its tables
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        path.unlink()
        path.touch()
        reports(agent, "has no dcron tables")
        assert path.stat().st_size == 0
        path.write_bytes(copy.read_bytes())
        team.database.close()
        run = team.crontab.run(team.add("task", "0 0 1 1 *", "true"))
        wait_for(lambda: team.crontab.find_run(run.id).state is RunState.SUCCEEDED, 15, "it works again")
