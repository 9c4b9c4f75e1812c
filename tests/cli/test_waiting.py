"""`run --wait`, `--follow` and `--timeout`: what they wait for, and what they print meanwhile."""

import json

from tests.support.agents import agent
from tests.support.cli import Dcron


def test_waiting_ends_with_the_last_attempt(dcron: Dcron) -> None:
    flaky = 'echo "attempt $DCRON_ATTEMPT"; test "$DCRON_ATTEMPT" = 3'
    for name, command in (("flaky", flaky), ("bad", "exit 5")):
        dcron.done("add", "-n", name, "--tries", "3", "--backoff", "0s", "@yearly", command)
    with agent(dcron):
        ended = dcron.done("run", "flaky", "--wait")
        assert "succeeded on web-1" in ended.out
        assert "attempt 2, run" in ended.err
        assert "attempt 3, run" in ended.err
        shown = dcron("run", "bad", "--wait", "--json")
        assert (shown.code, shown.json["attempt"], shown.json["state"]) == (5, 3, "failed")
        followed = dcron.done("run", "flaky", "--follow")
        assert followed.out == "attempt 1\nattempt 2\nattempt 3\n"
        several = dcron("run", "flaky", "bad", "--wait")
        assert (several.code, "flaky succeeded" in several.out, "bad failed" in several.out) == (
            5,
            True,
            True,
        )
        lines = [
            json.loads(line) for line in dcron.done("run", "flaky", "--follow", "--json").out.splitlines()
        ]
        assert [line.get("text") for line in lines] == ["attempt 1\n", "attempt 2\n", "attempt 3\n", None]
        assert (lines[-1]["attempt"], lines[-1]["state"]) == (3, "succeeded")


def test_waiting_says_what_for_and_may_be_bounded(dcron: Dcron) -> None:
    dcron.done("add", "-n", "picky", "--require", "gpu", "@yearly", "true")
    dcron.done("add", "-n", "mail", "--queue", "mail", "@yearly", "true")
    dcron.done("queue", "set", "mail", "--max-running", "0")
    alone = dcron("run", "picky", "--wait", "--timeout", "2s")
    assert (alone.code, "no agent is running" in alone.err) == (124, True)
    with agent(dcron):
        picky = dcron("run", "picky", "--wait", "--timeout", "2s")
        assert (picky.code, "no agent has the tag gpu" in picky.err) == (124, True)
        assert "is still waiting and continues; `dcron cancel" in picky.err
        mail = dcron("run", "mail", "--wait", "--timeout", "2s", "--json")
        assert (mail.code, mail.json["state"]) == (124, "waiting")
        assert mail.err.count("the queue mail is stopped: its limit is 0") == 1
    assert dcron("run", "mail", "--timeout", "2s").code == 2
    assert dcron("run", "mail", "--wait", "--timeout", "soon").code == 2
