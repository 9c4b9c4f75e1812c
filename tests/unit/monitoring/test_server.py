"""The server of the monitoring pages: what it answers, and that no client holds it up."""

import socket
import time
from collections.abc import Iterator

import pytest

from dcron.errors import UsageError
from dcron.monitoring import server
from dcron.monitoring.address import ListenAddress, parse_address
from dcron.monitoring.server import MonitorServer, Page
from tests.support.patience import PATIENCE
from tests.support.scraping import get

ANY_PORT = ListenAddress("127.0.0.1", 0)


def fail(_: str) -> Page:
    raise RuntimeError("secret")


@pytest.fixture
def served() -> Iterator[ListenAddress]:
    pages = {"/ok": lambda accept: Page.of(f"accepts {accept}"), "/broken": fail}
    with MonitorServer(ANY_PORT, pages) as running:
        yield running.address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9434", ("127.0.0.1", 9434)),
        ("0.0.0.0:9434", ("0.0.0.0", 9434)),
        ("[::1]:80", ("::1", 80)),
        ("web-1.example.org:0", ("web-1.example.org", 0)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert parse_address(str(parse_address(text))) == address


@pytest.mark.parametrize("text", ["", ":", "host", "host:", "99999", "-1", "::1:80", "a b:80", ":80"])
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="such as 9434"):
        parse_address(text)


def test_a_page_is_served_as_the_client_accepts_it(served: ListenAddress) -> None:
    assert get(served, "/ok?x=1", "text/plain").text == "accepts text/plain"


def test_another_path_is_answered_with_the_paths_there_are(served: ListenAddress) -> None:
    missing = get(served, "/")
    assert (missing.status, missing.text) == (404, "not found; there are:\n/ok\n/broken\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_nothing_but_get_is_served(served: ListenAddress, method: str) -> None:
    assert get(served, "/ok", method=method).status == 405


def test_a_page_that_fails_says_nothing_of_the_cause(served: ListenAddress) -> None:
    broken = get(served, "/broken")
    assert (broken.status, broken.text) == (500, "RuntimeError\n")


def test_a_taken_port_is_an_error_of_the_system(served: ListenAddress) -> None:
    with pytest.raises(OSError, match="in use"):
        MonitorServer(served, {})


def test_a_host_that_cannot_be_looked_up_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError):
        MonitorServer(ListenAddress("a..b", 0), {})


def test_a_slow_client_is_cut_off_in_the_end(served: ListenAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT", 0.3)
    with socket.create_connection(served, timeout=PATIENCE) as slow, pytest.raises(OSError):
        drip(slow)
    assert get(served, "/ok").status == 200


def drip(client: socket.socket) -> None:
    for _ in range(200):
        client.send(b"G")
        time.sleep(0.05)


def test_idle_clients_make_room_for_a_probe_the_oldest_first(served: ListenAddress) -> None:
    waiting = []
    for _ in range(3 * server.MOST_CONNECTIONS):
        waiting.append(socket.create_connection(served, timeout=PATIENCE))
        waiting[-1].send(b"GET /met")
    began = time.monotonic()
    for _ in range(20):
        assert get(served, "/ok").status == 200
    assert time.monotonic() - began < server.REQUEST_TIMEOUT
    assert waiting[0].recv(1) == b""
    for each in waiting:
        each.close()
