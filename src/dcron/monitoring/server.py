"""A small HTTP server for pages that only show something: GET alone, and no client can hold it up."""

import io
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from dcron.monitoring.address import ListenAddress

log = logging.getLogger("dcron.monitor")

REQUEST_TIMEOUT = 5.0
"""Seconds that a client has to send its whole request, and to take the whole answer."""
MOST_CONNECTIONS = 100
"""Connections served at once. For a further one, the oldest that has sent no whole request is closed."""
MOST_OF_A_PEER = 20
"""The same for the connections of one address."""
_MOST_THREADS = 2 * MOST_CONNECTIONS
"""Those of closed connections, which end, included. Then the newest connection is closed."""
PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Page:
    """An answer."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = PLAIN

    @classmethod
    def of(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> Self:
        """Return a page of plain text."""
        return cls(text.encode(), status)


Pages = Mapping[str, Callable[[str], Page]]
"""What makes the page of each path. It gets the client's Accept header."""


class MonitorServer:
    """Serves pages from threads of its own, from construction until `close`."""

    def __init__(self, address: ListenAddress, pages: Pages) -> None:
        """Listen. Raises OSError if the address cannot be used, for example because the port is taken."""
        try:
            self._server = _server_class(address)(tuple(address), _handler_class(pages))
        except (OverflowError, UnicodeError) as error:  # a host name that cannot be looked up
            raise OSError(str(error)) from None
        self.address = ListenAddress(address.host, self._server.server_port)
        """Where it listens, with the port that the system has chosen."""
        self._thread = threading.Thread(target=self._server.serve_forever, name="dcron-monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class _Waiting:
    """The connections whose request is not complete, the oldest first: idle ones make room for others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._peers: dict[socket.socket, str] = {}

    def add(self, connection: socket.socket, peer: str) -> None:
        """Add a connection. Close the oldest one of its peer, or of all, if there are too many."""
        with self._lock:
            of_peer = [each for each, address in self._peers.items() if address == peer]
            if len(of_peer) >= MOST_OF_A_PEER:
                self._close(of_peer[0])
            elif len(self._peers) >= MOST_CONNECTIONS:
                self._close(next(iter(self._peers)))
            self._peers[connection] = peer

    def remove(self, connection: socket.socket) -> None:
        """Forget a connection."""
        with self._lock:
            self._peers.pop(connection, None)

    def _close(self, connection: socket.socket) -> None:
        """End what its thread reads; the thread closes it."""
        del self._peers[connection]
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        self._room = threading.BoundedSemaphore(_MOST_THREADS)
        self._waiting = _Waiting()
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Bind without the look-up of our own name that HTTPServer makes: it may wait for a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._waiting.add(request, client_address[0])
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.has_request(request)
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.has_request(request)
            self._room.release()

    def has_request(self, request: socket.socket) -> None:
        """Note that this connection has sent its whole request, or is over."""
        self._waiting.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("monitor: a request failed", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server_class(address: ListenAddress) -> type[_Server]:
    return _Server6 if ":" in address.host else _Server


class _RequestReader(io.RawIOBase):
    """Reads a request until its time is over. A timeout of the socket alone begins again with each byte."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_TIMEOUT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        self._connection.settimeout(REQUEST_TIMEOUT)
        return count


def _handler_class(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server: _Server
        timeout = REQUEST_TIMEOUT
        server_version = "dcron"
        sys_version = ""

        def setup(self) -> None:
            super().setup()
            self.rfile = io.BufferedReader(_RequestReader(self.connection))

        def parse_request(self) -> bool:
            if not super().parse_request():
                return False
            self.server.has_request(self.request)
            if self.command != "GET":
                self._answer(Page.of("only GET is served\n", HTTPStatus.METHOD_NOT_ALLOWED))
            return self.command == "GET"

        def do_GET(self) -> None:
            make = pages.get(self.path.partition("?")[0])
            if make is None:
                known = "".join(f"{path}\n" for path in pages)
                self._answer(Page.of(f"not found; there are:\n{known}", HTTPStatus.NOT_FOUND))
                return
            try:
                page = make(", ".join(self.headers.get_all("Accept", [])))
            except Exception as error:
                path = self.path.partition("?")[0]
                log.exception("monitor: %s cannot be shown", path, extra={"event": "monitor-failed"})
                page = Page.of(f"{type(error).__name__}\n", HTTPStatus.INTERNAL_SERVER_ERROR)
            self._answer(page)

        def _answer(self, page: Page) -> None:
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.send_header("Cache-Control", "no-store")
            if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Log nothing for a request: a probe comes every few seconds."""

    return Handler
