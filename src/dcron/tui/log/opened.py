"""The state of the log on the screen."""

import time
from datetime import datetime

from dcron.model import Run, RunState
from dcron.policy.starting.freezes import NEVER
from dcron.services.log import News
from dcron.tui.log.search import Criteria, Search
from dcron.tui.log.text import LogText

OUTPUT_EVERY = 0.25
"""Seconds between two reads of the output of a running run."""
RUN_EVERY = 1.0
"""Seconds between two reads of the state of an unfinished run."""
FINISHED_EVERY = 5.0
"""Seconds between two reads of a finished run: the output of a lost one may come late."""


class OpenedLog:
    """A run, its output so far, and the shown part of it."""

    def __init__(self, run: Run, now: datetime, criteria: Criteria) -> None:
        """The run was read at the database's time `now`; its output was not read yet."""
        self.run, self.now, self.read_at = run, now, time.monotonic()
        self.frozen = NEVER
        """When the crontab is and will be frozen, while the run waits."""
        self.text = LogText()
        self.search = Search(self.text, criteria)
        self.has_more = True
        """Whether there is more output to read."""

    @property
    def reads_run(self) -> bool:
        """Whether it is time to read the state of the run."""
        every = FINISHED_EVERY if self.run.state.is_final else RUN_EVERY
        return not self.has_more and time.monotonic() - self.read_at >= every

    @property
    def pause(self) -> float:
        """Seconds until the next read."""
        if self.has_more:
            return 0.0
        if self.run.state.is_final:
            return FINISHED_EVERY
        return OUTPUT_EVERY if self.run.state in (RunState.CLAIMED, RunState.RUNNING) else RUN_EVERY

    @property
    def is_searched(self) -> bool:
        """Whether the filter and the search have seen all complete lines."""
        return self.search.is_done(self._searchable)

    def take(self, news: News) -> None:
        """Add new output."""
        if news.run and news.now:
            self.run, self.now, self.read_at = news.run, news.now, time.monotonic()
            self.frozen = news.frozen
        for chunk in news.chunks:
            self.text.append(chunk)
        self.has_more = news.has_more
        if news.dropped and (gap := self.text.drop_middle(*news.dropped)):
            self.search.drop(*gap)

    def show(self, criteria: Criteria) -> None:
        """Filter and search anew."""
        self.search = Search(self.text, criteria)

    def search_on(self) -> None:
        """Search for a short time."""
        self.search.step(self._searchable)

    @property
    def _searchable(self) -> int:
        """The byte after the last line that cannot grow any more, as far as is known."""
        is_over = self.run.state.is_final and not self.has_more
        return self.text.end if is_over else self.text.complete_end
