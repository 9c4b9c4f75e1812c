"""Jobs that behave badly, beside others that do not."""

import time
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from dcron.model import Definition, Run, RunState
from dcron.schema.tables import output
from tests.faults.campaign.leftovers import marked_processes
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for

FAR = "0 0 1 1 *"
MOST_KEPT = 11 * 1024 * 1024
"""Bytes of one run's output in the database: head and tail, and a chunk more."""
MOST_SPOOLED = 64 * 1024 * 1024


@fault("bad-jobs")
def bad_jobs(stage: Stage) -> Figures:
    """Jobs that flood, never end a line, ignore TERM, fork a thousand children, close their output."""
    stage.begin()
    flood = 10 * 10**9 if stage.seconds >= 60 else 10**9
    children = "i=0; while [ $i -lt 1000 ]; do sleep 1000 & i=$((i+1)); done; wait"
    bad: dict[str, tuple[str, dict[str, Any], RunState]] = {
        "flood": (f"head -c {flood} /dev/zero | tr '\\0' x | fold -w 99", {}, RunState.SUCCEEDED),
        "endless": ("head -c 100000000 /dev/zero", {}, RunState.SUCCEEDED),
        "stubborn": ("trap '' TERM; while :; do sleep 1; done", {"timeout": 2.0}, RunState.FAILED),
        "thousand": (children, {"timeout": 15.0}, RunState.FAILED),
        "mute": ("exec >&- 2>&- <&-; sleep 1", {}, RunState.SUCCEEDED),
    }
    runs = {}
    for name, (command, fields, _) in bad.items():
        runs[name] = stage.cluster.crontab.run(_add(stage, name, command, fields))
    spooled = _watch_until_over(stage, list(runs.values()))
    for name, run in runs.items():
        ended = stage.cluster.crontab.find_run(run.id)
        stage.require(ended.state is bad[name][2], f"{name} is {ended.state}: {ended.reason}")
        kept = _kept(stage, run)
        stage.require(kept <= MOST_KEPT, f"{name} has {kept} bytes of output in the database")
    stage.require(spooled <= MOST_SPOOLED, f"{spooled} bytes were in the spools")
    wait_for(lambda: not _sleepers(stage), 10, "no child of the thousand is left")
    return {"flood": f"{flood / 1e9:g} GB", "most in the spools": f"{spooled / 1e6:.0f} MB"}


def _add(stage: Stage, name: str, command: str, fields: dict[str, Any]) -> Any:
    marked = {"env": {"CAMPAIGN": f"{stage.directory}/bad"}, **fields}
    line = Definition(name=name, schedule=FAR, timezone="UTC", command=command, **marked)
    return stage.cluster.crontab.add(line)


def _watch_until_over(stage: Stage, runs: list[Run]) -> int:
    """The most bytes that lay in the spools until all these runs were over."""
    most, end = 0, time.monotonic() + 300
    while time.monotonic() < end:
        most = max(most, sum(_size(path) for path in stage.directory.glob("spool-*/**/*")))
        if all(stage.cluster.crontab.find_run(run.id).state.is_final for run in runs):
            return most
        time.sleep(0.2)
    raise AssertionError("the bad jobs are not over within 300s")


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def _kept(stage: Stage, run: Run) -> int:
    with stage.cluster.database.read() as connection:
        query = select(func.sum(func.length(output.c.data))).where(output.c.run_id == run.id)
        return int(connection.scalar(query) or 0)


def _sleepers(stage: Stage) -> list[tuple[int, str]]:
    return marked_processes(f"{stage.directory}/bad")
