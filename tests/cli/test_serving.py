"""What `agent` is told of its node: queues, tags and capacity."""

from pathlib import Path

import pytest

from dcron.agent.settings import Settings
from dcron.errors import UsageError
from tests.cli.conftest import Dcron, real


def test_an_agent_says_what_it_serves_and_has(dcron: Dcron) -> None:
    words = ["--queue", "mail", "--queue", "default", "--queue", "mail", "--tag", "ssd", "--tag", "zone=eu-1"]
    words += ["--capacity", "cpu=4", "--capacity", "mem=8G", "--capacity", "gpu=0.5"]
    done = real("agent", "--once", "--grace", "1s", "--name", "web-1", *words, url=dcron.url)
    assert done.code == 0, done.err
    (node,) = dcron.done("nodes", "--json").json
    assert (node["queues"], node["tags"]) == (["mail", "default"], ["ssd", "zone=eu-1"])
    assert node["capacity"] == {"cpu": 4, "mem": 8 << 30, "gpu": 0.5}


def test_an_agent_that_is_told_nothing_serves_all_and_has_slots_alone(sqlite: Dcron) -> None:
    sqlite.run_due()
    (node,) = sqlite.done("nodes", "--json").json
    assert (node["queues"], node["tags"], node["capacity"]) == ([], [], {})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--queue", "a b"], "--queue: 'a b' is no name of a queue"),
        (["--tag", "a b"], "--tag: 'a b' is not a tag; write a word such as ssd, or two such as zone=eu-1"),
        (["--tag", "a", "--tag", "a"], "--tag: a is given twice"),
        (["--capacity", "gpu"], "--capacity: 'gpu': write a name and an amount, such as gpu=1 or mem=8G"),
        (["--capacity", "gpu=0"], "--capacity: gpu: give more than 0"),
        (["--capacity", "gpu=1", "--capacity", "gpu=2"], "--capacity: gpu is given twice"),
        (["--capacity", "slots=4"], "--capacity: slots are given by --slots N"),
    ],
)
def test_an_agent_refuses_what_no_task_could_ask_for(sqlite: Dcron, words: list[str], told: str) -> None:
    refused = sqlite("agent", "--once", *words)
    assert refused.code == 2
    assert told in refused.err
    assert sqlite.done("nodes", "--json").json == []


def test_settings_hold_to_the_same_rules_whoever_makes_them() -> None:
    Settings(name="web-1", spool=Path("/"), slots=1, tags=("a",), queues=("q",), capacity={"gpu": 1.0})
    for wrong in ({"tags": ("a", "a")}, {"queues": ("",)}, {"capacity": {"mem": 0.5}}):
        with pytest.raises(UsageError):
            Settings(name="web-1", spool=Path("/"), slots=1, **wrong)
