"""`run --with`, `run --like` and `set --from-run`, with real agents."""

from pathlib import Path

import pytest

from tests.support.agents import agent
from tests.support.cli import Dcron


@pytest.mark.slow
def test_a_change_is_tried_on_one_node_and_then_saved(dcron: Dcron, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    saved = f'echo "$DCRON_NODE saved $LEVEL" >> {ledger}'
    dcron.done("add", "-n", "backup", "-e", "LEVEL=1", "--tries", "3", "@yearly", saved)
    before = dcron.done("export").out
    version = dcron.done("view", "backup", "--json").json["version"]
    with agent(dcron, "web-1"), agent(dcron, "web-2"):
        line = f'echo "$DCRON_NODE tried $LEVEL" >> {ledger}; exit 3'
        tried = dcron("run", "backup", "--with", line, "-e", "LEVEL=2", "--node", "web-2", "--wait", "--json")
        assert (tried.code, tried.json["state"], tried.json["trial"]) == (3, "failed", True)
        assert (tried.json["node"], tried.json["dead"], tried.json["retry_of"]) == ("web-2", False, None)
        assert ledger.read_text() == "web-2 tried 2\n"
        again = dcron("run", "--like", str(tried.json["id"]), "--node", "web-1", "--json", "--wait")
        assert again.code == 3
        assert ledger.read_text() == "web-2 tried 2\nweb-1 tried 2\n"
        words = dcron("run", "backup", "--follow", "--with", "--", "/bin/echo", "-n", "two  words")
        assert words.out == "two  words"
        shown = dcron.done("view", "--run", str(again.json["id"]), "--json").json
        assert (shown["like"], shown["scheduled_for"]) == (tried.json["id"], tried.json["scheduled_for"])
        assert dcron.done("export").out == before
        assert dcron.done("view", "backup", "--json").json["version"] == version
        dcron.done("set", "backup", "--from-run", str(tried.json["id"]))
        own = dcron("run", "backup", "--wait")
        assert own.code == 3
        assert "tried 2" in ledger.read_text().splitlines()[-1]
        dcron.done("rm", "-f", "backup")
        removed = dcron("run", "--like", str(tried.json["id"]), "--wait")
        assert removed.code == 3


def test_what_cannot_be_tried_writes_nothing(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@yearly", "true")
    for words, code, message in (
        (("backup", "--with", "true", "--node", "web-9"), 4, "there is no living node 'web-9'"),
        (("--like", "99"), 4, "there is no run 99"),
        (("backup", "--like", "1"), 2, "--like repeats a run as it was"),
        ((), 2, "missing argument 'NAME...'"),
        (("backup", "--with", "--"), 2, "--with -- needs a command behind it"),
        (("backup", "--with", ""), 2, "command"),
    ):
        refused = dcron("run", *words)
        assert (refused.code, message in refused.err) == (code, True), refused.err
    assert len(dcron.done("runs", "--json").json) == 1


def test_a_trial_is_marked_wherever_runs_are(dcron: Dcron) -> None:
    dcron.done("add", "-n", "backup", "@yearly", "true")
    made = dcron.done("run", "backup", "--with", "--", "/bin/echo", "-n", "two words").out
    run_id = made.split()[1]
    assert "trial" in dcron.done("runs", "backup").out
    shown = dcron.done("view", "--run", run_id).out
    assert f"a change that is not saved: dcron set backup --from-run {run_id}" in shown
    assert "/bin/echo -n 'two words'" in shown
    assert f"run {run_id} (trial)" in dcron.done("history", "backup").out
    patch = dcron.done("history", "backup", "-p", "-n", "1").out
    assert '-command: "true"' in patch
    assert "two words" in patch
