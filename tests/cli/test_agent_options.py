"""The options of `agent` for its node: queues, tags and capacity."""

from pathlib import Path

import pytest

from dcron.agent.settings import AgentSettings
from dcron.config.files import own_node_name
from dcron.errors import UsageError
from tests.support.cli import Dcron, is_past, real
from tests.support.patience import until


@pytest.mark.slow
def test_one_pass_takes_also_what_has_to_wait_for_room(dcron: Dcron) -> None:
    for name in "abc":
        dcron.done("add", "-n", name, "--need", "gpu=1", "0 0 1 1 *", "true")
        dcron.done("run", name)
    assert real("agent", "--once", "--capacity", "gpu=1", url=dcron.url).code == 0
    assert len(dcron.done("runs", "--state", "succeeded", "--json").json) == 3


@pytest.mark.slow
def test_an_agent_says_what_it_serves_and_has(dcron: Dcron) -> None:
    words = ["--queue", "mail", "--queue", "default", "--queue", "mail", "--tag", "ssd", "--tag", "zone=eu-1"]
    words += ["--capacity", "cpu=4", "--capacity", "mem=8G", "--capacity", "gpu=0.5"]
    done = real("agent", "--once", "--grace", "1s", "--name", "web-1", *words, url=dcron.url)
    assert done.code == 0, done.err
    (node,) = dcron.done("nodes", "--json").json
    assert (node["queues"], node["tags"]) == (["mail", "default"], ["ssd", "zone=eu-1"])
    assert node["capacity"] == {"cpu": 4, "mem": 8 << 30, "gpu": 0.5}


@pytest.mark.slow
def test_an_agent_without_options_serves_all_and_has_slots_alone(sqlite: Dcron) -> None:
    sqlite.run_due()
    (node,) = sqlite.done("nodes", "--json").json
    assert (node["queues"], node["tags"], node["capacity"]) == ([], [], {})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queue", "a b"], "--queue: 'a b' cannot be a queue's name"),
        (["--tag", "a b"], "--tag: 'a b' is not a tag; write a word such as ssd, or two such as zone=eu-1"),
        (["--tag", "a", "--tag", "a"], "--tag: a is given twice"),
        (["--capacity", "gpu"], "--capacity: 'gpu': write a name and an amount, such as gpu=1 or mem=8G"),
        (["--capacity", "gpu=0"], "--capacity: gpu: give more than 0"),
        (["--capacity", "gpu=1", "--capacity", "gpu=2"], "--capacity: gpu is given twice"),
        (["--capacity", "slots=4"], "--capacity: slots are given by --slots N"),
    ],
)
def test_an_agent_refuses_what_no_task_could_ask_for(sqlite: Dcron, words: list[str], message: str) -> None:
    refused = sqlite("agent", "--once", *words)
    assert refused.code == 2
    assert message in refused.err
    assert sqlite.done("nodes", "--json").json == []


def test_settings_obey_the_same_rules_wherever_they_are_made() -> None:
    AgentSettings(name="web-1", spool=Path("/"), slots=1, tags=("a",), queues=("q",), capacity={"gpu": 1.0})
    for wrong in ({"tags": ("a", "a")}, {"queues": ("",)}, {"capacity": {"mem": 0.5}}):
        with pytest.raises(UsageError):
            AgentSettings(name="web-1", spool=Path("/"), slots=1, **wrong)


@pytest.mark.slow
@pytest.mark.parametrize("spool", ["file", "file/spool"])
def test_a_spool_that_cannot_be_made_is_a_sentence(sqlite: Dcron, tmp_path: Path, spool: str) -> None:
    (tmp_path / "file").touch()
    refused = real("agent", "--once", url=sqlite.url, DCRON_SPOOL=str(tmp_path / spool))
    assert refused.code == 1
    assert f"the spool {tmp_path / spool} cannot be written: " in refused.err
    assert "$DCRON_SPOOL" in refused.err
    assert "Traceback" not in refused.err


def test_a_machine_may_be_called_what_no_node_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "ä_" + "b" * 61 + ".example.org")
    assert own_node_name() == "-_" + "b" * 58


@pytest.mark.slow
def test_a_one_off_leaves_the_crontab_when_its_run_has_succeeded(dcron: Dcron) -> None:
    dcron.done("in", "0.1s", "-n", "good", "true")
    dcron.done("in", "0.1s", "-n", "bad", "false")
    dcron.done("in", "1h", "-n", "later", "true")
    dcron.done("in", "0.1s", "-n", "step", "true")
    dcron.done("add", "-n", "behind", "@after step", "true")
    until(lambda: is_past(dcron.done("view", "step", "--json").json["next_run_at"]))  # a whole second
    dcron.run_due()
    # One that others come after stays, or they would come after nothing.
    assert sorted(dcron.done("list", "--names").out.split()) == ["bad", "behind", "later", "step"]
