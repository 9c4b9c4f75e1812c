"""A TCP proxy before Postgres that delays, cuts, holds back, or swallows the answer to a COMMIT.

It knows just enough of the protocol to separate messages: a byte of type, four of length, the rest.
Clients connect with `Proxy.url`, which turns encryption off.
"""

import asyncio
import random
import threading
from contextlib import suppress
from types import TracebackType

from sqlalchemy.engine import make_url

_COMMITTED = b"COMMIT\0"
_COMMAND_COMPLETE = ord("C")
_CHUNK = 64 * 1024


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
        """Seconds that data takes each way, with any amount under way. Set it before clients connect."""
        self.swallows = 0.0
        """The probability that the answer to a COMMIT is dropped and its connection closed."""
        self.swallowed = 0
        self._chance = chance
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
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(self._questions(reader, server_writer)),
                        asyncio.ensure_future(self._answers(server_reader, writer)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            with suppress(asyncio.CancelledError):  # by _stop
                await asyncio.sleep(self.delay)  # the last data arrives
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._pass(data, writer)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(5)
                body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
                if head[0] == _COMMAND_COMPLETE and body == _COMMITTED and self._swallows():
                    return
                await self._pass(head + body, writer)

    def _swallows(self) -> bool:
        swallow = self._chance.random() < self.swallows
        self.swallowed += swallow
        return swallow

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        while self.held:
            await asyncio.sleep(0.02)
        if self.delay:
            self._loop.call_later(self.delay, _write, writer, data)
        else:
            writer.write(data)
            await writer.drain()


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)
