"""Run the flow of docs/policies.md as it is printed there, with real agents."""

import re
import shlex
from pathlib import Path

from dcron.model import RunState
from tests.support.cli import real
from tests.support.cluster import Cluster, wait_for

GUIDE = Path(__file__).parents[2] / "docs" / "policies.md"


def commands_in_guide(directory: Path) -> list[list[str]]:
    """The indented commands that follow the remark about this test, to be run in a directory of their own."""
    example = GUIDE.read_text().split("test_flow_example.py. -->")[1]
    lines = re.findall(r"^    (dcron .*)$", example.split("\n\n")[1], re.MULTILINE)
    words = [shlex.split(line)[1:] for line in lines]
    return [
        ["add", "--cwd", str(directory), *rest] if verb == "add" else [verb, *rest] for verb, *rest in words
    ]


def dcron(team: Cluster, *words: str) -> str:
    done = real(*words, url=team.url)
    assert done.code == 0, done.err
    return done.out


def states(team: Cluster) -> dict[str, list[RunState]]:
    """Return the states of each task's runs, without waiting ones."""
    found: dict[str, list[RunState]] = {}
    for run in team.runs():
        if run.trigger != "schedule":
            found.setdefault(run.task, []).append(run.state)
    return found


def test_the_flow_of_the_guide_runs_as_the_guide_says(team: Cluster, tmp_path: Path) -> None:
    commands = commands_in_guide(tmp_path)
    assert len(commands) == 6
    for command in commands[:-1]:
        dcron(team, *command)
    for name in ("web-1", "web-2"):
        team.start_agent(name)
    team.wait_until_alive(2)
    dcron(team, *commands[-1])
    wait_for(lambda: RunState.SUCCEEDED in states(team).get("load", []), 30, "load has run")
    names = ("extract", "clean", "count", "index", "load")
    assert states(team) == {name: [RunState.SUCCEEDED] for name in names}
    assert sorted((tmp_path / "loaded.txt").read_text().splitlines()) == ["1 rows.txt", "clean", "rows"]
    flow = next(run.flow for run in team.runs(task="load"))
    listed = dcron(team, "runs", "--flow", str(flow))
    assert [name for name in names if name not in listed] == []


def test_a_failed_step_leaves_out_the_rest_until_its_retry(team: Cluster, tmp_path: Path) -> None:
    for command in commands_in_guide(tmp_path)[:-1]:
        dcron(team, *command)
    dcron(team, "set", "count", "--command", "test -e mended && wc -l rows.txt > count.txt")
    team.start_agent("web-1")
    team.wait_until_alive(1)
    dcron(team, "run", "extract")
    wait_for(lambda: states(team).get("load") == [RunState.SKIPPED], 30, "load is left out")
    failed = next(run for run in team.runs(RunState.FAILED) if run.task == "count")
    (left_out,) = team.runs(RunState.SKIPPED, task="load")
    assert left_out.reason == f"count failed (run {failed.id})"
    (tmp_path / "mended").touch()
    dcron(team, "retry", str(failed.id))
    wait_for(lambda: RunState.SUCCEEDED in states(team)["load"], 30, "the flow went on")
    assert states(team) == {
        "extract": [RunState.SUCCEEDED],
        "clean": [RunState.SUCCEEDED],
        "index": [RunState.SUCCEEDED],
        "count": [RunState.FAILED, RunState.SUCCEEDED],
        "load": [RunState.SKIPPED, RunState.SUCCEEDED],
    }
    assert len({run.flow for run in team.runs() if run.trigger != "schedule"}) == 1
