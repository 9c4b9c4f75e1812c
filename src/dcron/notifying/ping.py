"""Send one ping: a short HTTP request to a service such as Healthchecks, which notices when none comes."""

import http.client
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from email.message import Message
from typing import IO, Any

LIMIT = 10.0
"""Seconds that a ping may take in all."""
_ANSWERS_WORTH_A_RETRY = (408, 429)
"""The answers below 500 that another try may change."""


class PingError(Exception):
    """A ping did not arrive. The message does not repeat the URL, which is half a secret."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        """`is_final`: another try would fail in the same way."""
        super().__init__(message)
        self.is_final = is_final


def send(url: str, body: bytes = b"", limit: float = LIMIT) -> None:
    """Request this URL: GET, or POST of a body as plain text. Raises PingError after `limit` seconds.

    A redirect to another host is an error, and so is one from https to http, or to another protocol.
    """
    connections = _Connections(limit)
    headers = {"User-Agent": "dcron"} | ({"Content-Type": "text/plain; charset=utf-8"} if body else {})
    try:
        request = urllib.request.Request(url, data=body or None, headers=headers)
        with connections, connections.opener().open(request, timeout=limit):
            pass
        if connections.are_over:  # headers that were cut off count as complete
            raise TimeoutError
    except urllib.error.HTTPError as error:
        error.close()
        is_final = error.code < 500 and error.code not in _ANSWERS_WORTH_A_RETRY
        raise PingError(_reason_of(error), is_final=is_final) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if connections.are_over or isinstance(cause, TimeoutError):
            raise PingError(f"no answer within {limit:g}s") from None
        raise PingError(_words_for(cause)) from None


def _reason_of(error: urllib.error.HTTPError) -> str:
    if 300 <= error.code < 400:
        return f"it redirects to another host or protocol (HTTP {error.code})"
    return f"HTTP {error.code}"


def _words_for(cause: object) -> str:
    """Return why no answer came, in words that never contain the URL."""
    return (isinstance(cause, OSError) and cause.strerror) or type(cause).__name__


class _Connections:
    """Ends the connections of one request when its time is over: a socket's timeout begins with each byte."""

    def __init__(self, limit: float) -> None:
        self._sockets: list[socket.socket] = []
        self._deadline = time.monotonic() + limit
        self._timer = threading.Timer(limit, self._end)
        self._timer.daemon = True
        self.are_over = False

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        for each in self._sockets:
            each.close()

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """Connect to the first address of the host that answers. Raises OSError when the time is over."""
        failure = OSError("the host has no address")
        for family, kind, protocol, _name, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(left)
                made.connect(place)
            except OSError as error:
                made.close()
                failure = error
            else:
                return made
        raise failure

    def watch(self, connected: socket.socket) -> None:
        """Watch this socket, also if TLS takes it over."""
        self._sockets.append(connected.dup())

    def _end(self) -> None:
        self.are_over = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def opener(self) -> urllib.request.OpenerDirector:
        """Return what opens URLs over watched connections, through the proxies of the environment."""
        connect, watch = self.connect, self.watch

        class Plain(http.client.HTTPConnection):
            def connect(self) -> None:
                self._create_connection = (
                    connect  # the library's own begins its timeout again for each address
                )
                super().connect()
                watch(self.sock)

        class Secure(http.client.HTTPSConnection, Plain):  # its `connect` calls that of Plain, then adds TLS
            pass

        class PlainHandler(urllib.request.HTTPHandler):
            def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(Plain, req)

        class SecureHandler(urllib.request.HTTPSHandler):
            def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
                return self.do_open(Secure, req)

        opener = urllib.request.OpenerDirector()
        for handler in (
            *(urllib.request.ProxyHandler, PlainHandler, SecureHandler, _SameHost),
            *(urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor),
            urllib.request.UnknownHandler,
        ):
            opener.add_handler(handler())
        return opener


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https within one host, with the same method and body."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        allowed = ("https",) if old.scheme == "https" else ("http", "https")
        if new.hostname != old.hostname or new.scheme not in allowed:
            return None
        kept: dict[str, Any] = {**req.headers}
        return urllib.request.Request(newurl, data=req.data, headers=kept)

    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302
