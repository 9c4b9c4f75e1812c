"""Real agents under two accounts: each takes what it can begin, and what one cannot begin the other runs."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcron.model import RunState
from tests.support.cluster import Cluster, wait_for

NEVER = "0 0 1 1 *"
ACCOUNT = "dcron-test"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make an account")


@pytest.fixture
def account() -> Iterator[str]:
    """An account of this machine."""
    subprocess.run(["useradd", "--no-create-home", "--home-dir", "/tmp", ACCOUNT], check=True)
    yield ACCOUNT
    subprocess.run(["userdel", "--force", ACCOUNT], check=False)


def under(account: str) -> tuple[str, str]:
    """What Python runs so that the agent is under this account, and still reads the test's files."""
    found = pwd.getpwnam(account)
    words = ["setpriv", f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups"]
    words += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override", sys.executable, "-m", "dcron"]
    return "-c", f"import os, sys; os.execvp('setpriv', [*{words!r}, *sys.argv[1:]])"


@needs_root
def test_a_task_with_an_account_runs_where_that_account_can_be_had(account: str, team: Cluster) -> None:
    plain = team.start_agent("plain", program=under(account), lease=20)
    team.wait_until_alive(1, within=60)
    as_root = team.add("as-root", NEVER, "id -un", user="root")
    as_account = team.add("as-account", NEVER, "id -un", user=account)
    run = team.crontab.run(as_root)
    own = team.crontab.run(as_account)
    wait_for(lambda: team.crontab.find_run(own.id).state is RunState.SUCCEEDED, 30, "its own is run")
    assert team.crontab.find_run(run.id).state is RunState.WAITING
    assert team.crontab.view("as-root").unserved == "no living agent runs commands as root"
    [node] = team.alive()
    assert (node.account, node.any_account) == (account, False)
    team.start_agent("root", lease=20)
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.SUCCEEDED, 30, "root's agent takes it")
    assert team.crontab.find_run(run.id).node == "root"
    assert not team.runs(RunState.FAILED)
    assert plain.process.poll() is None


def test_a_command_that_one_agent_cannot_start_is_run_by_the_other(team: Cluster, tmp_path: Path) -> None:
    """Both run here, so what the first lacks is a program that only comes to be when it has refused."""
    program = tmp_path / "program"
    task = team.add("job", NEVER, str(program), argv=(str(program),))
    first = team.start_agent("first", lease=20)
    team.start_agent("second", lease=20)
    team.wait_until_alive(2, within=60)
    team.freeze(team.agents[1])
    run = team.crontab.run(task)
    wait_for(lambda: team.crontab.find_run(run.id).state is RunState.FAILED, 3, "the first refuses it")
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    team.agents[1].thaw()
    wait_for(lambda: team.runs(RunState.SUCCEEDED), 30, "another agent runs it")
    [again] = team.runs(RunState.SUCCEEDED)
    refused = team.crontab.find_run(run.id)
    assert refused.reason == f"could not be started: there is no program '{program}'; it goes to another node"
    assert (again.retry_of, again.attempt, again.owner == refused.owner) == (run.id, 1, False)
    assert list(again.refused_by or ()) == [refused.owner]
    assert first.process.poll() is None


def test_a_command_that_no_agent_can_start_is_tried_once_on_each(team: Cluster) -> None:
    task = team.add("job", NEVER, "/no/such/program", argv=("/no/such/program",))
    for number in range(3):
        team.start_agent(f"web-{number}", lease=20)
    team.wait_until_alive(3, within=60)
    team.crontab.run(task)
    wait_for(lambda: [run for run in team.runs(RunState.FAILED) if run.dead_at], 30, "it fails for good")
    failed = team.runs(RunState.FAILED)
    assert len({run.owner for run in failed}) == len(failed) == 3
    assert {run.attempt for run in failed} == {1}
    assert "could not start it either" in (failed[-1].reason or "")


def test_a_command_that_waits_for_a_node_that_dies_fails(team: Cluster) -> None:
    task = team.add("job", NEVER, "/no/such/program", argv=("/no/such/program",))
    for number in range(2):
        team.start_agent(f"web-{number}", lease=30)
    team.start_agent("web-2", lease=10)  # long enough for two refusals on a busy machine
    team.wait_until_alive(3, within=60)
    team.freeze(team.agents[2])
    team.crontab.run(task)
    wait_for(lambda: len(team.runs(RunState.FAILED)) >= 2, 3, "two refuse it")
    team.agents[2].kill()
    wait_for(lambda: [run for run in team.runs(RunState.FAILED) if run.dead_at], 30, "it fails for good")
    first, second, last = team.runs(RunState.FAILED)
    assert last.owner is None
    assert set(last.refused_by or ()) == {first.owner, second.owner}
    assert last.reason.startswith("no other node is left that could start it (web-")  # type: ignore[union-attr]
