"""`drain`, `queue`, and what `nodes` and `list` show about where tasks may run."""

import re
import subprocess

import pytest

from tests.support.agents import agent
from tests.support.cli import DCRON, Dcron, on_terminal
from tests.support.patience import PATIENCE, until


def row_of(dcron: Dcron, name: str) -> str:
    (row,) = [line for line in dcron.done("list").out.splitlines() if line.startswith(f"{name} ")]
    return row


@pytest.mark.slow
def test_draining_waits_until_nothing_runs_there(dcron: Dcron) -> None:
    dcron.done("add", "-n", "slow", "@yearly", "sleep 4")
    with agent(dcron):
        dcron.done("run", "slow")
        node = until(lambda: [each for each in dcron.done("nodes", "--json").json if each["running"]])[0]
        drained = dcron.done("drain", "web-1", "--wait")
        assert f"draining  {node['id']}, which runs 1 command\n" in drained.out
        assert drained.out.endswith("drained   no run is active there\n")
        assert f"still running: 1 command on {node['id']}" in drained.err
        assert dcron.done("runs", "slow", "--state", "succeeded", "--json").json
        (again,) = dcron.done("drain", node["id"], "--json").json
        assert (again["state"], again["running"]) == ("draining", 0)
        idle = dcron.done("list")
        assert "every agent is draining" in idle.err
        assert "no agent" not in idle.out
    assert dcron("drain", "web-1").code == 4  # it has stopped


@pytest.mark.slow
def test_the_wait_for_a_drained_node_may_be_interrupted(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "slow", "@yearly", "sleep 60")
    with agent(sqlite):
        sqlite.done("run", "slow")
        until(lambda: [each for each in sqlite.done("nodes", "--json").json if each["running"]])
        words = [str(DCRON), "drain", "web-1", "--wait", "--db", sqlite.url]
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as waiting:
            assert waiting.stderr
            assert "still running" in waiting.stderr.readline()
            waiting.send_signal(2)
            waiting.communicate(timeout=PATIENCE)
        assert waiting.returncode == 130


def test_an_unknown_node_is_4(dcron: Dcron) -> None:
    refused = dcron("drain", "nobody")
    assert (refused.code, "nobody" in refused.err, "dcron nodes" in refused.err) == (4, True, True)


def test_a_queue_gets_a_limit_and_loses_it(dcron: Dcron) -> None:
    assert "no queue has a limit" in dcron.done("queue", "list").err
    assert dcron.done("queue", "list", "--json").json == []
    assert "at most 1 run at once" in dcron.done("queue", "set", "mail", "--max-running", "1").out
    shown = dcron.done("queue", "set", "mail", "--max-running", "3", "--json").json
    assert shown == {"name": "mail", "max_running": 3, "running": 0}
    assert dcron.done("queue", "list", "--json").json == [shown]
    assert dcron.done("queue", "list").out.split() == ["QUEUE", "LIMIT", "RUNNING", "mail", "3", "0"]
    assert "starts no more runs" in dcron.done("queue", "set", "mail", "--max-running", "0").out
    assert "no limit" in dcron.done("queue", "set", "mail", "--max-running", "none").out
    assert dcron.done("queue", "list").out.split()[3:] == ["mail", "none", "0"]


@pytest.mark.parametrize(
    "words",
    [["mail"], *(["mail", "--max-running", limit] for limit in ("x", "-1", "1000001", "1.5"))],
)
def test_a_bad_limit_of_a_queue_is_refused(sqlite: Dcron, words: list[str]) -> None:
    assert sqlite("queue", "set", *words).code == 2
    assert sqlite("queue", "set", "a b", "--max-running", "1").code == 2
    assert sqlite.done("queue", "list", "--json").json == []


@pytest.mark.slow
def test_a_queue_holds_its_limit_and_says_who_is_over_it(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "post", "--queue", "mail", "--max-running", "none", "@yearly", "sleep 60")
    sqlite.done("queue", "set", "mail", "--max-running", "2")
    with agent(sqlite):
        for _ in range(3):
            sqlite.done("run", "post")
        until(lambda: sqlite.done("queue", "list", "--json").json[0]["running"] == 2)
        message = sqlite.done("queue", "set", "mail", "--max-running", "1").out
        assert "at most 1 run at once; 2 are active now and continue" in message


@pytest.mark.slow
@pytest.mark.terminal
def test_what_no_agent_can_take_says_so(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "train", "--require", "gpu", "@yearly", "true")
    sqlite.done("add", "-n", "plain", "@yearly", "true")
    alone = sqlite.done("list")
    assert alone.err == "no agent is running: nothing starts until one does (`dcron agent`)\n"
    assert "no agent" not in alone.out
    assert "none can claim its next run: no agent is running" in sqlite.done("view", "train").out
    with agent(sqlite):
        listed = sqlite.done("list")
        assert listed.err == ""
        assert re.search(" no agent  +no agent has the tag gpu$", row_of(sqlite, "train"))
        assert "no agent" not in row_of(sqlite, "plain")
        found = {task["name"]: task["unserved"] for task in sqlite.done("list", "--json").json}
        assert found == {"plain": None, "train": "no agent has the tag gpu"}
        assert "none can claim its next run: no agent has the tag gpu" in sqlite.done("view", "train").out
        shown = on_terminal("list", url=sqlite.url, size=(24, 80), NO_COLOR="1").out
        assert all(len(line) <= 80 for line in shown.splitlines())
        assert "no agent" in shown
        assert "tags" not in sqlite.done("nodes").out.lower()
        with agent(sqlite, "gpu-1", "--tag", "gpu", "--capacity", "mem=8G", "--queue", "default"):
            assert sqlite.done("view", "train", "--json").json["unserved"] is None
            assert "no agent" not in row_of(sqlite, "train")
            header, *rows = sqlite.done("nodes").out.splitlines()
            assert header.split()[-3:] == ["TAGS", "QUEUES", "CAPACITY"]
            message = {line.split()[0][:5]: line.split()[10:] for line in rows}
            assert message["gpu-1"][-3:] == ["gpu", "default", "mem=8G"]
            assert message["web-1"][-1] == "all"


@pytest.mark.slow
def test_where_all_agents_drain_no_advice_says_to_start_one(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", "@yearly", "true")
    with agent(sqlite):
        assert sqlite.done("run", "one").err == ""
        sqlite.done("drain", "web-1")
        for words in (["run", "one"], ["add", "@yearly", "x"], ["in", "1h", "x"], ["list"]):
            message = sqlite.done(*words).err
            assert message == "every agent is draining: nothing starts until one of them is restarted\n", (
                words
            )


@pytest.mark.slow
def test_a_node_is_drained_by_its_whole_name_or_id(dcron: Dcron) -> None:
    with agent(dcron), agent(dcron, "mail"):
        begun = dcron("drain", "we")
        assert (begun.code, "no living node 'we'; this verb takes the whole name: web-1" in begun.err) == (
            4,
            True,
        )
        (node,) = dcron.done("drain", "web-1", "--json").json
        assert node["name"] == "web-1"
        assert dcron("drain", node["id"][:-1]).code == 4
        (same,) = dcron.done("drain", node["id"], "--json").json
        assert same["id"] == node["id"]
    assert dcron("drain", "").code == 4
    assert dcron("drain", "we").code == 4


@pytest.mark.slow
def test_a_name_drains_all_agents_that_share_it_and_says_so(dcron: Dcron) -> None:
    with agent(dcron), agent(dcron):
        ids = [node["id"] for node in dcron.done("nodes", "--json").json]
        (one,) = dcron.done("drain", ids[1], "--json").json
        assert one["id"] == ids[1]
        both = dcron.done("drain", "web-1")
        assert f"2 living nodes have the name web-1, and all are affected: {ids[0]}, {ids[1]}" in both.err
        assert [f"draining  {each}" in both.out for each in ids] == [True, True]
        assert [node["state"] for node in dcron.done("nodes", "--json").json] == ["draining"] * 2


@pytest.mark.slow
@pytest.mark.long
def test_an_undrained_node_takes_runs_again(dcron: Dcron) -> None:
    dcron.done("add", "-n", "one", "@yearly", "true")
    with agent(dcron):
        dcron.done("drain", "web-1")
        run = dcron("run", "one", "--wait", "--timeout", "12s")
        assert (run.code, "every agent takes nothing new, for it drains" in run.err) == (124, True)
        assert dcron("undrain", "web").code == 4
        assert "claims runs again" in dcron.done("undrain", "web-1").out
        assert until(lambda: dcron.done("runs", "one", "--state", "succeeded", "--json").json)
        assert "was not draining" in dcron.done("undrain", "web-1").out


@pytest.mark.slow
def test_a_drained_node_takes_nothing_new(dcron: Dcron) -> None:
    dcron.done("add", "-n", "quick", "@yearly", "true")
    with agent(dcron):
        (node,) = dcron.done("drain", "web-1", "--json").json
        run = dcron.done("run", "quick", "--json").json
        until(lambda: dcron.done("nodes", "--json").json[0]["alive_until"] != node["alive_until"])
    (found,) = [each for each in dcron.done("runs", "quick", "--json").json if each["id"] == run["id"]]
    assert (found["state"], found["node"]) == ("waiting", None)
