"""What the service manager hears from an agent."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dcron.agent import sd_notify
from dcron.agent.health import MonitoredAgent
from dcron.agent.sd_notify import ServiceManager, reporting, status_of
from tests.support.cli import DCRON
from tests.support.node import HandNode, World
from tests.support.patience import PATIENCE


class Manager:
    """A service manager that keeps what it hears."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(PATIENCE)
        self.heard: list[str] = []

    def hear(self, beginning: str) -> str:
        """Wait until the last message begins so; return its state."""
        deadline = time.monotonic() + PATIENCE
        while not (self.heard and self.heard[-1].startswith(beginning)):
            assert time.monotonic() < deadline, self.heard
            self.heard += self._socket.recv(4096).decode().splitlines()
        return self.heard[-1].partition("=")[2]

    def hear_all(self, *beginnings: str) -> None:
        """Wait until messages that begin so have come, in any order."""
        deadline = time.monotonic() + PATIENCE
        while not all(any(each.startswith(begins) for each in self.heard) for begins in beginnings):
            assert time.monotonic() < deadline, self.heard
            self.heard += self._socket.recv(4096).decode().splitlines()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.close()


def agent_of(node: HandNode, why_not_ready: str | None = None) -> MonitoredAgent:
    session = SimpleNamespace(
        node=node.context,
        dispatcher=node.dispatcher,
        maintenance=node.maintenance,
        is_registered=True,
        why_not_ready=lambda: why_not_ready,
    )
    found = SimpleNamespace(settings=node.settings, counters=node.counters, session=session, patience=10.0)
    return cast("MonitoredAgent", found)


def test_its_variables_are_not_left_to_child_processes(tmp_path: Path) -> None:
    given = {"NOTIFY_SOCKET": str(tmp_path), "WATCHDOG_USEC": "180000000", "WATCHDOG_PID": str(os.getpid())}
    environment = {**given, "PATH": "/bin"}
    assert ServiceManager(environment).watchdog == 180
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "given", [{}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}]
)
def test_a_watchdog_of_another_process_is_not_ours(given: dict[str, str]) -> None:
    assert ServiceManager(dict(given)).watchdog is None


def test_without_a_service_manager_nothing_is_sent_and_no_thread_runs(world: World) -> None:
    manager = ServiceManager({})
    manager.ready()
    with reporting(agent_of(world.node()), manager):
        assert not manager.listens


def test_one_that_is_gone_is_ignored(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()


def test_an_abstract_address_is_understood() -> None:
    manager = Manager("\0dcron-test-notify")
    ServiceManager({"NOTIFY_SOCKET": "@dcron-test-notify"}).ready()
    assert manager.hear("READY=") == "1"
    manager.close()


def test_an_ill_agent_does_not_answer_the_watchdog(
    world: World, manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill: list[str] = []
    for name in ("why_stalled", "why_unhealthy"):
        monkeypatch.setattr(sd_notify, name, lambda _: ill[0] if ill else None)
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000"}
    with reporting(agent_of(world.node()), ServiceManager(environment)):
        assert int(manager.hear("EXTEND_TIMEOUT_USEC=")) == 60_000_000
        manager.hear("WATCHDOG=1")
        ill.append("no step for 120s: dispatcher")
        assert manager.hear("STATUS=no step") == "no step for 120s: dispatcher"
        heard = len(manager.heard)
        for _ in range(3):
            manager.heard.append("")
            manager.hear("EXTEND_TIMEOUT_USEC=")
        assert "WATCHDOG=1" not in manager.heard[heard:]
    assert manager.hear("STATUS=stopped")


def test_the_status_says_what_the_node_does(world: World) -> None:
    world.add("tick", "0 10 * * *")
    node = world.node()
    node.dispatcher.step()
    assert status_of(agent_of(node)) == "0 of 4 slots used; next run due 2026-11-20 10:00:00 UTC"
    assert status_of(agent_of(node, "it drains")) == "0 of 4 slots used; drains"
    away = agent_of(node)
    away.session = None
    assert status_of(away) == "waits for the database"


@pytest.mark.slow
def test_a_real_agent_reports_its_start_and_end(manager: Manager, tmp_path: Path, sqlite_url: str) -> None:
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "900000"}
    words = [str(DCRON), "agent", "--slots", "3", "--grace", "1s", "--db", sqlite_url]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as agent:
        try:
            manager.hear_all("READY=1", "STATUS=0 of 3 slots used", "WATCHDOG=1")
            children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
            for child in children:
                assert b"NOTIFY_SOCKET" not in Path(f"/proc/{child}/environ").read_bytes()
            agent.terminate()
            manager.hear_all("STOPPING=1")
            assert agent.wait(PATIENCE) == 0
        finally:
            agent.kill()  # else the `with` waits for ever after a failure
