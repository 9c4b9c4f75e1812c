"""Keep the screen up to date: check the database for changes, and count the whole crontab now and then."""

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.timer import Timer

from dcron.tui.host import Host
from dcron.tui.reads.database_thread import timed

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Activity, Counts, Dashboard

COUNTS_EVERY = 15.0
"""Least seconds between two counts of the whole crontab; slow counts are rarer still."""
COUNTS_OF_CLOCK = 45.0
"""Seconds after which it is counted again without a change: tasks become late with the time."""
COUNTS_SHARE = 100
"""A count that took one second is repeated after this many seconds at the earliest."""
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds between two checks, as the keys change them."""
_UNSEEN = object()
"""The change token before the first check."""


class Refresher:
    """Checks the database for changes, and counts for the header. For the UI thread."""

    def __init__(self, app: Host) -> None:
        """Check nothing yet."""
        self._app = app
        self._health = app.reads.health
        self._token: object = _UNSEEN
        self._next_check: Timer | None = None
        self._counted_at = 0.0
        """The database's time before which it is not counted again."""
        self._is_uncounted = False
        """Whether there was a change too soon after the last count."""

    def check(self) -> None:
        """Check the database for changes."""
        if self._next_check:
            self._next_check.stop()
        health = self._health

        def read_token(board: "Dashboard") -> object:
            found = board.poll()
            health.set_clock(found.now)
            return found.token

        self._app.reads.ask("changes", read_token, self._take_token)

    def check_now(self) -> None:
        """Check for changes now, and treat all as changed."""
        self.forget_token()
        self._app.reads.retry_now()
        self.check()

    def forget_token(self) -> None:
        """Treat all as changed at the next check: the token of another connection means nothing."""
        if self._token is not _UNSEEN:
            self._token = None

    def change_interval(self, step: int) -> None:
        """Check more rarely, or more often with a negative step."""
        position = min(range(len(INTERVALS)), key=lambda i: abs(INTERVALS[i] - self._health.interval))
        self._health.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, position + step))]
        self.check_now()

    def count(self) -> None:
        """Count the whole crontab, unless it was counted a short time ago."""
        now = self._health.now().timestamp()
        self._is_uncounted = now < self._counted_at
        if not self._is_uncounted:
            self._counted_at = now + COUNTS_EVERY
            self._app.reads.ask("counts", timed(lambda board: board.counts()), self._take_counts)

    def count_at_next_change(self) -> None:
        """Let the next change be counted even if the last count was a short time ago."""
        self._counted_at = 0.0

    def tick(self) -> None:
        """Count again if it is time to."""
        if self._is_uncounted or self._health.now().timestamp() >= self._counted_at + COUNTS_OF_CLOCK:
            self.count()

    def _take_token(self, token: object) -> None:
        is_changed = self._token is not _UNSEEN and token != self._token
        self._token = token
        self._app.as_of = self._health.now()
        # The pause starts after the answer: a slow database is not asked more often than it answers.
        self._next_check = self._app.set_timer(self._health.interval, self._check_unless_paused)
        if is_changed and self._app.refresh_rows():
            self._app.reads.ask("activity", lambda board: board.activity(), self._take_activity)
            self.count()

    def _check_unless_paused(self) -> None:
        if not self._health.paused:
            self.check()

    def _take_activity(self, activity: "Activity") -> None:
        """Show the running runs as they are now, and not as of the last count."""
        counts = self._app.counts
        if counts and counts.activity != activity:
            self._app.counts = replace(counts, activity=activity)
            self._app.redraw_header()
            if counts.activity.frozen != activity.frozen:  # what was late may be held back now
                self.count_at_next_change()
                self.count()

    def _take_counts(self, found: "tuple[Counts, float]") -> None:
        self._app.counts, seconds = found
        self._counted_at = self._health.now().timestamp() + max(COUNTS_EVERY, COUNTS_SHARE * seconds)
        self._app.redraw_header()
