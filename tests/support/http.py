"""A web server that keeps what it is asked, and answers as a test wants: slowly, wrongly, never."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass(frozen=True)
class Request:
    """What the server was asked."""

    method: str
    path: str
    body: bytes

    @property
    def bare_path(self) -> str:
        """The path without the query."""
        return self.path.partition("?")[0]


@dataclass
class WebServer:
    """A server on this machine."""

    port: int
    answer: Callable[[Request, BaseHTTPRequestHandler], None] | None = None
    """Answers a request; by default with 200."""
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    """Set at the end: what hangs ends with it."""

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for, without queries."""
        return [each.bare_path for each in self.requests]


@pytest.fixture
def server() -> Iterator[WebServer]:
    """A web server that runs while the test does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            request = Request(self.command, self.path, self.rfile.read(size))
            found.requests.append(request)
            if found.answer:
                found.answer(request, self)
            else:
                reply(self, 200)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        found = WebServer(listening.server_port)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            found.released.set()
            listening.shutdown()
            thread.join()


def reply(handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    """Answer with a status and headers, without a body."""
    handler.send_response(status)
    for name, value in {"Content-Length": "0", **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
