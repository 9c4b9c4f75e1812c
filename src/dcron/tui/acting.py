"""Acts: each is a call of the service, made in a thread of its own, and told with its command line."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from dcron.errors import Conflict, DatabaseError, DcronError, unexpected

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.model import Task
    from dcron.services.crontab import Crontab

FORGOTTEN = 10.0
"""Seconds after which nobody expects any more that what waited behind a hanging database is done."""


@dataclass(frozen=True)
class Act:
    """Something to be done."""

    what: str
    """In a few words: `pause backup`."""
    command: str
    """The command line that does the same."""
    do: "Callable[[Crontab], str]"
    """Does it, and tells what was done. Raises DcronError."""
    afresh: "Callable[[Crontab], str] | None" = None
    """The same, on the line as it stands by then: for when somebody else was first."""
    task: "Task | None" = None
    """The line as it was read."""


@dataclass(frozen=True)
class Outcome:
    """How an act went."""

    act: Act
    told: str
    error: DcronError | None = None
    theirs: "Task | None" = None
    """The line as it is, where somebody else was first."""


class Acted(Message):
    """Acts were done, or refused."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        """In the order in which they were asked for."""
        super().__init__()
        self.outcomes = outcomes


class Acting:
    """Does what people asked for, one thing after the other. A daemon thread: quitting waits for no lock."""

    def __init__(self, connect: "Callable[[], Crontab]", tell: Callable[[Message], object]) -> None:
        """`connect` opens the crontab, or gives the open one; `tell` is safe to call from threads."""
        self._connect = connect
        self._tell = tell
        self._acts: queue.SimpleQueue[tuple[float, Sequence[Act]]] = queue.SimpleQueue()
        """With the monotonic times at which they were asked for."""
        self._thread: threading.Thread | None = None

    def submit(self, acts: Sequence[Act]) -> None:
        """Do these."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="acting", daemon=True)
            self._thread.start()
        self._acts.put((time.monotonic(), acts))

    def _run(self) -> None:
        while True:
            asked_at, acts = self._acts.get()
            if time.monotonic() - asked_at > FORGOTTEN:
                late = DatabaseError("was not done: the database was away for too long; ask again")
                self._tell(Acted([Outcome(act, str(late), late) for act in acts]))
            else:
                self._tell(Acted([self._done(act) for act in acts]))

    def _done(self, act: Act) -> Outcome:
        try:
            crontab = self._connect()
            try:
                return Outcome(act, act.do(crontab))
            except Conflict as error:
                theirs = crontab.tasks_by_id([act.task.id]) if act.task else {}
                return Outcome(act, str(error), error, next(iter(theirs.values()), None))
        except DcronError as error:
            return Outcome(act, str(error), error)
        except Exception as error:  # a mistake of ours must not leave the screen without an answer
            told = unexpected(error)
            return Outcome(act, told, DcronError(told))
