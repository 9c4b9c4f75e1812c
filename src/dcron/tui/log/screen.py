"""The screen of one log: its keys, and the lines above and below it."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from dcron.errors import DcronError, UsageError
from dcron.services.log import News, RunLog, Which
from dcron.tui.dialogs.prompt import LONGEST, Prompt
from dcron.tui.dialogs.suspend import suspended
from dcron.tui.keys.hints import fitting_hints
from dcron.tui.keys.input_queue import Listener
from dcron.tui.keys.keynames import key_of, with_keys
from dcron.tui.log.header import filters, following, lost, title
from dcron.tui.log.lines import LogLine
from dcron.tui.log.opened import FINISHED_EVERY, RUN_EVERY, OpenedLog
from dcron.tui.log.pager import page, pager_command, save_log, whole_log
from dcron.tui.log.search import ALL, Criteria, Needle
from dcron.tui.log.view import LogView
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.tui.reads.health import Health
from dcron.values.safe_text import safe, shorten

COPIED_BYTES = 64 * 1024
"""Most bytes that terminals take into the clipboard."""
LOW = 8
"""Rows below which the hints are hidden."""
SEARCH_PAUSE = 0.005
"""Seconds between two steps of a search, for the screen to draw."""
_HINTS = (
    "{log.follow} follow",
    "{log.wrap} wrap",
    "{log.times} time",
    "{log.err-only} stderr",
    "{log.search} search",
    "{log.filter} filter",
    "{log.previous-run} {log.next-run} runs",
    "{log.pager} pager",
    "{log.copy} copy",
    "{log.save} save",
    "{app.help} help",
)


class LogScreen(Screen[None], Listener):
    """Shows the output of a run, and follows it while it runs."""

    DEFAULT_CSS = """
    LogScreen { layout: vertical; overflow: hidden; }
    LogScreen > Static { height: 1; width: 1fr; background: $panel; color: $foreground; }
    """
    AUTO_FOCUS = "LogView"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "follow", "Follow", id="log.follow"),
        Binding("w", "wrap", "Wrap", id="log.wrap"),
        Binding("t", "times", "Times", id="log.times"),
        Binding("e", "err_only", "Stderr only", id="log.err-only"),
        Binding("c", "colours", "Colours", id="log.colours"),
        Binding("slash", "search", "Search", id="log.search"),
        Binding("n", "hit(1)", "Next hit", id="log.next-hit"),
        Binding("N", "hit(-1)", "Previous hit", id="log.previous-hit"),
        Binding("ampersand", "filter", "Filter lines", id="log.filter"),
        Binding("left_square_bracket", "run(-1)", "Previous run", id="log.previous-run"),
        Binding("right_square_bracket", "run(1)", "Next run", id="log.next-run"),
        Binding("vertical_line", "pager", "Pager", id="log.pager"),
        Binding("y", "copy", "Copy the line, or the run's number", id="log.copy"),
        Binding("Y", "copy_all", "Copy the whole log", id="log.copy-all"),
        Binding("s", "save", "Save the log to a file", id="log.save"),
        Binding("ctrl+r", "look_now", "Look now", id="log.look-now"),
        Binding("colon", "app.leave_for_command", "Command", id="log.command"),
        Binding("escape", "back", "Back, one step", id="log.back"),
        Binding("q", "leave", "Back", id="log.leave"),
    ]

    def __init__(self, log: RunLog, which: Which, zone: tzinfo = UTC) -> None:
        """Show this run, with times in `zone`."""
        super().__init__()
        self._log = log
        self._which = which
        self._zone = zone
        self.thread = DatabaseThread(
            "log",
            lambda: log,
            self.call_later,
            health=Health(interval=RUN_EVERY),
            health_changed=self._draw_status,
        )
        self._opened: OpenedLog | None = None
        self._is_opening = True
        """Whether another run is being opened."""
        self._is_settled = False
        """Whether all output was read once. From then on only the person moves the lines."""
        self._criteria = ALL
        self._colours = False
        self._seek: tuple[int, bool] | None = None
        """The row from which on a hit is sought, and whether downwards."""
        self._anchor: tuple[int, int, bool] | None = None
        """The line to keep in sight with another filter: its beginning, its distance to the top, its mark."""
        self._next_read: Timer | None = None
        self._next_search: Timer | None = None
        self._error = ""
        self.prompt = Prompt()

    def compose(self) -> ComposeResult:
        yield Static(id="log-title")
        yield LogView(self._zone)
        yield self.prompt
        yield Static(id="log-hints")

    @property
    def lines(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def on_mount(self) -> None:
        """Start to read. The first frame does not wait for it."""
        self.lines.follow = True
        self.thread.start()
        self._open(lambda log: log.run_id(self._which))
        self.set_interval(1.0, self._tick)
        self._draw_status()

    def on_unmount(self) -> None:
        """Stop the thread; a query that hangs may go on hanging."""
        self.thread.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Hide the hints if there is room for few rows only."""
        self.query_one("#log-hints").display = event.size.height >= LOW
        self._draw_status()

    # Reading -----------------------------------------------------------------------------------------

    def _open(self, find: Callable[[RunLog], int]) -> None:
        """Open the run that `find` returns."""
        self._is_opening = True
        if self._next_read:
            self._next_read.stop()

        def read(log: RunLog) -> News:
            return log.news(find(log), 0, with_run=True)

        def refused(error: DcronError) -> None:
            self._is_opening = False
            if self._opened:
                self._toast(str(error))
                self._read_later()
            else:  # the task may have its first run soon
                self._error = str(error)
                self._draw_status()
                self._next_read = self.set_timer(FINISHED_EVERY, lambda: self._open(find))

        self.thread.ask("read", read, self._begin, refused)

    def _begin(self, news: News) -> None:
        """Show another run, at its end."""
        assert news.run
        assert news.now
        self._opened = OpenedLog(news.run, news.now, self._criteria)
        self._is_opening, self._is_settled, self._error = False, False, ""
        self.lines.clear()
        self.lines.follow = True
        self._take(news)

    def _read(self) -> None:
        """Read what is new."""
        if self._next_read:
            self._next_read.stop()
        log = self._opened
        if log is None or self._is_opening:
            return
        run_id, end, with_run = log.run.id, log.text.end, log.reads_run

        def failed(error: DcronError) -> None:
            self._toast(str(error))
            self._read_later()

        self.thread.ask("read", lambda log: log.news(run_id, end, with_run=with_run), self._take, failed)

    def _take(self, news: News) -> None:
        """Show new output, and read on."""
        log = self._opened
        assert log
        before, is_first = log.run, log.text.end == 0
        log.take(news)
        if self._is_settled:
            is_due = bool(news.chunks) or log.run != before
        else:  # draw the first page and the end, not all pages between
            is_due = is_first or not log.has_more
        if is_due:
            self._show(log)
        self._read_later()

    def _read_later(self) -> None:
        log = self._opened
        assert log
        if log.has_more:
            self._read()
        else:
            self._next_read = self.set_timer(log.pause, self._read)

    def _show(self, log: OpenedLog) -> None:
        """Search the new lines for a short time, and show the rows."""
        log.search_on()
        lines = self.lines
        lines.show(log.search.rows, log.search.hits, self._line_at)
        if self._anchor and log.search.is_done(self._anchor[0] + 1):
            start, below_top, is_marked = self._anchor
            self._anchor = None
            if not lines.follow:
                lines.keep_in_sight(lines.row_at(start), below_top, marked=is_marked)
        if not self._is_settled and not log.has_more:
            self._is_settled = True
            if log.run.state.is_final:  # there is nothing to follow
                lines.follow = False
            lines.left_at = lines.rows
        self._seek_on()
        if not log.is_searched:
            self._search_later()
        self._draw_status()

    def _search_later(self) -> None:
        def search() -> None:
            self._next_search = None
            if self._opened:
                self._show(self._opened)

        if self._next_search is None:
            self._next_search = self.set_timer(SEARCH_PAUSE, search)

    def _line_at(self, start: int) -> LogLine:
        assert self._opened
        return self._opened.text.line(start, colours=self._colours)

    # The lines above and below -----------------------------------------------------------------------

    def _tick(self) -> None:
        if self._opened is None or not self._opened.run.state.is_final or self.thread.health.is_old:
            self._draw_status()

    @on(LogView.Moved)
    def _draw_status(self) -> None:
        if self.is_mounted:
            for name, text in (("#log-title", Content(self._title())), ("#log-hints", self._hint())):
                shown = self.query_one(name, Static)
                if text != shown.content:
                    shown.update(text, layout=False)

    def _title(self) -> str:
        if self._opened is None:
            return shorten(f" {safe(self._error)}" if self._error else " ...", self.size.width)
        lines, log = self.lines, self._opened
        new = 0 if lines.follow else max(0, lines.rows - lines.left_at)
        follow = following(log, follows=lines.follow, new=new, key=key_of(self, "log.follow"))
        return title(log, follow, time.monotonic(), self.size.width)

    def _hint(self) -> Content:
        keys = key_of(self, "log.err-only"), key_of(self, "log.back")
        text = lost(self.thread.health, self._opened, self._zone) or filters(self._opened, *keys)
        if text:
            return Content(shorten(f" {text}", self.size.width))
        return Content(" ") + fitting_hints(self, _HINTS, self.size.width - 1)

    def _toast(self, text: str) -> None:
        self.notify(safe(text), markup=False)

    # Keys --------------------------------------------------------------------------------------------

    def holds(self, event: events.Event) -> bool:
        """Hold keys until the lines that they are for are read, and the sought hit is found."""
        if not isinstance(event, events.Key) or self.prompt.is_open or self.thread.health.lost_at is not None:
            return False
        bound = self.active_bindings.get(event.key)
        if (bound and bound.binding.action in ("back", "leave")) or self._error:
            return False
        return self._is_opening or not self._is_settled or self._seek is not None

    def action_follow(self) -> None:
        """Follow the end, or stop following."""
        if self.lines.follow:
            self.lines.stop_following()
        else:
            self.lines.action_end()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them off."""
        self.lines.set_wraps(not self.lines.wraps)

    def action_times(self) -> None:
        """Show the times of the lines."""
        self.lines.times = not self.lines.times
        self.lines.refresh()

    def action_err_only(self) -> None:
        """Show stderr only, or both streams."""
        self._change(replace(self._criteria, err_only=not self._criteria.err_only))

    def action_colours(self) -> None:
        """Show the colours of the command, and none of its other sequences."""
        self._colours = not self._colours
        self._show_again()

    def action_search(self) -> None:
        """Ask for a text to search."""
        self._ask("/", "search", self._search)

    def action_filter(self) -> None:
        """Ask for a text; lines without it are hidden."""
        self._ask("&", "only lines with", self._filter)

    def _ask(self, sign: str, what: str, take: Callable[[str], None], text: str = "") -> None:
        """Ask for a text, and hand it on inert."""

        def done(answer: str | None) -> None:
            self.prompt.close()
            self.set_focus(self.lines)  # at once: the next key may have arrived already
            if answer is not None:
                take(safe(answer, LONGEST))

        self.prompt.open(sign, text, what=f" {what}", done=done)

    def _search(self, text: str) -> None:
        """Search the text; an empty one ends the search."""
        self._seek = (self.lines.top, True) if text else None
        self._change(replace(self._criteria, sought=Needle(text) if text else None))

    def _filter(self, text: str) -> None:
        """Show only lines with the text; an empty one ends the filter."""
        self._change(replace(self._criteria, filter=Needle(text) if text else None))

    def _change(self, criteria: Criteria) -> None:
        """Show other lines. The marked line, or the top one, stays in sight."""
        lines, self._criteria = self.lines, criteria
        marked = lines.marked
        is_seen = marked is not None and lines.top <= marked < lines.top + lines.page
        row = marked if marked is not None and is_seen else lines.top
        start = lines.start(row)
        lines.mark(None)
        lines.sought = criteria.sought
        if self._opened:
            self._anchor = None if start is None else (start, row - lines.top, is_seen)
            if self._seek and start is not None:  # the row may have another number with this filter
                self._seek = row, self._seek[1]
            self._opened.show(criteria)
            self._show_again()

    def _show_again(self) -> None:
        if self._opened:
            self._show(self._opened)
            self.lines.refresh()

    def action_hit(self, by: int) -> None:
        """Go to the next line with the text, or to the one before."""
        if self._criteria.sought is None:
            self._toast(with_keys(self, "nothing is searched; {log.search} begins"))
            return
        lines = self.lines
        here = lines.top if lines.marked is None else lines.marked + (by > 0)
        self._seek = here, by > 0
        self._seek_on()

    def _seek_on(self) -> None:
        """Go to the sought hit as soon as it is found, or report that there is none."""
        log, needle = self._opened, self._criteria.sought
        if self._seek is None or log is None or needle is None:
            return
        row, down = self._seek
        hit = self.lines.hit_from(row, down=down)
        if hit is None and down and not log.is_searched:
            return
        self._seek = None
        if hit is not None:
            self.lines.to_row(hit)
        elif not len(log.search.hits):
            self._toast(f"no line contains {needle.text}")
        elif self.lines.marked is None:
            hits = log.search.hits
            self.lines.to_row(self.lines.row_at(hits[-1 if down else 0]))
        else:
            up, over = "no more below; {log.previous-hit} goes up", "no more above; {log.next-hit} goes down"
            self._toast(with_keys(self, up if down else over))

    def action_run(self, by: int) -> None:
        """Open the run of this task after this one, or before."""
        if self._opened:
            run = self._opened.run
            self._open(lambda log: log.neighbour(run, later=by > 0))

    def action_pager(self) -> None:
        """Show the whole log in the pager."""
        if self._opened is None:
            return
        try:
            command = pager_command()
            with suspended(self.app):
                page(whole_log(self._log, self._opened.run.id), command)
        except SuspendNotSupported:
            self._toast("no pager can be started in this terminal")
        except (OSError, ValueError) as error:
            self._toast(f"$PAGER cannot be started: {error}")

    def action_copy(self) -> None:
        """Copy the marked line, or else the number of the run."""
        if self._opened is None:
            return
        marked = self.lines.line(self.lines.marked) if self.lines.marked is not None else None
        text = marked.text if marked else str(self._opened.run.id)
        self.app.copy_to_clipboard(text.encode()[:COPIED_BYTES].decode(errors="ignore"))
        self._toast(f"copied line {marked.number + 1:,}" if marked else f"copied {text}")

    def action_copy_all(self) -> None:
        """Copy all kept lines; of a long log the last ones, as many as terminals take."""
        if self._opened is None:
            return
        run_id = self._opened.run.id

        def copy(text: str) -> None:
            data = text.encode()
            self.app.copy_to_clipboard(data[-COPIED_BYTES:].decode(errors="ignore"))
            end = f"the last {COPIED_BYTES // 1024} KiB of " if len(data) > COPIED_BYTES else ""
            self._toast(f"copied {end}the log of run {run_id}")

        self.thread.ask(
            "copy",
            lambda log: "\n".join(whole_log(log, run_id)),
            copy,
            lambda error: self._toast(str(error)),
            waits=False,
        )

    def action_save(self) -> None:
        """Ask for the file in which to save the log."""
        self._ask(">", "save to the file", self._save_to)

    def _save_to(self, name: str) -> None:
        if self._opened is None or not name.strip():
            return
        run_id, path = self._opened.run.id, Path(name.strip()).expanduser()

        def save(log: RunLog) -> int:
            try:
                return save_log(log, run_id, path)
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror or error}") from error

        def refused(error: DcronError) -> None:
            """Show the error, and the typed name again to correct it."""
            self._toast(f"not saved: {error}")
            if self.is_current and not self.prompt.is_open:
                self._ask(">", "save to the file", self._save_to, name)

        def saved(size: int) -> None:
            self._toast(f"saved {size:,} bytes to {path}")

        self.thread.ask("save", save, saved, refused, waits=False)

    def action_look_now(self) -> None:
        """Read what is new now; also if the database is lost."""
        self.thread.retry_now()
        self._read()

    def action_back(self) -> None:
        """End the filter, then the search, then the log."""
        if self._criteria.filter:
            self._change(replace(self._criteria, filter=None))
        elif self._criteria.sought:
            self._change(replace(self._criteria, sought=None))
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Leave the log."""
        self.dismiss()
