"""Many agents, many tasks, one second: each run starts once. Judged by what the jobs wrote."""

import os
from datetime import timedelta

from dcron.model import Definition, RunState
from tests.support.cluster import Cluster, wait_for

AGENTS = 8
TASKS = int(os.environ.get("DCRON_TEST_HERD", "200"))
"""1,000 by `make faults`."""


def test_eight_agents_start_each_of_many_tasks_due_in_one_second_once(team: Cluster) -> None:
    for number in range(AGENTS):
        team.start_agent(f"web-{number}", lease=30)
    team.wait_until_alive(AGENTS, within=60)
    due = team.crontab.now().replace(microsecond=0) + timedelta(seconds=max(6, TASKS // 100))
    schedule = f"@at {due:%Y-%m-%dT%H:%M:%SZ}"
    lines = [
        Definition(name=f"herd-{n}", schedule=schedule, timezone="UTC", command=team.entry("ran"))
        for n in range(TASKS)
    ]
    team.crontab.import_tasks(lines)
    assert team.crontab.now() < due, "the herd must be ready before it is due"
    wait_for(lambda: len(team.runs(RunState.SUCCEEDED)) >= TASKS, 90, f"{TASKS} runs succeeded")
    starts = team.starts_of_occurrences()
    assert len(starts) == TASKS
    assert set(starts.values()) == {1}
    assert {run.state for run in team.runs()} == {RunState.SUCCEEDED}
    assert len({run.owner for run in team.runs()}) > 1, "the work was shared"
