"""The thread that asks the database. Nothing on the screen ever waits for it.

Each topic has a generation: an answer is dropped when something newer was asked under its topic meanwhile.
It is a daemon thread, so quitting waits for no query.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from dcron.errors import DatabaseError, DatabaseReplaced, DcronError, SchemaVersionError
from dcron.tui.health import Health

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Dashboard

T = TypeVar("T")
_UNSEEN = object()
"""The token before the first look: what was asked meanwhile is answered after it, so nothing has changed."""


@dataclass(frozen=True)
class Request:
    """A question and who wants to know."""

    topic: Hashable
    generation: int
    question: "Callable[[Dashboard], Any]"
    receive: Callable[[Any], None]
    refuse: Callable[[DcronError], None] | None
    waits: bool
    """Whether it is still asked when the database is back."""


class Answered(Message):
    """The answer to a question."""

    def __init__(self, request: Request, answer: Any) -> None:
        """Of this request."""
        super().__init__()
        self.request = request
        self.answer = answer


class Changed(Message):
    """Somebody has written to the database."""


class HealthChanged(Message):
    """The database was lost, or is back."""


class Unusable(Message):
    """The database can be reached and not be used; asking again will not help."""

    def __init__(self, error: Exception) -> None:
        """For this reason."""
        super().__init__()
        self.error = error


class Reader:
    """Owns the connection that reads, and answers one question at a time, the oldest topic first."""

    def __init__(
        self, connect: "Callable[[], Dashboard]", tell: Callable[[Message], object], health: Health
    ) -> None:
        """`connect` opens the board and may take its time; `tell` must be safe to call from any thread."""
        self._connect = connect
        self._tell = tell
        self.health = health
        self._board: Dashboard | None = None
        self._wake = threading.Condition()
        self._pending: dict[Hashable, Request] = {}
        self._generations: dict[Hashable, int] = {}
        self._look_at = 0.0
        self._retry_now = False
        self._stopped = False
        self._token: object = _UNSEEN
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Ask nothing more; what is being asked may go on until the program ends."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def ask(
        self,
        topic: Hashable,
        question: "Callable[[Dashboard], T]",
        receive: Callable[[T], None],
        refuse: Callable[[DcronError], None] | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Have `question` answered in the thread, and `receive` called with the answer by the app.

        It takes the place of what was asked under the topic before. `refuse` gets an error of the question
        itself, such as NotFound; while the database is away the question waits, or is refused.
        """
        with self._wake:
            generation = self._generations.get(topic, 0) + 1
            self._generations[topic] = generation
            self._pending[topic] = Request(topic, generation, question, receive, refuse, waits)
            self._wake.notify()

    def forget(self, topic: Hashable) -> None:
        """Nobody wants to know any more."""
        with self._wake:
            self._pending.pop(topic, None)
            self._generations.pop(topic, None)

    def forget_all(self, owner: object) -> None:
        """Nobody wants to know any more what was asked under topics `(owner, what)`."""
        for topic in [each for each in self._generations if isinstance(each, tuple) and each[0] is owner]:
            self.forget(topic)

    def is_current(self, request: Request) -> bool:
        """Whether nothing newer was asked under the topic."""
        return self._generations.get(request.topic) == request.generation

    def look_now(self) -> None:
        """Look for changes at once, and do not wait to try again."""
        with self._wake:
            self._look_at, self._retry_now, self._token = 0.0, True, None
            self._wake.notify()

    # In the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped:
            request = self._next()
            if self._stopped:
                return
            self.health.asked_at = time.monotonic()
            try:
                if self._board is None:
                    self._board = self._connect()
                    self._look(self._board)
                if request:
                    self._answer(self._board, request)
                else:
                    self._look(self._board)
            except DatabaseError as error:
                self._lost(error, request)
            except Exception as error:  # the URL, or a mistake of ours: either ends the program in words
                self._tell(Unusable(error))
                return
            finally:
                self.health.asked_at = None

    def _next(self) -> Request | None:
        """The next question; None when it is time to look for changes."""
        with self._wake:
            while not self._stopped:
                if self._pending:
                    return self._pending.pop(next(iter(self._pending)))
                wait = (
                    None
                    if self.health.paused and self._token is not None
                    else self._look_at - time.monotonic()
                )
                if wait is not None and wait <= 0:
                    return None
                self._wake.wait(wait)
        return None

    def _answer(self, board: "Dashboard", request: Request) -> None:
        try:
            answer = request.question(board)
        except DatabaseError:
            raise
        except DcronError as error:
            self._heard()
            self._refuse(request, error)
            return
        self._heard()
        self._tell(Answered(request, answer))

    def _refuse(self, request: Request, error: DcronError) -> None:
        if request.refuse:
            self._tell(Answered(replace(request, receive=request.refuse), error))

    def _look(self, board: "Dashboard") -> None:
        look = board.poll()
        changed = self._token is not _UNSEEN and look.token != self._token
        self._token = look.token
        self._heard(look.now)
        # Armed after the look has ended: a slow database is not asked the more for it.
        self._look_at = time.monotonic() + self.health.interval
        if changed:
            self._tell(Changed())

    def _heard(self, now: Any = None) -> None:
        was_lost = self.health.lost_at is not None or self.health.heard_at is None
        self.health.heard(now)
        if was_lost:
            self._tell(HealthChanged())

    def _lost(self, error: DatabaseError, request: Request | None) -> None:
        if isinstance(error, SchemaVersionError) and self._board is None:
            self._tell(Unusable(error))
            self._stopped = True
            return
        with self._wake:
            if request and self.is_current(request) and request.topic not in self._pending:
                self._pending[request.topic] = request
            if isinstance(error, DatabaseReplaced):
                self._board = None
            for asked in [each for each in self._pending.values() if not each.waits]:
                self._refuse(self._pending.pop(asked.topic), error)
            self._token = None  # tokens of another connection tell nothing
            until = time.monotonic() + self.health.failed(error)
            self.health.asked_at = None
            self._tell(HealthChanged())
            self._retry_now = False
            while not (self._stopped or self._retry_now) and (left := until - time.monotonic()) > 0:
                self._wake.wait(left)
