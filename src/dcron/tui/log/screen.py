"""The screen of one log: what the keys do, and what is said above and below the lines."""

import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from dcron.safetext import safe, shorten
from dcron.tui.keynames import fitting, key_of, with_keys
from dcron.tui.log.header import following, in_force, lost, title
from dcron.tui.log.opened import ALL, VisibleLines
from dcron.tui.log.pager import page, pager_command, whole_log
from dcron.tui.log.prompt import LogPrompt
from dcron.tui.log.reader import Absent, LogReader, LogRequest, Seen, Which
from dcron.tui.log.scan import Needle
from dcron.tui.log.source import RunLog
from dcron.tui.log.view import LogView
from dcron.tui.suspend import suspended

COPIED_BYTES = 64 * 1024
"""Terminals take no more at once."""
LOW = 8
"""Below so many rows the hints give way to the lines."""
_HINTS = (
    "{log.follow} follow  ",
    "{log.wrap} wrap  ",
    "{log.times} time  ",
    "{log.err-only} stderr  ",
    "{log.search} search  ",
    "{log.filter} filter  ",
    "{log.previous-run} {log.next-run} runs  ",
    "{log.pager} pager  ",
    "{log.copy} copy  ",
    "{app.help} help",
)


class StatusLine(Message):
    """The reader has something to tell."""

    def __init__(self, news: Seen | Absent) -> None:
        """This."""
        super().__init__()
        self.news = news


class LogScreen(Screen[None]):
    """Shows what a run printed, and goes on while it prints."""

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
        Binding("n", "next_hit", "Next hit", id="log.next-hit"),
        Binding("N", "previous_hit", "Previous hit", id="log.previous-hit"),
        Binding("ampersand", "filter", "Filter lines", id="log.filter"),
        Binding("left_square_bracket", "previous_run", "Previous run", id="log.previous-run"),
        Binding("right_square_bracket", "next_run", "Next run", id="log.next-run"),
        Binding("vertical_line", "pager", "Pager", id="log.pager"),
        Binding("y", "copy", "Copy the line, or the run's number", id="log.copy"),
        Binding("ctrl+r", "look_now", "Look now", id="log.look-now"),
        Binding("escape", "back", "Back, one step", id="log.back"),
        Binding("q", "leave", "Back", id="log.leave"),
    ]

    def __init__(self, log: RunLog, which: Which, zone: tzinfo = UTC) -> None:
        """Show the run of this number, or the run of this task that lives, else its latest.

        Times are shown in `zone`.
        """
        super().__init__()
        self._log = log
        self._reader = LogReader(log, self._tell, LogRequest(which, follow=True))
        self._zone = zone
        self._view = ALL
        self._colours = False
        self._seen: Seen | None = None
        self._left_at = 0
        """How many rows there were when following ended."""
        self._settled = False
        """Whether the beginning of this log's showing is over: then nobody but the reader moves it."""
        self._seek: tuple[int, bool] | None = None
        """From which row on, and whether downwards, a hit is still sought."""
        self._why = ""
        self._said = "", ""
        self._stood = 0, False
        """How far below the top the line stands that should stay in sight, and whether it is marked."""

    def compose(self) -> ComposeResult:
        """A title, the lines, a prompt when it is needed, hints."""
        yield Static(id="log-title")
        yield LogView(self._zone)
        yield LogPrompt()
        yield Static(id="log-hints")

    @property
    def lines(self) -> LogView:
        """The part with the lines."""
        return self.query_one(LogView)

    def on_mount(self) -> None:
        """Begin to read; the first frame does not wait for it."""
        self.lines.follow = True
        self._reader.thread.start()
        self.set_interval(1.0, self._tick)
        self._say()

    def on_unmount(self) -> None:
        """The thread ends by itself, at once or when its query returns."""
        self._reader.stop()

    def on_resize(self, event: events.Resize) -> None:
        """Few rows are for the lines."""
        self.query_one("#log-hints").display = event.size.height >= LOW
        self._say()

    # What the reader tells ---------------------------------------------------------------------------

    def _tell(self, news: Seen | Absent) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody looks any more
            self.post_message(StatusLine(news))

    def on_status_line(self, message: StatusLine) -> None:
        """Show what there is, unless something else was asked meanwhile."""
        news = message.news
        if news.generation != self._reader.generation:
            return
        if isinstance(news, Absent):
            self._absent(news)
        else:
            self._show(news)

    def _absent(self, news: Absent) -> None:
        if self._seen:
            self._toast(news.why)
        else:
            self._why = news.why
            self._say()

    def _show(self, seen: Seen) -> None:
        other = self._seen is None or self._seen.run.id != seen.run.id
        self._seen, self._why = seen, ""
        if other:
            self._begin()
        lines = self.lines
        lines.hits = seen.hits
        lines.show(seen.rows, seen.first, seen.lines, seen.moved)
        if seen.place is not None and not lines.follow:
            lines.keep_in_sight(seen.place, self._stood[0], marked=self._stood[1])
        if seen.whole and not self._settled:
            self._settled = True
            if seen.run.state.is_final:  # its end is shown, but there is nothing to wait for
                lines.follow = False
                self._left_at = seen.rows
        self._go_on_seeking()
        self._want()
        self._say()

    def _begin(self) -> None:
        """Another run: it begins at its end, as the first one did."""
        self._settled = False
        self.lines.clear()
        self.lines.follow = True

    @on(LogView.Moved)
    def _want(self) -> None:
        """Have the rows read that can be seen."""
        lines = self.lines
        if self._seen and self._settled and not lines.follow and self._followed:
            self._left_at = self._seen.rows
        self._followed = lines.follow
        self._reader.want(lines.top, lines.page, follow=lines.follow)
        self._say()

    _followed = True

    # What is said ------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._seen is None or not self._seen.run.state.is_final or self._reader.health.is_old:
            self._say()

    def _say(self) -> None:
        if not self.is_mounted:
            return
        said = self._title(), self._hint()
        if said != self._said:
            self._said = said
            for name, text in zip(("#log-title", "#log-hints"), said, strict=True):
                self.query_one(name, Static).update(Content(text), layout=False)

    def _title(self) -> str:
        if self._seen is None:
            return shorten(f" {safe(self._why)}" if self._why else " ...", self.size.width)
        lines, seen = self.lines, self._seen
        new = max(0, seen.rows - self._left_at) if not lines.follow else 0
        follow = following(seen, follows=lines.follow, new=new, key=key_of(self, "log.follow"))
        return title(seen, follow, time.monotonic(), self.size.width)

    def _hint(self) -> str:
        keys = key_of(self, "log.err-only"), key_of(self, "log.back")
        told = lost(self._reader.health, self._seen, self._zone) or in_force(self._view, self._seen, *keys)
        hints = fitting([with_keys(self, each) for each in _HINTS], self.size.width - 1)
        return shorten(f" {told or ''.join(hints)}", self.size.width)

    def _toast(self, text: str) -> None:
        self.notify(safe(text), markup=False)

    # Keys --------------------------------------------------------------------------------------------

    def holds(self, event: events.Event) -> bool:
        """Keys wait for the lines that they are meant for, and for a sought hit; leaving needs neither."""
        is_prompting = self.query_one(LogPrompt).display
        if not isinstance(event, events.Key) or is_prompting or self._reader.health.lost_at is not None:
            return False
        bound = self.active_bindings.get(event.key)
        if (bound and bound.binding.action in ("back", "leave")) or self._why:
            return False
        is_read = self._seen is not None and self._seen.generation == self._reader.generation
        return not (is_read and self._settled and self._seek is None)

    def hears(self, event: events.Event) -> bool:
        """All that is typed counts."""
        return True

    def action_follow(self) -> None:
        """Stay with the end, or no longer."""
        if self.lines.follow:
            self.lines.stop_following()
        else:
            self.lines.follow_end()

    def action_wrap(self) -> None:
        """Let long lines go on in the next row, or to the right."""
        self.lines.set_wraps(not self.lines.wraps)

    def action_times(self) -> None:
        """Show when the lines were written."""
        self.lines.times = not self.lines.times
        self.lines.refresh()

    def action_err_only(self) -> None:
        """Leave out stdout."""
        self._change(replace(self._view, err_only=not self._view.err_only))

    def action_colours(self) -> None:
        """Show the colours that the command wished, and nothing else it wished."""
        self._colours = not self._colours
        self._reader.want_anew(colours=self._colours)

    def action_search(self) -> None:
        """Find a text."""
        self.query_one(LogPrompt).ask("/", "search")

    def action_filter(self) -> None:
        """Show only lines with a text."""
        self.query_one(LogPrompt).ask("&", "only lines with")

    def on_log_prompt_entered(self, message: LogPrompt.Entered) -> None:
        """A text was typed; an empty one ends the search or the filter."""
        self.lines.focus()
        if message.text is None:
            return
        needle = Needle(message.text) if message.text else None
        if message.sign == "&":
            self._change(replace(self._view, wanted=needle))
        else:
            self._seek = (self.lines.top, True) if needle else None
            self._change(replace(self._view, sought=needle))

    def _change(self, view: VisibleLines) -> None:
        """Show other lines, with the marked one, or the one on top, still in sight."""
        lines = self.lines
        is_seen = lines.marked is not None and lines.top <= lines.marked < lines.top + lines.page
        row = lines.marked if lines.marked is not None and is_seen else lines.top
        self._stood = row - lines.top, is_seen
        anchor = lines.line(row)
        self._view = view
        lines.marked, lines.sought = None, view.sought
        self._reader.want_anew(view=view, anchor=anchor.number if anchor else None)
        self._say()

    def action_next_hit(self) -> None:
        """Go to the next line with the text."""
        self._seek_from(1)

    def action_previous_hit(self) -> None:
        """Go to the one before."""
        self._seek_from(-1)

    def _seek_from(self, by: int) -> None:
        if self._view.sought is None:
            self._toast(with_keys(self, "nothing is searched; {log.search} begins"))
            return
        lines = self.lines
        here = lines.top if lines.marked is None else lines.marked + (by > 0)
        self._seek = here, by > 0
        self._go_on_seeking()

    def _go_on_seeking(self) -> None:
        """Go to the hit that is sought as soon as it is found, or say that there is none."""
        if self._seek is None or self._seen is None or self._view.sought is None:
            return
        if self._seen.generation != self._reader.generation:  # what was read before this was searched
            return
        row, down = self._seek
        hit = self.lines.hit_from(row, down=down)
        if hit is None and down and not self._seen.done:
            return
        self._seek = None
        if hit is not None:
            self.lines.to_row(hit)
        elif not self._seen.hits:
            self._toast(f"no line has {self._view.sought.text}")
        elif self.lines.marked is None:
            self.lines.to_row(self._seen.hits[-1 if down else 0])
        else:
            up, over = "no more below; {log.previous-hit} goes up", "no more above; {log.next-hit} goes down"
            self._toast(with_keys(self, up if down else over))

    def action_previous_run(self) -> None:
        """The run of this task before this one."""
        self._step(-1)

    def action_next_run(self) -> None:
        """The run of this task after this one."""
        self._step(1)

    def _step(self, by: int) -> None:
        if self._seen:
            self._reader.want_anew(which=self._seen.run.id, step=by, follow=True)

    def action_pager(self) -> None:
        """Leave the terminal to the pager."""
        if self._seen is None:
            return
        try:
            command = pager_command()
            with suspended(self.app):
                page(whole_log(self._log, self._seen.run.id), command)
        except SuspendNotSupported:
            self._toast("this terminal cannot be left to a pager")
        except (OSError, ValueError) as error:
            self._toast(f"$PAGER cannot be started: {error}")

    def action_copy(self) -> None:
        """Put the line that was found or clicked on the clipboard; else the run's number."""
        if self._seen is None:
            return
        marked = self.lines.line(self.lines.marked) if self.lines.marked is not None else None
        text = marked.text if marked else str(self._seen.run.id)
        self.app.copy_to_clipboard(text.encode()[:COPIED_BYTES].decode(errors="ignore"))
        self._toast(f"copied line {marked.number + 1:,}" if marked else f"copied {text}")

    def action_look_now(self) -> None:
        """Look for what is new at once; also when the database is lost."""
        self._reader.look_now()

    def action_back(self) -> None:
        """Take away the filter, then the search, then the log."""
        if self._view.wanted:
            self._change(replace(self._view, wanted=None))
        elif self._view.sought:
            self._change(replace(self._view, sought=None))
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Back to where one came from."""
        self.dismiss()
