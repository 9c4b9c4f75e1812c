"""The tab with the output of the task's running or last run, as it grows."""

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.errors import NotFound
from dcron.services.dashboard import Dashboard
from dcron.services.log import News, RunLog
from dcron.tui.keys.keynames import with_keys
from dcron.tui.log.header import state
from dcron.tui.log.lines import LogLine
from dcron.tui.log.opened import OpenedLog
from dcron.tui.log.search import ALL
from dcron.tui.log.view import LogView
from dcron.tui.table.pane import Pane


class LogPane(Pane):
    """Follows the output of one run. Enter opens it with search, filter and pager."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open", id="page.open_log")]
    DEFAULT_CSS = "LogPane Static { height: 1; color: $foreground-muted; }"
    title = "Log"

    def __init__(self) -> None:
        super().__init__()
        self._note = Static("", markup=False)
        self._run_id: int | None = None
        self._opened: OpenedLog | None = None
        self._is_known = False
        """Whether it is known which run is shown, or that there is none."""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._note
            yield LogView(self.host.zone)

    @property
    def is_ready(self) -> bool:
        """Whether the first lines are there."""
        return self._is_known and (self._run_id is None or self._opened is not None)

    def watch_run(self, run_id: int | None) -> None:
        """Show the output of this run; None if there is no run yet."""
        if self._is_known and run_id == self._run_id:
            return
        self._is_known, self._run_id, self._opened = True, run_id, None
        self.view.clear()
        self.view.follow = True
        self._draw_note()
        self.refresh_data()

    @property
    def view(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def tick(self) -> None:
        """Read what a running command has printed."""
        if self._opened and not self._opened.run.state.is_final:
            self.refresh_data()
        self._draw_note()

    def refresh_data(self) -> None:
        """Read what is new."""
        run_id, opened = self._run_id, self._opened
        if run_id is None:
            return
        end = opened.text.end if opened else 0

        def read(board: Dashboard) -> News | None:
            try:
                return RunLog(board.crontab).news(run_id, end, with_run=True)
            except NotFound:  # it was pruned
                return None

        self.ask("output", read, self._take)

    def _take(self, news: News | None) -> None:
        if news is None or news.run_id != self._run_id:
            return
        if self._opened is None:
            assert news.run
            assert news.now
            self._opened = OpenedLog(news.run, news.now, ALL)
        log = self._opened
        log.take(news)
        log.search_on()
        self.view.show(log.search.rows, log.search.hits, self._line_at)
        self._draw_note()
        if log.has_more:
            self.refresh_data()

    def _line_at(self, start: int) -> LogLine:
        assert self._opened
        return self._opened.text.line(start, colours=False)

    def _draw_note(self) -> None:
        if self._run_id is None:
            text = " it has not run yet" if self._is_known else " ..."
        elif self._opened is None:
            text = f" run {self._run_id} ..."
        else:
            lines = "no output" if not len(self._opened.text) else ""
            key = with_keys(self, "{page.open_log} opens it")
            parts = (f" run {self._run_id}", state(self._opened, time.monotonic()), lines, key)
            text = "  ".join(filter(None, parts))
        self._note.update(Content(text), layout=False)

    def action_open(self) -> None:
        if self._run_id is not None:
            self.host.open_log(self._run_id)
