"""Agents that die, freeze or stop: what happens to their commands and runs."""

import os
import signal
import time
import uuid

import pytest

from dcron.model import RunState
from tests.support.cluster import Cluster, processes_with, wait_for

LEASE = 4.0
SLOW_HAND_OVER = """
import time
from dcron.agent.starting import Starter
from dcron.__main__ import main

hand_over = Starter._hand_over

def slowly(*arguments):
    time.sleep(2)
    hand_over(*arguments)

Starter._hand_over = slowly
main()
"""
"""An agent that waits between the commit of a start and its command."""


@pytest.fixture
def marker() -> str:
    """A number of seconds to sleep that no other process sleeps: it can be found in /proc."""
    return f"300.{uuid.uuid4().int % 10**12}"


def family(marker: str) -> str:
    """A command with a child, a setsid'ed child and a double-forked grandchild."""
    daemon = f'(setsid sh -c "sleep {marker} & sleep {marker} &" &)'
    return f"sleep {marker} & setsid sleep {marker} & {daemon}; sleep {marker}; true"


def start_family(team: Cluster, marker: str) -> int:
    """Run the command on some agent; its run id, once all of it runs."""
    task = team.add("family", "0 0 1 1 *", family(marker))
    run = team.crontab.run(task)
    wait_for(lambda: len(processes_with(f"sleep\0{marker}")) == 5, 10, "the whole family runs")
    return run.id


def test_a_killed_agent_s_commands_and_children_are_gone_in_two_seconds(team: Cluster, marker: str) -> None:
    agent = team.start_agent("dying")
    team.wait_until_alive(1)
    start_family(team, marker)
    agent.kill()
    wait_for(lambda: not processes_with(marker), 2.0, "no process of the family is left")


def test_another_node_takes_over_and_the_run_is_lost_after_the_lease(team: Cluster, marker: str) -> None:
    team.add("tick", "@every 1s", team.entry("tick"))
    dying = team.start_agent("dying", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    team.start_agent("heir", lease=LEASE)
    team.wait_until_alive(2)
    dying.kill()
    died = team.crontab.now()
    wait_for(
        lambda: team.crontab.find_run(run_id).state is RunState.LOST, 2 * LEASE, "the run is marked lost"
    )
    lost = team.crontab.find_run(run_id)
    assert lost.reason
    assert lost.reason.endswith("died while it ran")
    assert lost.dead_at is not None
    wait_for(
        lambda: [run for run in team.runs(RunState.SUCCEEDED, task="tick") if run.due_at > died],
        2 * LEASE,
        "the other node takes over",
    )
    assert max(team.starts_of_occurrences().values()) == 1


def test_a_frozen_agents_commands_are_dead_before_its_lease_is_over(team: Cluster, marker: str) -> None:
    frozen = team.start_agent("frozen", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    team.freeze(frozen)
    wait_for(lambda: not processes_with(marker), LEASE, "the warden ends the commands in time")
    team.start_agent("other", lease=LEASE)
    wait_for(lambda: team.crontab.find_run(run_id).state is RunState.LOST, 5 * LEASE, "it is lost")
    before = {node.id for node in team.alive()}
    frozen.thaw()
    wait_for(lambda: len(team.alive()) == 2, 3 * LEASE, "the thawed agent is back as another node")
    assert not {node.id for node in team.alive() if node.name == "frozen"} & before


def test_a_killed_warden_takes_its_commands_with_it_and_the_agent_goes_on(team: Cluster, marker: str) -> None:
    agent = team.start_agent("web", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    os.kill(agent.warden(), signal.SIGKILL)
    wait_for(lambda: not processes_with(marker), 15, "the agent sweeps what the warden left")
    wait_for(lambda: team.crontab.find_run(run_id).state is RunState.LOST, 15, "the run is lost")
    task = team.add("after", "0 0 1 1 *", team.entry("after"))
    run = team.crontab.run(task)
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.SUCCEEDED, 15, "the agent works again")


def test_a_draining_agent_lets_runs_finish_and_takes_no_new_ones(team: Cluster) -> None:
    agent = team.start_agent("web", "--grace", "60s", lease=LEASE)
    team.wait_until_alive(1)
    may_end = team.directory / "may-end"
    command = f"until [ -e {may_end} ]; do sleep 0.1; done; {team.entry('done')}"
    run = team.crontab.run(team.add("slow", "0 0 1 1 *", command))
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.RUNNING, 10, "the run has begun")
    agent.terminate()
    wait_for(lambda: "stops when" in agent.log.read_text(), 10, "it takes nothing more")
    later = team.crontab.run(team.add("later", "0 0 1 1 *", team.entry("later")))
    may_end.touch()
    assert agent.wait(15) == 0
    assert team.crontab.find_run(run.id).state is RunState.SUCCEEDED
    assert team.crontab.find_run(later.id).state is RunState.WAITING
    assert [entry[-1] for entry in team.ledger()] == ["done"]
    assert team.alive() == []


def test_an_agent_that_stops_in_the_middle_of_a_start_lets_that_run_finish(team: Cluster) -> None:
    program = ("-c", SLOW_HAND_OVER)
    agent = team.start_agent("web", "--grace", "60s", lease=LEASE, program=program)
    team.wait_until_alive(1)
    run = team.crontab.run(team.add("slow", "0 0 1 1 *", team.entry("done")))
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.RUNNING, 10, "its start is committed")
    agent.terminate()
    assert agent.wait(30) == 0
    assert team.crontab.find_run(run.id).state is RunState.SUCCEEDED
    assert [entry[-1] for entry in team.ledger()] == ["done"]


def test_a_second_sigterm_stops_at_once(team: Cluster, marker: str) -> None:
    agent = team.start_agent("web", "--grace", "60s", lease=LEASE)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    agent.terminate()
    wait_for(lambda: "stops when" in agent.log.read_text(), 10, "it has heard the first")
    time.sleep(0.3)  # two signals within 0.1 s count as one
    assert agent.process.poll() is None
    agent.terminate()
    assert agent.wait(10) == 0
    assert not processes_with(marker)
    stopped = team.crontab.find_run(run_id)
    assert (stopped.state, stopped.reason) == (RunState.LOST, "stopped because its agent was stopped")


def test_run_now_starts_within_a_fraction_of_a_second(team: Cluster) -> None:
    team.start_agent("web", lease=30)
    team.wait_until_alive(1)
    task = team.add("now", "0 0 1 1 *", "true")
    delays = []
    for _ in range(5):
        run = team.crontab.run(task)
        wait_for(lambda run=run: team.crontab.find_run(run.id).state.is_final, 5, "it ran")  # type: ignore[misc]
        done = team.crontab.find_run(run.id)
        assert done.started_at
        delays.append((done.started_at - done.due_at).total_seconds())
    assert sorted(delays)[2] < 0.4, delays


def test_cancel_takes_effect_within_two_seconds(team: Cluster, marker: str) -> None:
    team.start_agent("web", lease=30)
    team.wait_until_alive(1)
    run_id = start_family(team, marker)
    team.crontab.cancel(run_id)
    wait_for(lambda: team.crontab.find_run(run_id).state is RunState.CANCELLED, 2, "the run is cancelled")
    assert team.crontab.find_run(run_id).reason == "cancelled by tester@here"
    assert not processes_with(marker)


def test_output_is_readable_while_the_command_runs(team: Cluster) -> None:
    team.start_agent("web", lease=30)
    team.wait_until_alive(1)
    run = team.crontab.run(team.add("talk", "0 0 1 1 *", "printf 'one\\n\\377'; sleep 3; echo two >&2"))
    wait_for(lambda: team.crontab.output(run.id, 0), 10, "the first chunk is there")
    assert team.crontab.find_run(run.id).state is RunState.RUNNING
    wait_for(lambda: team.crontab.find_run(run.id).state.is_final, 10, "it ends")
    chunks = team.crontab.output(run.id, 0)
    assert [(chunk.stream, chunk.data) for chunk in chunks] == [("out", b"one\n\xff"), ("err", b"two\n")]


def test_what_agent_and_warden_leave_when_killed_is_gone_in_two_seconds(team: Cluster, marker: str) -> None:
    dying = team.start_agent("web", lease=LEASE)
    team.wait_until_alive(1)
    start_family(team, marker)
    warden = dying.warden()
    dying.freeze()
    os.kill(warden, signal.SIGKILL)
    dying.kill()
    wait_for(lambda: not processes_with(marker), 2, "the guard ends the commands")


def test_what_outlives_agent_warden_and_guard_is_ended_by_the_next_agent_on_its_host(team: Cluster) -> None:
    dying = team.start_agent("web")
    team.wait_until_alive(1)
    seconds = f"300.{os.getpid()}"
    team.crontab.run(team.add("stays", "0 0 1 1 *", f"setsid sleep {seconds} & exec sleep {seconds}"))
    wait_for(lambda: len(processes_with(seconds)) == 2, 10, "both of its processes run")
    children = (dying.guard(), dying.warden())
    dying.freeze()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in children:
            os.kill(pid, number)
    dying.kill()
    assert len(processes_with(seconds)) == 2, "no process is left to end them"
    team.start_agent("web")
    wait_for(lambda: not processes_with(seconds), 15, "they are ended")
