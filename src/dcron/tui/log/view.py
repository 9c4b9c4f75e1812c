"""The lines of a log on the screen. Only the visible ones are drawn."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollTo, ScrollUp
from textual.strip import Strip

from dcron.tui.log.drawing import Brush, Margin
from dcron.tui.log.lines import LogLine, breaks
from dcron.tui.log.search import Needle
from dcron.values.safe_text import cells

WHEEL = 3
"""Rows per notch of the mouse wheel."""
NARROW = 60
"""Columns below which the line numbers are hidden."""
SIDEWAYS = 8
"""Columns per key."""


class LogView(ScrollView, can_focus=True):
    """A window onto the rows of a log. A row is a shown line, identified by the byte at which it begins."""

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
        """Posted when other rows are visible, or following has begun or ended."""

    def __init__(self, zone: tzinfo) -> None:
        """Show times in this zone."""
        super().__init__()
        self._zone = zone
        self.rows = 0
        self.left_at = 0
        """The number of rows when following ended."""
        self.follow = False
        self.wraps = False
        self.times = False
        self.sought: Needle | None = None
        self._line_at: Callable[[int], LogLine] | None = None
        self._shown: Sequence[int] = ()
        """The beginnings of the rows. There may be more of them before the next call of `show`."""
        self._hits: Sequence[int] = ()
        self._marked: int | None = None
        """The beginning of the line that was found or clicked."""
        self._top_start = 0
        """The beginning of the top line."""
        self._visible: list[LogLine | None] = []
        self._skip = 0
        """Parts of the wrapped top line that are above the window."""
        self._placing = False
        self._widest = 0

    # Content -----------------------------------------------------------------------------------------

    def show(self, rows: Sequence[int], hits: Sequence[int], line_at: Callable[[int], LogLine]) -> None:
        """Show the rows that begin at these bytes. `line_at` returns the line that begins at a byte."""
        self._shown, self._hits, self._line_at = rows, hits, line_at
        self.rows = len(rows)
        self._measure()
        top = bisect_left(rows, self._top_start)
        if self.follow:
            self.to_end()
        elif top != self.top:
            self._place(top, self._skip)
        if self.sought or self._visible != self._in_sight():
            self.refresh()
        self._visible = self._in_sight()

    def _in_sight(self) -> list[LogLine | None]:
        return [self.line(row) for row in range(self.top, self.top + self.page)]

    def clear(self) -> None:
        """Forget the rows: another log is opened."""
        self._shown, self.rows, self._widest, self._marked, self._top_start = (), 0, 0, None, 0

    def line(self, row: int) -> LogLine | None:
        """Return the line of a row; None if there is no such row."""
        return self._line_at(self._shown[row]) if self._line_at and 0 <= row < self.rows else None

    def start(self, row: int) -> int | None:
        """Return the byte at which the line of a row begins; None if there is no such row."""
        return self._shown[row] if 0 <= row < self.rows else None

    def row_at(self, start: int) -> int:
        """Return the row of the line that begins at this byte, or of the next one."""
        return bisect_left(self._shown, start)

    @property
    def marked(self) -> int | None:
        """The row of the line that was found or clicked."""
        if self._marked is None:
            return None
        row = self.row_at(self._marked)
        return row if self.start(row) == self._marked else None

    def mark(self, row: int | None) -> None:
        """Mark a row, or none."""
        self._marked = None if row is None else self.start(row)
        self.refresh()

    @property
    def top(self) -> int:
        """The first visible row."""
        return self.scroll_offset.y

    @property
    def page(self) -> int:
        """The number of rows of the window."""
        return max(1, self.scrollable_content_region.height)

    def _measure(self) -> None:
        """Set the size for the scroll bars. The greatest width is kept, so that nothing jumps sideways."""
        if self.wraps:  # the parts of any line may fill the window
            self.virtual_size = Size(0, self.rows + self.page - 1 if self.rows else 0)
            return
        widest = max((cells(line.text) for line in self._in_sight() if line), default=0)
        self._widest = max(self._widest, widest)
        self.virtual_size = Size(self._margin.width + self._widest if self._widest else 0, self.rows)

    # Position ----------------------------------------------------------------------------------------

    def action_rows(self, by: int) -> None:
        """Move down by rows of the terminal, or up."""
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

    def action_start(self) -> None:
        """Go to the first row."""
        self.stop_following()
        self._place(0, 0)

    def to_end(self) -> None:
        """Go to the last row."""
        self._place(*self._last_place())

    def to_row(self, row: int) -> None:
        """Mark a row, and move there if it is not visible."""
        self.stop_following()
        self.mark(row)
        if not self.top < row < self.top + self._rows_shown() - 1:
            self._place(*max((0, 0), min((row - self.page // 3, 0), self._last_place())))

    def keep_in_sight(self, row: int, below_top: int, *, marked: bool) -> None:
        """Keep this row as far below the top as it was with another filter."""
        self.mark(row if marked else None)
        self._place(*max((0, 0), min((row - below_top, 0), self._last_place())))

    def set_wraps(self, wraps: bool) -> None:
        """Wrap long lines, or cut them off."""
        self.wraps, self._skip = wraps, 0
        self._measure()
        if self.follow:
            self.to_end()
        self.refresh()

    def action_end(self) -> None:
        """Show the last rows, and follow the output."""
        self.follow = True
        self.to_end()
        self.post_message(self.Moved())

    def stop_following(self) -> None:
        """Stay here when more output comes."""
        if self.follow:
            self.follow, self.left_at = False, self.rows
            self.post_message(self.Moved())

    def _place(self, row: int, skip: int) -> None:
        self._placing = True
        other_part, self._skip = skip != self._skip, skip
        self.scroll_to(y=row, animate=False, force=True)
        self._placing = False
        self._top_start = self.start(self.top) or 0
        if other_part:
            self.refresh()

    def _height(self, row: int) -> int:
        """Return the number of rows of the terminal that a line takes."""
        line = self.line(row) if self.wraps else None
        return len(breaks(line.text, self._text_width)) if line else 1

    def _last_place(self) -> tuple[int, int]:
        """Return the row and part at the top when the end is at the bottom."""
        row, left = self.rows, self.page
        while row > 0 and left > 0:
            row -= 1
            left -= self._height(row)
        return row, max(0, -left)

    def _rows_shown(self) -> int:
        return len({row for row, _, _ in self._parts()})

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Report that other rows are visible."""
        super().watch_scroll_y(old_value, new_value)
        if not self._placing:
            self._skip = 0
            self._top_start = self.start(self.top) or 0
        self.post_message(self.Moved())

    def on_resize(self) -> None:
        """Measure again; when following, the end stays at the bottom."""
        self._measure()
        if self.follow:
            self.to_end()
        self.post_message(self.Moved())

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move up at once; with Shift or Ctrl sideways, as everywhere."""
        if not (event.shift or event.ctrl):
            event.prevent_default().stop()
            self.action_rows(-WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move down at once."""
        if not (event.shift or event.ctrl):
            event.prevent_default().stop()
            self.action_rows(WHEEL)

    def on_scroll_up(self, _: ScrollUp) -> None:
        """Stop following after a click above the handle of the scroll bar."""
        self.stop_following()

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Stop following when the handle of the scroll bar is pulled up."""
        if message.y is not None and message.y < self.top:
            self.stop_following()

    def on_click(self, event: events.Click) -> None:
        """Mark the clicked line."""
        parts = list(self._parts())
        if 0 <= event.y < len(parts):
            self.mark(parts[event.y][0])

    # Keys --------------------------------------------------------------------------------------------

    def action_page(self, direction: int) -> None:
        """Move by a page; one row stays visible."""
        self.action_rows(direction * max(1, self.page - 1))

    def action_half(self, direction: int) -> None:
        """Move by half a page."""
        self.action_rows(direction * max(1, self.page // 2))

    def action_sideways(self, direction: int) -> None:
        """Scroll right or left."""
        self._measure()
        self.scroll_to(x=self.scroll_offset.x + direction * SIDEWAYS, animate=False, force=True)

    # Drawing -----------------------------------------------------------------------------------------

    @property
    def _margin(self) -> Margin:
        numbers = max(4, len(str(self.rows))) if self.size.width >= NARROW else 0
        return Margin(numbers, self._zone if self.times else None)

    @property
    def _text_width(self) -> int:
        return max(1, self.scrollable_content_region.width - self._margin.width)

    def _parts(self) -> Iterator[tuple[int, int, int | None]]:
        """Yield the line, the first and the last character of each row of the window."""
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
        """Determine the parts and the styles once for all rows."""
        self._drawn, self._marked_row = list(self._parts()), self.marked
        self._brush = self._make_brush()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return one row of the window."""
        if y >= len(self._drawn):
            return Strip.blank(self.size.width, self._brush.base)
        row, begin, end = self._drawn[y]
        line = self.line(row)
        if line is None:
            return Strip.blank(self.size.width, self._brush.base)
        return self._brush.row(line, begin, end, marked=row == self._marked_row)

    def _make_brush(self) -> Brush:
        style_of = self.get_component_rich_style
        return Brush(
            console=self.app.console,
            base=self.rich_style,
            muted=style_of("log--margin"),
            err=style_of("log--err"),
            gap=style_of("log--gap"),
            hit=style_of("log--hit", partial=True),
            margin=self._margin,
            width=self.size.width,
            text_width=self._text_width,
            left=0 if self.wraps else self.scroll_offset.x,
            cuts=not self.wraps,
            sought=self.sought,
        )

    # Hits --------------------------------------------------------------------------------------------

    def hit_from(self, row: int, *, down: bool) -> int | None:
        """Return the first hit at this row or below; without `down`, the last one above."""
        start = self.start(row)
        at = len(self._hits) if start is None else bisect_left(self._hits, start)
        at = at if down else at - 1
        return self.row_at(self._hits[at]) if 0 <= at < len(self._hits) else None
