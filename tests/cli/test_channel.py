"""`dcron channel`: what is listed, and a test message by this machine or by a node."""

import json
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dcron.agent.notifier import Notifier
from dcron.config.channels import Channel
from dcron.database import open_database
from tests.support.cli import Dcron, real
from tests.support.stage import Stage


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine's config file, with the channels `ledger` and `broken`."""
    path = tmp_path / "config.toml"
    path.write_text(
        f'[notify.ledger]\nkind = "command"\ncommand = "cat >> {tmp_path}/ledger"\nformat = "json"\n'
        '[notify.broken]\nkind = "command"\ncommand = "echo no paper >&2; exit 7"\n'
    )
    monkeypatch.setenv("DCRON_CONFIG", str(path))
    return path


def test_the_channels_of_this_machine_are_listed(dcron: Dcron, config: Path) -> None:
    found = dcron.done("channel", "list", "--json").json
    nothing = {"nodes": [], "waiting_count": 0, "waiting": 0, "sent_at": None, "error": None}
    assert found == [
        {"name": "broken", "kind": "command", **nothing},
        {"name": "ledger", "kind": "command", **nothing},
    ]
    shown = dcron.done("channel", "list").out
    assert "ledger" in shown
    assert "never" in shown


def test_without_channels_the_way_to_the_first_is_shown(sqlite: Dcron) -> None:
    assert "give an agent one" in sqlite.done("channel", "list").err


def test_this_machine_sends_a_test(sqlite: Dcron, config: Path, tmp_path: Path) -> None:
    assert sqlite.done("channel", "test", "ledger").out == "channel ledger: sent by this machine\n"
    document = json.loads((tmp_path / "ledger").read_text())
    assert document["subject"] == "[dcron] test of the channel ledger"
    assert document["id"].startswith("test.")


def test_a_test_that_fails_is_an_error(sqlite: Dcron, config: Path) -> None:
    failed = sqlite("channel", "test", "broken")
    assert failed.code == 1
    assert "channel broken: not sent: the command exited with 7: no paper" in failed.err


def test_a_test_to_no_address_is_refused(sqlite: Dcron, config: Path) -> None:
    for name in ("mailto:", "mailto"):
        refused = sqlite("channel", "test", name)
        assert refused.code == 2
        assert "is not a mail address; write mailto:ann@example.org" in refused.err
    assert sqlite("add", "-n", "a", "--notify", "mailto", "@daily", "true").code == 2


def test_a_node_that_can_send_mail_is_listed_for_all_addresses(dcron: Dcron) -> None:
    stage = Stage(dcron.url)
    stage.now = datetime.now(UTC)
    stage.node(channels=("mailto",))
    stage.database.close()
    assert "mailto:ADDRESS  mail  web-1" in dcron.done("channel", "list").out
    assert "never" not in dcron.done("channel", "list").out
    assert dcron.done("channel", "list", "--json").json[0]["name"] == "mailto"


def test_a_channel_that_no_node_has_is_not_found(sqlite: Dcron, config: Path) -> None:
    for name in ("ops", "mailto:ann@example.org"):
        failed = sqlite("channel", "test", name)
        assert failed.code == 4
        assert f"no living node has the channel '{name}'" in failed.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["true", "exit 7"])
def test_a_node_sends_the_test_of_its_channel(dcron: Dcron, command: str) -> None:
    stage = Stage(dcron.url)
    node_id = stage.node(channels=("pager",))
    stage.database.close()
    stop = threading.Event()

    def serve() -> None:
        with closing(open_database(dcron.url)) as database:
            node = Notifier(database, node_id, [Channel("pager", "command", {"command": command})])
            while not stop.is_set():
                node.step(stop)
                time.sleep(0.05)
            node.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        result = dcron("channel", "test", "pager")
    finally:
        stop.set()
        thread.join()
    if command == "true":
        assert (result.code, result.out) == (0, f"channel pager: sent by {node_id}\n")
    else:
        assert result.code == 1
        assert "channel pager: not sent: the command exited with 7" in result.err
        (row,) = dcron.done("channel", "list", "--json").json
        assert (row["waiting"], row["error"]) == (0, "the command exited with 7"), "the test is withdrawn"


@pytest.mark.slow
def test_an_agent_says_which_channels_it_cannot_use(sqlite: Dcron, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[notify.pager]\nkind = "webhook"\nurl = "$PAGER_URL"\n')
    shown = real("agent", "--once", url=sqlite.url, DCRON_CONFIG=str(path)).err
    assert (
        "warning: channel pager: url: $PAGER_URL is not set; this agent does not offer the channel" in shown
    )
