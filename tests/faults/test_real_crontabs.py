"""Crontab files of real machines: import them, run them with an agent, and check what the commands did."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dcron.crontabfile import read
from dcron.model import RunState, Trigger
from dcron.nodepolicy.command import DEFAULT_PATH
from tests.support.cluster import Cluster

FILES = Path(__file__).parent.parent / "data" / "crontabs"
HARMLESS = {"anacron": True, "mdadm": True, "munin-node": True, "sysstat": True, "user-crontab": False}
"""Real files that do nothing to a machine without their programs; True for those with a user column."""


def run_all(team: Cluster, name: str, scratch: Path) -> dict[str, tuple[RunState, str, bytes]]:
    """Import a file, let an agent run each of its jobs once, and return how it ended: by task."""
    text = (
        (FILES / name).read_text()
        if name != "user-crontab"
        else f"HOME={scratch}\n{(FILES / name).read_text()}"
    )
    lines = read(text, source=name, timezone="UTC", system=HARMLESS[name]).definitions
    team.crontab.import_tasks(lines)
    for line in lines:
        team.crontab.run(team.crontab.get(line.name))
    assert team.start_agent("web", "--once", lease=30).wait(60) == 0
    return {
        run.task: (
            run.state,
            run.reason or "",
            b"".join(chunk.data for chunk in team.crontab.output(run.id, 0)),
        )
        for run in team.runs()
        if run.trigger is Trigger.MANUAL
    }


@pytest.mark.parametrize("name", [name for name, system in HARMLESS.items() if system])
def test_jobs_of_system_files_end_as_their_shell_ends_them(team: Cluster, name: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("their user column says root")
    ended = run_all(team, name, tmp_path)
    for line in team.crontab.export_tasks():
        environment = {"PATH": DEFAULT_PATH, **line.env}
        alone = subprocess.run(
            [line.shell, "-c", line.command], env=environment, capture_output=True, cwd="/"
        )
        reason = f"exit {alone.returncode}" if alone.returncode else ""
        assert ended[line.name][1:] == (reason, alone.stdout + alone.stderr)


def test_the_jobs_of_a_users_crontab_do_what_they_do_under_cron(team: Cluster, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ended = run_all(team, "user-crontab", scratch)
    assert len(ended) == 8  # nine lines, one of which runs when a node starts and not by `--once`
    by_output = {output.strip(): state for state, _, output in ended.values()}
    assert by_output[b"first line\nsecond line"] is RunState.SUCCEEDED
    assert by_output[b"the 1st, the 15th, and every Friday"] is RunState.SUCCEEDED
    (dump,) = (scratch / "dumps").iterdir()
    assert dump.name == f"{datetime.now(UTC):%Y-%m-%d}.txt"
