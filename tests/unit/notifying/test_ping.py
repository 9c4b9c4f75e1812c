"""One ping, against a server that answers, refuses, redirects, hangs and drips."""

import socket
from http.server import BaseHTTPRequestHandler

import pytest

from dcron.notifying.ping import PingError, send
from tests.support.http import Request, WebServer, reply, server

__all__ = ["server"]


def test_a_ping_is_a_get_and_one_with_a_body_a_post(server: WebServer) -> None:
    send(server.url("/check/start?a=b"))
    send(server.url("/check"), b"the end of the output\n")
    assert server.requests == [
        Request("GET", "/check/start?a=b", b""),
        Request("POST", "/check", b"the end of the output\n"),
    ]


@pytest.mark.parametrize(("status", "is_final"), [(404, True), (401, True), (429, False), (503, False)])
def test_an_answer_other_than_2xx_is_a_failure(server: WebServer, status: int, is_final: bool) -> None:
    server.answer = lambda _, handler: reply(handler, status)
    with pytest.raises(PingError, match=f"^HTTP {status}$") as failed:
        send(server.url("/secret"))
    assert failed.value.is_final == is_final


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_a_host_is_followed_with_the_body(server: WebServer, status: int) -> None:
    def answer(request: Request, handler: BaseHTTPRequestHandler) -> None:
        if request.path == "/old":
            reply(handler, status, Location="/new")
        else:
            reply(handler, 200)

    server.answer = answer
    send(server.url("/old"), b"output")
    assert server.requests[-1] == Request("POST", "/new", b"output")


def test_a_redirect_to_another_host_is_not_followed(server: WebServer) -> None:
    server.answer = lambda _, handler: reply(
        handler, 302, Location=server.url("/elsewhere", host="localhost")
    )
    with pytest.raises(PingError, match="it redirects to another host") as failed:
        send(server.url("/secret"))
    assert failed.value.is_final
    assert server.paths == ["/secret"]


@pytest.mark.parametrize("scheme", ["ftp", "file", "data", "gopher"])
def test_a_redirect_to_another_protocol_is_not_followed(server: WebServer, scheme: str) -> None:
    """The library's client for ftp has no limit for all of an exchange."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server.answer = lambda _, handler: reply(handler, 302, Location=f"{scheme}://127.0.0.1:{port}/")
        with pytest.raises(PingError, match="redirects to another host or protocol"):
            send(server.url("/secret"), limit=5)
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_host_with_many_addresses_that_do_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        place = full.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(place)
        found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", place)
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [found] * 100)
        with pytest.raises(PingError, match=r"^no answer within 0\.3s$"):
            send(f"http://many.example.org:{place[1]}/secret", limit=0.3)
        for each in waiting:
            each.close()


def test_a_server_that_redirects_for_ever_is_left(server: WebServer) -> None:
    server.answer = lambda _, handler: reply(handler, 302, Location="/secret")
    with pytest.raises(PingError):
        send(server.url("/secret"))
    assert len(server.requests) < 20


def test_a_server_that_does_not_answer_is_given_up(server: WebServer) -> None:
    def hang(_: Request, __: BaseHTTPRequestHandler) -> None:
        server.released.wait(60)

    server.answer = hang
    with pytest.raises(PingError, match=r"^no answer within 0\.2s$") as failed:
        send(server.url("/secret"), limit=0.2)
    assert not failed.value.is_final


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(server: WebServer) -> None:
    """The timeout of a socket would begin again with each byte."""

    def drip(_: Request, handler: BaseHTTPRequestHandler) -> None:
        try:
            handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
            while not server.released.wait(0.05):
                handler.wfile.write(b".")
        except OSError:
            pass

    server.answer = drip
    with pytest.raises(PingError, match=r"^no answer within 0\.3s$"):
        send(server.url("/secret"), limit=0.3)


def test_a_port_without_a_server_is_a_failure_that_may_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(PingError, match=r"^Connection refused$") as failed:
        send(f"http://127.0.0.1:{port}/secret")
    assert not failed.value.is_final


def test_a_server_that_closes_at_once_is_a_failure(server: WebServer) -> None:
    server.answer = lambda _, handler: handler.connection.close()
    with pytest.raises(PingError) as failed:
        send(server.url("/secret"))
    assert "secret" not in str(failed.value)


def test_a_server_without_tls_is_no_https_server(server: WebServer) -> None:
    with pytest.raises(PingError) as failed:
        send(server.url("/secret").replace("http:", "https:"))
    assert "secret" not in str(failed.value)
