"""The warden's end of the socket to its agent: never waits, neither to hear nor to say something."""

import socket
from collections.abc import Iterator

from dcron.warden.linux import boottime
from dcron.warden.protocol import Lines, Message, encode
from dcron.warden.timers import Timers

_NEWS_PAUSE = 0.1
"""Seconds between two words that there is new output."""


class Control:
    """What the agent says, and what is to be said to it once it listens."""

    def __init__(self, sock: socket.socket, timers: Timers) -> None:
        self.fd = sock.fileno()
        self.closed = False
        """Whether the agent has closed its end: nothing will come any more."""
        self._socket = sock
        self._timers = timers
        self._lines = Lines()
        self._outbox = bytearray()
        self._blocked = False
        self._silent = False
        self._news: set[int] = set()
        self._news_due = False

    def receive(self) -> Iterator[Message]:
        """Yield what the agent has sent."""
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        yield from self._lines.feed(data)
        self.closed = not data

    def say(self, message: Message) -> None:
        """Have a message sent with the next `flush`."""
        if not self._silent:
            self._outbox += encode(message)

    def fall_silent(self) -> None:
        """Say nothing any more: nobody listens."""
        self._silent = True
        self._outbox.clear()

    def flush(self) -> bool:
        """Send what the socket takes; return False if it has now begun to block, until `unblock`."""
        if not self._outbox or self._blocked:
            return True
        try:
            sent = self._socket.send(self._outbox)
        except BlockingIOError:
            sent = 0
        except OSError:  # nobody listens; the end of the agent is noticed where it is read
            sent = len(self._outbox)
        del self._outbox[:sent]
        self._blocked = bool(self._outbox)
        return not self._blocked

    def unblock(self) -> None:
        """Take note that the socket has room again."""
        self._blocked = False

    def announce(self, run_id: int) -> None:
        """Have it said that the run has new output, soon, and together with others."""
        self._news.add(run_id)
        if not self._news_due:
            self._news_due = True
            self._timers.at(boottime() + _NEWS_PAUSE, self._tell_news)

    def withdraw(self, run_id: int) -> None:
        """Leave it unsaid: the run's end says more."""
        self._news.discard(run_id)

    def _tell_news(self) -> None:
        if self._outbox:  # the agent does not listen: say it once when it does, not ten times a second
            self._timers.at(boottime() + _NEWS_PAUSE, self._tell_news)
            return
        self._news_due = False
        if self._news:
            self.say({"is": "output", "runs": list(self._news)})
            self._news.clear()
