"""Agents with --isolate: nothing of theirs outlives them, even when no process of dcron is left to end it."""

import os
import shutil
import signal
import sys
import uuid
from pathlib import Path

import pytest

from dcron.model import RunState
from dcron.warden.isolation import why_unavailable
from tests.support.cluster import AgentProcess, Cluster, processes_with, wait_for
from tests.support.patience import PATIENCE
from tests.support.processes import outcome

LEASE = 4.0

_REASON = why_unavailable()
needs_namespaces = pytest.mark.skipif(_REASON is not None, reason=f"cannot isolate here: {_REASON}")


@pytest.fixture
def marker() -> str:
    """A number of seconds to sleep that no other process sleeps: it can be found in /proc."""
    return f"300.{uuid.uuid4().int % 10**12}"


def start_family(team: Cluster, marker: str, **fields: object) -> int:
    """Run a command that leaves its session, its parents and its environment; its run id."""
    escaped = f"(setsid env -i sh -c 'sleep {marker} & sleep {marker} &' &)"
    task = team.add("family", "0 0 1 1 *", f"trap '' TERM; {escaped}; sleep {marker}; true", **fields)
    run = team.crontab.run(task)
    wait_for(lambda: len(processes_with(f"sleep\0{marker}")) == 3, 10, "the whole family runs")
    return run.id


def kill_all_three(agent: AgentProcess) -> None:
    """Kill agent, guard and warden in one moment: frozen first, so that none can see another die."""
    pids = [agent.process.pid, agent.guard(), agent.warden()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    agent.process.wait(PATIENCE)


@needs_namespaces
@pytest.mark.parametrize("user", [None, "nobody"])
def test_nothing_outlives_agent_guard_and_warden_killed(team: Cluster, marker: str, user: str | None) -> None:
    agent = team.start_agent("dying", "--isolate", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker, user=user)
    kill_all_three(agent)
    wait_for(lambda: not processes_with(marker), 2.0, "no process of the family is left")
    team.start_agent("heir", lease=LEASE)
    wait_for(lambda: team.crontab.find_run(run_id).state is RunState.LOST, 20, "the run is marked lost")


@needs_namespaces
@pytest.mark.parametrize("who", ["guard", "warden"])
def test_an_agent_goes_on_as_a_new_node_without_guard_or_warden(team: Cluster, marker: str, who: str) -> None:
    agent = team.start_agent("lasting", "--isolate", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    os.kill(agent.guard() if who == "guard" else agent.warden(), signal.SIGKILL)
    wait_for(lambda: not processes_with(marker), 2.0, "no process of the family is left")
    wait_for(lambda: team.crontab.find_run(run_id).state is RunState.LOST, 10, "the run is marked lost")
    team.wait_until_alive(1)
    start = team.crontab.run(team.add("next", "0 0 1 1 *", "true"))
    wait_for(lambda: team.crontab.find_run(start.id).state is RunState.SUCCEEDED, 15, "the next run succeeds")


@pytest.mark.long
@needs_namespaces
def test_isolated_commands_see_each_other_alone_and_end_as_others_do(team: Cluster, marker: str) -> None:
    agent = team.start_agent("only", "--isolate", lease=LEASE)
    team.wait_until_alive(1)
    seen = team.directory / "seen"
    task = team.add("look", "0 0 1 1 *", f"ls -d /proc/[0-9]* >{seen}; sleep {marker}", timeout=6.0)
    run = team.crontab.run(task)
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.FAILED, 15, "its time is over")
    assert "/proc/1\n" in seen.read_text()
    assert f"/proc/{os.getpid()}\n" not in seen.read_text()
    start_family(team, marker)
    agent.terminate()
    assert agent.wait(45) == 0
    assert processes_with(marker) == []


def test_what_was_killed_without_isolation_is_ended_by_the_next_agent(team: Cluster, marker: str) -> None:
    agent = team.start_agent("again", lease=LEASE)
    team.wait_until_alive(1)
    task = team.add("plain", "0 0 1 1 *", f"sleep {marker}; true")
    run = team.crontab.run(task)
    wait_for(lambda: processes_with(f"sleep\0{marker}"), 10, "it runs")
    kill_all_three(agent)
    assert processes_with(marker)
    team.start_agent("again", lease=LEASE)
    wait_for(lambda: not processes_with(marker), 10, "the next agent has ended it")
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.LOST, 20, "the run is marked lost")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_next_agent_finds_what_three_killed_left_by_its_cgroups(team: Cluster, marker: str) -> None:
    """Also what cleared its environment; and empty cgroups do not pile up."""
    agent = team.start_agent("again", lease=LEASE)
    team.wait_until_alive(1)
    start_family(team, marker, user="nobody")
    inside = {Path(f"/proc/{pid}/cgroup").read_text().split("0::")[-1] for pid in processes_with(marker)}
    if not any("dcron-run-" in each for each in inside):
        pytest.skip("no cgroup of version 2 is lent to us")
    (node,) = team.alive()
    assert cgroups_of(node.id)
    kill_all_three(agent)
    assert len(processes_with(f"sleep\0{marker}")) == 3
    team.start_agent("again", lease=LEASE)
    wait_for(lambda: not processes_with(marker), 10, "the next agent has ended it")
    wait_for(lambda: not cgroups_of(node.id), 10, "its cgroups are gone")


def cgroups_of(node_id: str) -> list[Path]:
    """Return the cgroups of a node's runs."""
    return list(Path("/sys/fs/cgroup").rglob(f"dcron-run-*-{node_id}"))


def test_an_agent_that_may_not_isolate_says_what_it_needs(database_url: str, tmp_path: Path) -> None:
    limited = ["setpriv", "--bounding-set=-sys_admin"] if os.geteuid() == 0 else []
    if limited and not shutil.which("setpriv"):
        pytest.skip("as root it needs setpriv (util-linux)")
    done = outcome(
        [*limited, sys.executable, "-m", "dcron", "agent", "--isolate", "--once"],
        env={**os.environ, "DCRON_DB": database_url, "DCRON_SPOOL": str(tmp_path)},
    )
    assert done.returncode == 2
    assert "--isolate: commands cannot be isolated here: it needs root with CAP_SYS_ADMIN" in done.stderr
