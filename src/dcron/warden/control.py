"""The warden's end of the socket to its agent. It never waits, neither to receive nor to send."""

import socket
from collections.abc import Iterator

from dcron.warden.linux import boottime
from dcron.warden.protocol import LineReader, Message, encode
from dcron.warden.timers import Timers

_NEWS_PAUSE = 0.1
"""Seconds between two messages about new output."""


class Control:
    """Receives the agent's messages, and sends queued messages when the agent reads."""

    def __init__(self, sock: socket.socket, timers: Timers) -> None:
        self.fd = sock.fileno()
        self.closed = False
        """Whether the agent has closed its end: no more messages will come."""
        self._socket = sock
        self._timers = timers
        self._lines = LineReader()
        self._outbox = bytearray()
        self._blocked = False
        self._stopped = False
        self._news: set[int] = set()
        self._news_due = False

    def receive(self) -> Iterator[Message]:
        """Yield the messages that the agent has sent."""
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        yield from self._lines.feed(data)
        self.closed = not data

    def queue(self, message: Message) -> None:
        """Queue a message for the next `flush`."""
        if not self._stopped:
            self._outbox += encode(message)

    def stop_sending(self) -> None:
        """Send nothing from now on: the agent is gone."""
        self._stopped = True
        self._outbox.clear()

    def flush(self) -> bool:
        """Send what the socket takes; return False if it now blocks, until `unblock`."""
        if not self._outbox or self._blocked:
            return True
        try:
            sent = self._socket.send(self._outbox)
        except BlockingIOError:
            sent = 0
        except OSError:  # the agent is gone; `receive` notices that
            sent = len(self._outbox)
        del self._outbox[:sent]
        self._blocked = bool(self._outbox)
        return not self._blocked

    def unblock(self) -> None:
        """Note that the socket has room again."""
        self._blocked = False

    def announce(self, run_id: int) -> None:
        """Report soon, together with other runs, that this run has new output."""
        self._news.add(run_id)
        if not self._news_due:
            self._news_due = True
            self._timers.at(boottime() + _NEWS_PAUSE, self._queue_news)

    def withdraw(self, run_id: int) -> None:
        """Cancel the report about new output: the run's result says more."""
        self._news.discard(run_id)

    def _queue_news(self) -> None:
        if self._outbox:  # the agent does not read: report once when it does, not ten times a second
            self._timers.at(boottime() + _NEWS_PAUSE, self._queue_news)
            return
        self._news_due = False
        if self._news:
            self.queue({"is": "output", "runs": list(self._news)})
            self._news.clear()
