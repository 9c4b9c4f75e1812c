"""Real agents, one of them cut off for longer than its lease, with kept and stopped commands."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcron.database import open_database
from dcron.model import Run, RunState
from tests.support.cluster import AgentProcess, Cluster, processes_with, wait_for
from tests.support.file_link import FileLink
from tests.support.proxy import Proxy

Way = Proxy | FileLink
LEASE = 6.0
GOES_ON = "sleep 2048.5"
"""What the kept command runs. Nothing else has these words."""


@pytest.fixture
def way(database_url: str, tmp_path: Path) -> Iterator[Way]:
    """The way of one agent to the database."""
    database = open_database(database_url)
    if database.is_sqlite:
        yield FileLink(database_url, tmp_path / "way")
        return
    with Proxy(f"{database.address.url.query['host']}/.s.PGSQL.5432", random.Random(0)) as proxy:
        yield proxy


@pytest.fixture
def flag(tmp_path: Path) -> Path:
    """The file whose existence lets kept commands end."""
    return tmp_path / "over"


def start(team: Cluster, name: str, way: Way | None = None) -> AgentProcess:
    environment = {"DCRON_DB": way.url(team.url)} if way else None
    return team.start_agent(name, lease=LEASE, environment=environment)


def running(team: Cluster, task: str, node: str) -> list[Run]:
    return [run for run in team.runs(RunState.RUNNING, task=task) if run.node == node]


def causes(team: Cluster) -> set[int | None]:
    """Return the runs because of which occurrences of the kept task were skipped."""
    return {run.caused_by for run in team.runs(RunState.SKIPPED, task="backup")}


def cut_off(team: Cluster, way: Way, flag: Path) -> tuple[AgentProcess, Run, Run]:
    """Begin a kept and a stopped run on a node, cut it off, and wait until another has declared it dead."""
    agent = start(team, "web-1", way)
    team.wait_until_alive(1)
    loop = f"while [ ! -e {flag} ]; do sleep 0.1; done"
    team.add(
        "backup", "@every 5s", f"{team.entry('kept')}; {loop}; : {team.directory.name}", on_disconnect="keep"
    )
    team.add(
        "short", "0 0 1 1 *", f"{team.entry('stopped')}; {GOES_ON}", on_lost="retry", tries=2, backoff=0.1
    )
    team.crontab.run(team.crontab.get("short"))
    wait_for(lambda: len(team.ledger()) == 2, 20, "both commands run")
    (backup,), (short,) = (running(team, task, "web-1") for task in ("backup", "short"))
    start(team, "web-2")
    team.wait_until_alive(2)
    way.held = True
    wait_for(lambda: team.crontab.find_run(backup.id).unheard_since, 6 * LEASE, "the run is unheard")
    return agent, backup, short


def heal(way: Way) -> None:
    way.cut()
    way.held = False


def test_a_kept_command_outlives_an_outage_of_its_node(team: Cluster, way: Way, flag: Path) -> None:
    _, backup, short = cut_off(team, way, flag)
    lost = team.crontab.find_run(short.id)
    assert lost.state is RunState.LOST
    wait_for(lambda: running(team, "short", "web-2"), 20, "the stopped one is retried elsewhere")
    wait_for(lambda: backup.id in causes(team), 20, "an occurrence is skipped because of it")

    heal(way)
    wait_for(lambda: not team.crontab.find_run(backup.id).unheard_since, 20, "it is heard of again")
    assert backup.owner in {node.id for node in team.alive()}, "the node has kept its id"
    flag.touch()
    wait_for(lambda: team.crontab.find_run(backup.id).state.is_final, 20, "its end is recorded")
    assert team.crontab.find_run(backup.id).state is RunState.SUCCEEDED
    assert [words[-1] for words in team.ledger()].count("stopped") == 2
    assert len([words for words in team.ledger() if words[2] == str(backup.id)]) == 1


@pytest.mark.long
def test_its_end_is_recorded_after_an_outage_that_outlasts_it(team: Cluster, way: Way, flag: Path) -> None:
    _, backup, _ = cut_off(team, way, flag)
    flag.touch()
    wait_for(lambda: not processes_with(f": {team.directory.name}"), 20, "the command is over")
    assert team.crontab.find_run(backup.id).state is RunState.RUNNING
    heal(way)
    wait_for(lambda: team.crontab.find_run(backup.id).state is RunState.SUCCEEDED, 20, "its end is recorded")


@pytest.mark.long
def test_the_next_agent_says_what_became_of_it(team: Cluster, way: Way, flag: Path) -> None:
    """Once the agent alone is killed, and once all that could write down an end."""
    agent, backup, _ = cut_off(team, way, flag)
    agent.kill()
    wait_for(lambda: not processes_with(f": {team.directory.name}"), 20, "the command ends with its agent")
    assert team.crontab.find_run(backup.id).state is RunState.RUNNING
    start(team, "web-1")
    wait_for(lambda: team.crontab.find_run(backup.id).state is RunState.LOST, 20, "it is lost")
    assert "its agent died" in str(team.crontab.find_run(backup.id).reason)


@pytest.mark.long
def test_the_next_agent_settles_a_run_that_left_no_end(team: Cluster, way: Way, flag: Path) -> None:
    agent, backup, _ = cut_off(team, way, flag)
    for pid in (agent.guard(), agent.warden(), agent.process.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in (agent.guard(), agent.warden()):
        os.kill(pid, signal.SIGKILL)
    agent.kill()
    start(team, "web-1")
    wait_for(lambda: team.crontab.find_run(backup.id).state is RunState.LOST, 20, "it is lost")
    assert "how it ended is unknown" in str(team.crontab.find_run(backup.id).reason)
    wait_for(lambda: not processes_with(f": {team.directory.name}"), 20, "nothing of it is left")


@pytest.mark.long
def test_a_run_that_a_person_gave_up_ends_when_its_node_is_back(team: Cluster, way: Way, flag: Path) -> None:
    _, backup, _ = cut_off(team, way, flag)
    lost = team.crontab.give_up(backup.id)
    assert (lost.state, lost.cancel_requested_by) == (RunState.LOST, "tester@here")
    wait_for(lambda: running(team, "backup", "web-2"), 20, "the task runs elsewhere")
    heal(way)
    wait_for(lambda: len(team.alive()) == 2, 20, "the node is back")
    marker = f": {team.directory.name}"
    wait_for(lambda: len(processes_with(marker)) == 1, 20, "the other one alone goes on")
    assert team.crontab.find_run(backup.id).state is RunState.LOST
