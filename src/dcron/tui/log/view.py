"""The lines on the screen: draws those that can be seen, out of the few that are read."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo, ScrollUp
from textual.strip import Strip

from dcron.safetext import cells
from dcron.tui.log.drawing import Brush, Margin
from dcron.tui.log.lines import LogLine, breaks
from dcron.tui.log.scan import Needle

WHEEL = 3
"""Rows that one notch of the mouse wheel moves."""
NARROW = 60
"""Below so many columns the numbers of the lines give way."""
SIDEWAYS = 8
"""Columns that one key moves."""


class LogView(ScrollView, can_focus=True):
    """A window onto the rows of a log. It knows how many there are, and has those around the window."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    LogView {
        height: 1fr; width: 1fr; overflow-y: scroll; overflow-x: auto;
        scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0;
    }
    LogView .log--margin { color: $text-muted; }
    LogView .log--err { color: $text-error; }
    LogView .log--gap { color: $text-muted; text-style: bold; }
    LogView .log--hit { text-style: reverse; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"log--margin", "log--err", "log--gap", "log--hit"}

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "rows(1)", "Down", id="log.down", show=False),
        Binding("k,up", "rows(-1)", "Up", id="log.up", show=False),
        Binding("pagedown,space,ctrl+f", "page(1)", "Page down", id="log.page-down", show=False),
        Binding("pageup", "page(-1)", "Page up", id="log.page-up", show=False),
        Binding("ctrl+d", "half(1)", "Half a page down", id="log.half-down", show=False),
        Binding("ctrl+u", "half(-1)", "Half a page up", id="log.half-up", show=False),
        Binding("g,home", "start", "Start", id="log.start", show=False),
        Binding("G,end", "end", "End, and follow", id="log.end", show=False),
        Binding("right,l", "sideways(1)", "Right", id="log.right", show=False),
        Binding("left,h", "sideways(-1)", "Left", id="log.left", show=False),
    ]

    class Moved(Message):
        """Other rows can be seen now, or following has begun or ended."""

    class Marked(Message):
        """A line was clicked."""

    def __init__(self, zone: tzinfo) -> None:
        """Show times in this zone."""
        super().__init__()
        self._zone = zone
        self.rows = 0
        self.follow = False
        self.wraps = False
        self.times = False
        self.sought: Needle | None = None
        self.marked: int | None = None
        """The row of the line that was found or clicked."""
        self.hits = array("q")
        self._first = 0
        self._lines: Sequence[LogLine] = ()
        self._skip = 0
        """Parts of the wrapped top line that are above the window."""
        self._placing = False
        self._widest = 0

    # What there is -----------------------------------------------------------------------------------

    def show(self, rows: int, first: int, lines: Sequence[LogLine], moved: int) -> None:
        """There are so many rows, and these lines from the row `first` on; `moved` rows above have gone."""
        before = self._in_sight()
        self.rows, self._first, self._lines = rows, first, lines
        if moved and self.marked is not None:
            self.marked -= moved
        self._measure()
        if self.follow:
            self.to_end()
        elif moved:
            self._place(self.top - moved, self._skip)
        if self.sought or before != self._in_sight():
            self.refresh()

    def _in_sight(self) -> list[LogLine | None]:
        return [self.line(row) for row in range(self.top, self.top + self.page)]

    def clear(self) -> None:
        """Another log, or another view of it: nothing is known of it yet."""
        self._first, self._lines, self._widest, self.marked = 0, (), 0, None

    def line(self, row: int) -> LogLine | None:
        """The line of a row, if it is read."""
        at = row - self._first
        return self._lines[at] if 0 <= at < len(self._lines) else None

    @property
    def top(self) -> int:
        """The first row that can be seen."""
        return self.scroll_offset.y

    @property
    def page(self) -> int:
        """How many rows of the terminal there are."""
        return max(1, self.scrollable_content_region.height)

    def _measure(self) -> None:
        """Tell the scroll bars how much there is. A width once seen stays, so nothing jumps sideways."""
        if self.wraps:  # any line may be the top one: its parts may fill the window
            self.virtual_size = Size(0, self.rows + self.page - 1 if self.rows else 0)
            return
        shown = self._lines[max(0, self.top - self._first) :][: self.page]
        widest = max((cells(line.text) for line in shown), default=0)
        self._widest = max(self._widest, widest)
        self.virtual_size = Size(self._margin.width + self._widest if self._widest else 0, self.rows)

    # Where it stands ---------------------------------------------------------------------------------

    def move(self, by: int) -> None:
        """Go down so many rows of the terminal, or up."""
        row, skip = self.top, self._skip
        for _ in range(abs(by)):
            if by > 0 and skip + 1 < self._height(row):
                skip += 1
            elif by > 0:
                row, skip = row + 1, 0
            elif skip:
                skip -= 1
            else:
                row -= 1
                skip = self._height(row) - 1
        if by < 0:
            self.stop_following()
        self._place(*max((0, 0), min((row, skip), self._last_place())))

    def to_start(self) -> None:
        """Go to the first row."""
        self.stop_following()
        self._place(0, 0)

    def to_end(self) -> None:
        """Go to the last row, as far as it is known."""
        self._place(*self._last_place())

    def to_row(self, row: int) -> None:
        """Go to a row and mark it; the window moves only if it does not show it."""
        self.stop_following()
        self.marked = row
        if not self.top < row < self.top + self._rows_shown() - 1:
            self._place(*max((0, 0), min((row - self.page // 3, 0), self._last_place())))
        self.refresh()

    def keep_in_sight(self, row: int, below_top: int, *, marked: bool) -> None:
        """Let this row stand so far below the top, where it stood in another view."""
        self.marked = row if marked else None
        self._place(*max((0, 0), min((row - below_top, 0), self._last_place())))

    def set_wraps(self, wraps: bool) -> None:
        """Whether long lines go on in the next row."""
        self.wraps, self._skip = wraps, 0
        self._measure()
        if self.follow:
            self.to_end()
        self.refresh()

    def follow_end(self) -> None:
        """Show the last rows, and stay with them."""
        self.follow = True
        self.to_end()
        self.post_message(self.Moved())

    def stop_following(self) -> None:
        """Stay here, whatever comes."""
        if self.follow:
            self.follow = False
            self.post_message(self.Moved())

    def _place(self, row: int, skip: int) -> None:
        self._placing = True
        other_part, self._skip = skip != self._skip, skip
        self.scroll_to(y=row, animate=False, force=True)
        self._placing = False
        if other_part:
            self.refresh()

    def _height(self, row: int) -> int:
        """How many rows of the terminal a line takes."""
        line = self.line(row) if self.wraps else None
        return len(breaks(line.text, self._text_width)) if line else 1

    def _last_place(self) -> tuple[int, int]:
        """The row and part that is on top when the end is at the bottom."""
        row, left = self.rows, self.page
        while row > 0 and left > 0:
            row -= 1
            left -= self._height(row)
        return row, max(0, -left)

    def _rows_shown(self) -> int:
        return len({row for row, _, _ in self._parts()})

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other rows are wanted."""
        super().watch_scroll_y(old_value, new_value)
        if not self._placing:
            self._skip = 0
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """A taller window shows more, and the end stays at the bottom."""
        self._measure()
        if self.follow:
            self.to_end()
        self.post_message(self.Moved())

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Up by rows, at once; with Shift or Ctrl sideways, as everywhere."""
        if not (event.shift or event.ctrl):
            event.prevent_default().stop()
            self.move(-WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Down by rows."""
        if not (event.shift or event.ctrl):
            event.prevent_default().stop()
            self.move(WHEEL)

    def on_scroll_up(self, _: ScrollUp) -> None:
        """A click above the handle of the scroll bar."""
        self.stop_following()

    def on_scroll_to(self, message: ScrollTo) -> None:
        """The handle of the scroll bar was pulled."""
        if message.y is not None and message.y < self.top:
            self.stop_following()

    def on_click(self, event: events.Click) -> None:
        """A click marks a line."""
        parts = list(self._parts())
        if 0 <= event.y < len(parts):
            self.marked = parts[event.y][0]
            self.refresh()
            self.post_message(self.Marked())

    # Keys --------------------------------------------------------------------------------------------

    def action_rows(self, by: int) -> None:
        """So many rows down, or up."""
        self.move(by)

    def action_page(self, direction: int) -> None:
        """A page down or up, of which one row was seen before."""
        self.move(direction * max(1, self.page - 1))

    def action_half(self, direction: int) -> None:
        """Half a page down or up."""
        self.move(direction * max(1, self.page // 2))

    def action_start(self) -> None:
        """To the first row."""
        self.to_start()

    def action_end(self) -> None:
        """To the last row, and stay there."""
        self.follow_end()

    def action_sideways(self, direction: int) -> None:
        """See what is further right, or left."""
        self._measure()
        self.scroll_to(x=self.scroll_offset.x + direction * SIDEWAYS, animate=False, force=True)

    # What it looks like ------------------------------------------------------------------------------

    @property
    def _margin(self) -> Margin:
        numbers = max(4, len(str(self.rows))) if self.size.width >= NARROW else 0
        return Margin(numbers, self._zone if self.times else None)

    @property
    def _text_width(self) -> int:
        return max(1, self.scrollable_content_region.width - self._margin.width)

    def _parts(self) -> Iterator[tuple[int, int, int | None]]:
        """For each row of the window: which line, from which character on, to which."""
        row, part, left = self.top, self._skip, self.page
        while left > 0 and row < self.rows:
            line = self.line(row) if self.wraps else None
            starts = breaks(line.text, self._text_width) if line else (0,)
            for number in range(min(part, len(starts) - 1), len(starts)):
                end = starts[number + 1] if number + 1 < len(starts) else None
                yield row, starts[number], end
                left -= 1
            row, part = row + 1, 0

    def render_lines(self, crop: Region) -> list[Strip]:
        """Find out once for all rows where each line is and how it looks."""
        self._drawn = list(self._parts())
        self._brush = self._make_brush()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One row of the window."""
        if y >= len(self._drawn):
            return Strip.blank(self.size.width, self._brush.base)
        row, begin, end = self._drawn[y]
        line = self.line(row)
        return self._brush.row(line, begin, end, marked=row == self.marked) if line else self._brush.unread()

    def _make_brush(self) -> Brush:
        look = self.get_component_rich_style
        return Brush(
            console=self.app.console,
            base=self.rich_style,
            muted=look("log--margin"),
            err=look("log--err"),
            gap=look("log--gap"),
            hit=look("log--hit", partial=True),
            margin=self._margin,
            width=self.size.width,
            text_width=self._text_width,
            left=0 if self.wraps else self.scroll_offset.x,
            cuts=not self.wraps,
            sought=self.sought,
        )

    # Hits --------------------------------------------------------------------------------------------

    def hit_from(self, row: int, *, down: bool) -> int | None:
        """The first hit at this row or below; or else the last one above."""
        at = bisect_left(self.hits, row)
        if down:
            return self.hits[at] if at < len(self.hits) else None
        return self.hits[at - 1] if at else None
