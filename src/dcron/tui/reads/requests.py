"""Ask the database for what keys wait for, and let it do what a person asked for."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from dcron.errors import DcronError
from dcron.tui.keys.input_queue import IMPATIENT
from dcron.tui.reads.database_thread import DatabaseThread

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Dashboard
    from dcron.tui.reads.acts import Act, Outcome

T = TypeVar("T")
Refuse = Callable[[DcronError], None]
_OWN_ACTS = 100
"""Acts of this session that can be undone as such."""
EXPIRY = 10.0
"""Seconds after which a change that waits behind a hanging database is refused."""


class Requests:
    """What a person asked for and is not done yet. For the UI thread."""

    def __init__(self, reads: "DatabaseThread[Dashboard]", writes: "DatabaseThread[Crontab]") -> None:
        """`reads` answers questions, `writes` makes changes."""
        self._reads = reads
        self._writes = writes
        self._fetching_since: float | None = None
        """Monotonic time since which keys wait for `fetch`."""
        self.own_batches: list[str] = []
        """The batches of what was asked for, the last one last. A batch may have no changes."""
        self._writing = 0
        """Number of calls of `write` that keys wait for."""

    @property
    def is_fetching(self) -> bool:
        """Whether keys wait for `fetch`."""
        return self._fetching_since is not None

    @property
    def is_writing(self) -> bool:
        """Whether keys wait for `write`."""
        return self._writing > 0

    @property
    def takes_long(self) -> bool:
        """Whether keys have waited long for `fetch`."""
        return self._fetching_since is not None and time.monotonic() - self._fetching_since >= IMPATIENT

    def fetch(
        self, question: "Callable[[Dashboard], T]", receive: Callable[[T], None], refuse: Refuse
    ) -> None:
        """Ask the database; keys wait for the answer."""
        self._fetching_since = time.monotonic()

        def received(answer: T) -> None:
            self._fetching_since = None
            receive(answer)

        def refused(error: DcronError) -> None:
            self._fetching_since = None
            refuse(error)

        self._reads.ask("fetch", question, received, refused, waits=False)

    def cancel_fetch(self) -> None:
        """Forget the question: its answer is not shown."""
        self._reads.forget("fetch")
        self._fetching_since = None

    def write(self, work: "Callable[[Crontab], T]", receive: Callable[[T], None], refuse: Refuse) -> None:
        """Call a service; keys wait for the result."""
        self._writing += 1

        def received(answer: T) -> None:
            self._writing -= 1
            receive(answer)

        def refused(error: DcronError) -> None:
            self._writing -= 1
            refuse(error)

        self._change(work, received, refused)

    def act(self, acts: "Sequence[Act]", receive: "Callable[[Sequence[Outcome]], None]") -> None:
        """Do these; keys do not wait."""
        from dcron.tui.reads.acts import Outcome, perform

        def refused(error: DcronError) -> None:
            receive([Outcome(act, str(error), error) for act in acts])

        self._change(lambda crontab: [perform(act, crontab) for act in acts], receive, refused)

    def _change(self, work: "Callable[[Crontab], T]", receive: Callable[[T], None], refuse: Refuse) -> None:
        def work_as_act(crontab: "Crontab") -> T:
            acting = crontab.acting("tui")
            self.own_batches = [*self.own_batches, acting.author.batch][-_OWN_ACTS:]
            return work(acting)

        self._writes.start()
        self._writes.ask(
            object(),
            work_as_act,
            receive,
            refuse,
            waits=False,
            seconds=EXPIRY,
        )
