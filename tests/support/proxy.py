"""A TCP proxy before Postgres that delays, cuts, holds back, or swallows the answer to a COMMIT. It can break
each connection after a certain message.

It knows just enough of the protocol to separate messages: a byte of type, four of length, the rest.
Clients connect with `Proxy.url`, which turns encryption off.
"""

import asyncio
import random
import socket
import struct
import threading
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import NamedTuple

from sqlalchemy.engine import make_url

_COMMITTED = b"COMMIT\0"
_COMMAND_COMPLETE = ord("C")
_BACKEND_KEY = ord("K")
_CHUNK = 64 * 1024


RESENT_AFTER = 0.4
"""Seconds until TCP sends lost data again: the first timeout of Linux, with a round trip of 200 ms."""
HOW = ("reset", "close", "silence")
_AT_ONCE = struct.pack("ii", 1, 0)


class Break(NamedTuple):
    """How a connection breaks."""

    after: int
    """The number of the last message that gets through, of one direction."""
    how: str
    """`reset`; `close`, as a proxy does that ends; `silence`: both ends stay open, and nothing arrives."""
    of_server: bool = False
    """Whether the server's messages are counted, not the client's."""


class Proxy:
    """Listens on a port of its own, in a thread of its own. Its attributes can change at any time."""

    def __init__(self, upstream: str, chance: random.Random) -> None:
        """`upstream` is the server's Unix socket."""
        self.upstream = upstream
        """The server of connections made from now on."""
        self.held = False
        """Let nothing through, either way; what arrives meanwhile is lost with its connection."""
        self.refusing = False
        """Close every new connection at once."""
        self.delay = 0.0
        """Seconds that data takes each way, with any amount under way."""
        self.loses = 0.0
        """The probability that data is lost once, and comes with all that follows it after RESENT_AFTER."""
        self.swallows = 0.0
        """The probability that the answer to a COMMIT is dropped and its connection closed."""
        self.swallowed = 0
        self.breaking: Break | None = None
        """How each connection breaks that is made from now on."""
        self.broken = 0
        """Connections that were broken so."""
        self.hides_keys = False
        """Give clients keys of its own, as a pooler does."""
        self._chance = chance
        self._arrives: dict[asyncio.StreamWriter, float] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def url(self, database: str) -> str:
        """Return the URL of a database of the server, through the proxy."""
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        url = make_url(database).set(host="127.0.0.1", port=self.port, query=plain)
        return url.render_as_string(hide_password=False)

    def cut(self) -> int:
        """Close every connection; return how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    async def _cut(self) -> int:
        writers, self._writers = self._writers, set()
        for writer in writers:
            writer.transport.abort()
        return len(writers) // 2

    async def _stop(self) -> None:
        self._server.close()
        await self._cut()
        mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self.upstream)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, server_writer}
        self._writers |= both
        breaking = self.breaking
        by_client, by_server = _counted(breaking)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # by _stop
                ways = [
                    asyncio.ensure_future(self._questions(reader, server_writer, by_client)),
                    asyncio.ensure_future(self._answers(server_reader, writer, by_server)),
                ]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if breaking and not reader.at_eof() and not server_reader.at_eof():
                    for way in ways:
                        way.cancel()
                    await asyncio.wait(ways)
                    await self._break(breaking, reader, writer)
            with suppress(asyncio.CancelledError):  # by _stop
                await asyncio.sleep(
                    self.delay + (RESENT_AFTER if self.loses else 0.0)
                )  # the last data arrives
        finally:
            self._writers -= both
            for each in both:
                self._arrives.pop(each, None)
                each.transport.abort()

    async def _questions(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, messages: float
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if messages == inf:
                while data := await reader.read(_CHUNK):
                    await self._pass(data, writer)
            kind = 0  # the first message has no byte of type
            while messages > 0:
                head = await reader.readexactly(kind + 4)
                body = await reader.readexactly(int.from_bytes(head[kind:], "big") - 4)
                await self._pass(head + body, writer)
                kind, messages = 1, messages - 1

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, messages: float
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while messages > 0:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
                if head[0] == _COMMAND_COMPLETE and body == _COMMITTED and self._swallows():
                    return
                if head[0] == _BACKEND_KEY and self.hides_keys:
                    body = self._chance.randbytes(len(body))
                await self._pass(head + body, writer)
                messages -= 1

    async def _break(
        self, breaking: Break, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broken += 1
        if breaking.how == "silence":
            while await reader.read(_CHUNK):  # until the client gives it up
                pass
        elif breaking.how == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)

    def _swallows(self) -> bool:
        swallow = self._chance.random() < self.swallows
        self.swallowed += swallow
        return swallow

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        while self.held:
            await asyncio.sleep(0.02)
        now = self._loop.time()
        last = self._arrives.get(writer, 0.0)
        if self.delay or self.loses or last > now:  # what is under way comes first
            lost = RESENT_AFTER if self._chance.random() < self.loses else 0.0
            at = self._arrives[writer] = max(now + self.delay + lost, last + 1e-6)
            self._loop.call_at(at, _write, writer, data)
        else:
            writer.write(data)
            await writer.drain()


def _counted(breaking: Break | None) -> tuple[float, float]:
    """Return how many messages of the client and of the server get through."""
    if breaking is None:
        return inf, inf
    return (inf, breaking.after) if breaking.of_server else (breaking.after, inf)


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)
