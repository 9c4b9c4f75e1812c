"""Run database work off the UI thread, and bring each answer back to it.

The UI thread asks; a daemon thread runs one request after the other, so quitting waits for no query.
A request replaces the one that was asked under the same topic before, and a replaced request gets no answer.
"""

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dcron.errors import DatabaseError, DatabaseReplaced, DcronError, SchemaVersionError, unexpected
from dcron.tui.reads.health import Health

R = TypeVar("R")
T = TypeVar("T")
Post = Callable[..., object]
"""Call a function with arguments in the UI thread, soon; such as `App.call_later`. Safe in any thread."""


@dataclass(frozen=True)
class Request:
    """Work for the thread, and the functions that take its outcome in the UI thread."""

    topic: Hashable
    number: int
    work: Callable[[Any], Any]
    receive: Callable[[Any], object]
    refuse: Callable[[DcronError], object] | None
    waits: bool
    """Whether it is asked again when the database is back."""
    expires_at: float | None
    """Monotonic time after which the work is refused instead of started."""


def timed(question: Callable[[R], T]) -> Callable[[R], tuple[T, float]]:
    """Return the question whose answer comes with the seconds that it took."""

    def ask(connection: R) -> tuple[T, float]:
        began = time.perf_counter()
        return question(connection), time.perf_counter() - began

    return ask


class DatabaseThread(Generic[R]):
    """A daemon thread that owns a connection and answers requests, the oldest topic first."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], R],
        post: Post,
        *,
        health: Health | None = None,
        health_changed: Callable[[], object] | None = None,
        crashed: Callable[[Exception], object] | None = None,
    ) -> None:
        """`connect` is called in the thread before the first request, and again if the file was replaced.

        `crashed` gets what makes the database unusable, such as an invalid URL or a bug, and ends the thread;
        without it such errors refuse the request. All functions but `connect` are called in the UI thread.
        """
        self.health = health or Health()
        self._connect = connect
        self._post = post
        self._health_changed = health_changed
        self._crashed = crashed
        self._wake = threading.Condition()
        self._pending: dict[Hashable, Request] = {}
        self._numbers: dict[Hashable, int] = {}
        self._last_number = 0
        self._connection: R | None = None
        self._is_stopped = False
        self._retries_now = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    # In the UI thread -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to work on the requests."""
        if self.thread.ident is None:
            self.thread.start()

    def stop(self) -> None:
        """Start no more work. A query that hangs may go on hanging."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify()

    def ask(
        self,
        topic: Hashable,
        work: Callable[[R], T],
        receive: Callable[[T], object],
        refuse: Callable[[DcronError], object] | None = None,
        *,
        waits: bool = True,
        seconds: float | None = None,
    ) -> None:
        """Run `work` in the thread, then call `receive` with its result, or `refuse` with its error.

        While the database is away the request waits for it, or is refused if it does not wait.
        If `seconds` pass before it is started, it is refused.
        """
        with self._wake:
            self._last_number += 1
            self._numbers[topic] = self._last_number
            expires_at = None if seconds is None else time.monotonic() + seconds
            self._pending[topic] = Request(topic, self._last_number, work, receive, refuse, waits, expires_at)
            self._wake.notify()

    def forget(self, topic: Hashable) -> None:
        """Drop the request of this topic, and its answer."""
        with self._wake:
            self._pending.pop(topic, None)
            self._numbers.pop(topic, None)

    def forget_all(self, owner: object) -> None:
        """Drop all requests under topics `(owner, ...)`, and their answers."""
        for topic in [each for each in self._numbers if isinstance(each, tuple) and each[0] is owner]:
            self.forget(topic)

    def is_waiting(self, topic: Hashable) -> bool:
        """Return whether a request of this topic has no answer yet."""
        return topic in self._numbers

    def retry_now(self) -> None:
        """Try a lost database again at once."""
        with self._wake:
            self._retries_now = True
            self._wake.notify()

    def _deliver(self, request: Request, take: Callable[[Any], object] | None, value: object) -> None:
        """Hand on the outcome, unless the request was replaced or forgotten meanwhile."""
        if self._numbers.get(request.topic) == request.number:
            del self._numbers[request.topic]
            if take:
                take(value)

    # In the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while request := self._next():
            self.health.asked_at = time.monotonic()
            self._answer(request)
            self.health.asked_at = None

    def _next(self) -> Request | None:
        """Wait for the next request; return None when the thread is stopped."""
        with self._wake:
            self._wake.wait_for(lambda: self._pending or self._is_stopped)
            return None if self._is_stopped else self._pending.pop(next(iter(self._pending)))

    def _answer(self, request: Request) -> None:
        if request.expires_at is not None and time.monotonic() > request.expires_at:
            late = "was not done: the database was away for too long; ask again"
            self._refuse(request, DatabaseError(late))
            return
        try:
            if self._connection is None:
                self._connection = self._connect()
            answer = request.work(self._connection)
        except DatabaseError as error:
            if isinstance(error, SchemaVersionError) and self._connection is None and self._crashed:
                self._crash(error)
            else:
                self._lost(request, error)
        except Exception as error:
            is_expected = isinstance(error, DcronError)
            if self._crashed and not (is_expected and self._connection is not None):
                self._crash(error)
            else:
                self._heard()
                self._refuse(
                    request, error if isinstance(error, DcronError) else DcronError(unexpected(error))
                )
        else:
            self._heard()
            self._call(self._deliver, request, request.receive, answer)

    def _heard(self) -> None:
        was_lost = self.health.lost_at is not None or self.health.heard_at is None
        self.health.heard()
        if was_lost:
            self._call(self._health_changed)

    def _crash(self, error: Exception) -> None:
        self._is_stopped = True
        self._call(self._crashed, error)

    def _lost(self, request: Request, error: DatabaseError) -> None:
        """Refuse requests that do not wait. If others do, pause before the next attempt."""
        if isinstance(error, DatabaseReplaced):
            self._connection = None
        with self._wake:
            is_current = self._numbers.get(request.topic) == request.number
            if is_current and request.topic not in self._pending:
                self._pending[request.topic] = request
            until = time.monotonic() + self.health.failed(error)
            self.health.asked_at = None
            self._call(self._health_changed)
            self._retries_now = False
            while not (self._is_stopped or self._retries_now):
                for each in [each for each in self._pending.values() if not each.waits]:
                    self._refuse(self._pending.pop(each.topic), error)
                left = until - time.monotonic()
                if left <= 0 or not self._pending:
                    break
                self._wake.wait(left)

    def _refuse(self, request: Request, error: DcronError) -> None:
        self._call(self._deliver, request, request.refuse, error)

    def _call(self, function: Callable[..., object] | None, *arguments: object) -> None:
        """Call the function in the UI thread. The app may have ended, then nothing is called."""
        if function:
            with suppress(RuntimeError):
                self._post(function, *arguments)
