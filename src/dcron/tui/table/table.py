"""A table of rows by id. It holds only the rows in sight, so a million rows cost the same as ten."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from dcron.tui.look.ascii_filter import AsciiFilter
from dcron.tui.look.theme import STYLES
from dcron.tui.table.cells import Cell
from dcron.tui.table.columns import Column, PlacedColumn, arrange, fitted
from dcron.values.safe_text import cells

LOADING = Cell("...", "quiet")
MARK_CELLS = 1
HEADER = 1
_STEPS_OF_CELL = 8
"""Where the thumb of a scroll bar may end within one cell."""
QUIET_TICKS = 5
"""Ticks between two checks of lines that did not change lately."""


@dataclass(frozen=True)
class HeadId:
    """The id of a row that heads a group of others. It cannot be marked."""

    value: str | None


class RowTable(ScrollView, can_focus=True):
    """Rows by id, drawn line by line. The cursor follows its row's id when the order changes."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--cursor",
        "table--marked",
        *(f"cell--{style}" for style in STYLES),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "down", "down", id="table.down", show=False),
        Binding("up,k", "up", "up", id="table.up", show=False),
        Binding("g,home", "first", "first row", id="table.first", show=False),
        Binding("G,end", "last", "last row", id="table.last", show=False),
        Binding("ctrl+d", "half_down", "half a page down", id="table.half_down", show=False),
        Binding("ctrl+u", "half_up", "half a page up", id="table.half_up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "page down", id="table.page_down", show=False),
        Binding("pageup", "page_up", "page up", id="table.page_up", show=False),
        Binding("enter", "choose", "open", id="table.open"),
        Binding("space", "mark", "mark", id="table.mark", show=False),
        Binding("a", "mark_all", "mark all shown, or none", id="table.mark_all", show=False),
    ]

    class Moved(Message):
        """Posted when the cursor is on another row, or the marks have changed."""

    class Chosen(Message):
        """Posted when the row under the cursor is to be opened."""

    class Wanting(Message):
        """Posted when rows in sight are missing, or the end of the ids is near."""

    class OrderChosen(Message):
        """Posted when the title of a column was clicked."""

        def __init__(self, order: str) -> None:
            """The column has this order."""
            super().__init__()
            self.order = order

    def __init__(
        self, columns: Sequence[Column], now: Callable[[], datetime], *, keeps_top: bool = False
    ) -> None:
        """`now` returns the database's time. With `keeps_top` a cursor on the first row stays there."""
        super().__init__()
        self.columns = columns
        self.ids: Sequence[Any] = ()
        self.rows: Mapping[Any, Any] = {}
        """The rows that were read, by id."""
        self.marks: set[Hashable] = set()
        """The marked rows that are shown; acts are on these."""
        self.hidden_marks: set[Hashable] = set()
        """The marked rows that a filter or a folded group hides; shown again, they are marked again."""
        self.order: tuple[str, bool] | None = None
        """The order of the rows, and whether it is reversed; shown in the header."""
        self.note = ""
        """The text that is shown while there are no rows."""
        self.is_old = False
        self.awaits_ids = False
        """Whether other ids were asked for than are shown; then no row is chosen."""
        self._now = now
        self._keeps_top = keeps_top
        self._cursor = 0
        self._strips: dict[int, Strip] = {}
        self._lively: set[int] = set()
        """The lines that may change with the next tick."""
        self._ticks = 0
        self._placed: tuple[int, list[PlacedColumn]] = (0, [])
        self._hidden: Collection[str] = ()
        """The columns that are not shown although there may be room for them."""
        self._needs: dict[str, int] = {}
        """The width of the longest text so far, by column. It only grows, so the columns rest."""
        self._styles: dict[tuple[str, ...], Style] = {}
        self._region = Region()
        self._drawn_width = 0
        """The width of the lines: with the place of the scroll bar, unless that is drawn there."""
        self._ascii: AsciiFilter | None = None

    # What it holds ----------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """The position of the cursor among the ids."""
        return self._cursor

    @property
    def cursor_id(self) -> Any:
        """The id of the row under the cursor; None when there are no rows."""
        return self.ids[self._cursor] if self._cursor < len(self.ids) else None

    @property
    def cursor_row(self) -> Any:
        """The row under the cursor; None if there is none, or if it was not read yet."""
        return self.rows.get(self.cursor_id)

    @property
    def is_near_end(self) -> bool:
        """Whether the last id is within three pages."""
        return self.scroll_offset.y + 3 * self._page() > len(self.ids)

    def chosen_rows(self) -> list[Any]:
        """Return the marked rows, else the row under the cursor; none while other ids are awaited."""
        if self.awaits_ids:
            return []
        ids = self.marks or {self.cursor_id}
        return [self.rows[each] for each in ids if each in self.rows]

    def visible_ids(self, margin: int = 0) -> list[Any]:
        """Return the ids in sight, and `margin` more on either side."""
        top = max(0, self.scroll_offset.y - margin)
        return list(self.ids[top : self.scroll_offset.y + self._page() + margin])

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Show other columns of the same rows."""
        self.columns, self._placed = columns, (0, [])
        self._redraw()

    def hide_columns(self, keys: Collection[str]) -> None:
        """Hide these columns, and show all others; those of rank 0 are always shown."""
        self._hidden, self._placed = keys, (0, [])
        self._redraw()

    def set_ids(self, ids: Sequence[Any], *, hides_others: bool = False) -> None:
        """Show other ids, or another order. The cursor stays on its row, and the row on its line.

        With `hides_others`, a marked row that is not shown keeps its mark: it is hidden, and not gone.
        """
        hides_others = hides_others or self.awaits_ids
        self.awaits_ids = False
        held, line = self.cursor_id, self._cursor - self.scroll_offset.y
        stays_on_top = self._keeps_top and self._cursor == 0
        self.ids = ids
        self._keep_marks(ids, hides_others=hides_others)
        self.virtual_size = Size(self.size.width, len(ids) + HEADER)
        if not stays_on_top:
            self._cursor = _position(ids, held, self._cursor)
        if self.scroll_offset.y > 0 and not stays_on_top:
            self._scroll(self._cursor - line)
        self._keep_in_sight()
        self._redraw()
        if self.cursor_id != held:
            self.post_message(self.Moved())

    def _keep_marks(self, ids: Sequence[Any], *, hides_others: bool) -> None:
        """Keep the marks of the shown rows, and those of hidden ones."""
        if not (self.marks or self.hidden_marks):
            return
        shown = set(ids)
        left = self.marks - shown if hides_others else set()
        self.marks = (self.marks | self.hidden_marks) & shown
        self.hidden_marks = (self.hidden_marks | left) - shown

    def set_rows(self, rows: Mapping[Any, Any]) -> None:
        """Show these rows."""
        before, self.rows = self.rows, rows
        self._widen([row for row_id, row in rows.items() if before.get(row_id) is not row])
        top = self.scroll_offset.y
        for y in list(self._strips):
            row_id = self.ids[top + y - HEADER] if HEADER <= y < len(self.ids) - top + HEADER else None
            if row_id is not None and before.get(row_id) is not rows.get(row_id):
                del self._strips[y]
                self._lively.add(y)
                self.refresh_line(top + y)
        self._want()
        if not before:
            self.post_message(self.Moved())

    def _widen(self, rows: Sequence[Any]) -> None:
        """Measure the texts of columns that fit theirs; place the columns anew if one has become longer."""
        now, before = self._now(), dict(self._needs)
        for column in self.columns:
            if column.fits and rows:
                longest = max(cells(column.show(row, now).text) for row in rows)
                self._needs[column.key] = max(longest, before.get(column.key, 0))
        if self._needs != before:
            self._placed = (0, [])
            self._redraw()

    def tick(self) -> None:
        """Draw the lines that the time has changed; called every second.

        Most lines show minutes and hours, so lines that did not change lately are checked less often.
        """
        if not self.is_attached:  # the screen is closing, and its styles are gone
            return
        self._ticks += 1
        self._measure()
        if self._ticks % QUIET_TICKS == 0:
            self._enliven()
        for y in sorted(self._lively):
            before, strip = self._strips.get(y), self._drawn(y)
            if strip == before:
                self._lively.discard(y)
                continue
            self._strips[y] = strip
            self.refresh_line(self.scroll_offset.y + y)

    def set_old(self, is_old: bool) -> None:
        """Mark the rows as out of date, or as current."""
        if is_old != self.is_old:
            self.is_old = is_old
            self._redraw()

    def move_to(self, position: int) -> None:
        """Move the cursor to a row, or to the nearest one."""
        position = max(0, min(position, len(self.ids) - 1))
        if position == self._cursor:
            return
        before, self._cursor = self._cursor, position
        top = self.scroll_offset.y
        self._keep_in_sight()
        if self.scroll_offset.y == top:
            for row in (before, position):
                self._strips.pop(row - top + HEADER, None)
                self.refresh_line(row + HEADER)
        self.post_message(self.Moved())

    # Keys -------------------------------------------------------------------------------------------

    def action_down(self) -> None:
        self.move_to(self._cursor + 1)

    def action_up(self) -> None:
        self.move_to(self._cursor - 1)

    def action_first(self) -> None:
        self.move_to(0)

    def action_last(self) -> None:
        self.move_to(len(self.ids) - 1)

    def action_half_down(self) -> None:
        self.move_to(self._cursor + max(1, self._page() // 2))

    def action_half_up(self) -> None:
        self.move_to(self._cursor - max(1, self._page() // 2))

    def action_page_down(self) -> None:
        self._turn_page(1)

    def action_page_up(self) -> None:
        self._turn_page(-1)

    def action_choose(self) -> None:
        if self.cursor_id is not None:
            self.post_message(self.Chosen())

    def action_mark(self) -> None:
        if self.cursor_id is None:
            return
        if not isinstance(self.cursor_id, HeadId):
            self.marks ^= {self.cursor_id}
        self._redraw()
        self.move_to(self._cursor + 1)
        self.post_message(self.Moved())

    def action_mark_all(self) -> None:
        """Mark the rows in sight; if all of them are marked, remove all marks, also hidden ones."""
        shown = {each for each in self.visible_ids() if not isinstance(each, HeadId)}
        if shown <= self.marks:
            self.marks, self.hidden_marks = set(), set()
        else:
            self.marks = self.marks | shown
        self._redraw()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; open the row after a double click; sort after a click on a title."""
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        if clicked.y < HEADER:
            self._choose_order(clicked.x)
            return
        position = self.scroll_offset.y + clicked.y - HEADER
        if position >= len(self.ids):
            return
        if position == self._cursor and event.chain > 1:
            self.action_choose()
        self.move_to(position)

    def _choose_order(self, x: int) -> None:
        for placed in self._layout():
            if placed.x <= x - MARK_CELLS < placed.x + placed.width and placed.column.order:
                self.post_message(self.OrderChosen(placed.column.order))

    def _turn_page(self, pages: int) -> None:
        """Scroll by pages; the cursor stays on the same line of the screen."""
        rows = pages * max(1, self._page() - 1)
        self._scroll(self.scroll_offset.y + rows)
        self.move_to(self._cursor + rows)

    # Drawing ----------------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return some lines. They are finished: the table has no border, padding or opacity to add."""
        self._measure()
        if self.has_focus:  # magnifiers and Braille displays follow it
            row = self._cursor - self.scroll_offset.y + HEADER
            self.app.cursor_position = self.region.offset + Offset(0, row)
        strips = [self.render_line(y) for y in crop.line_range]
        is_whole = crop.column_span == (0, self.region.width)
        return strips if is_whole else [strip.crop(*crop.column_span) for strip in strips]

    def _measure(self) -> None:
        """Determine the width, and forget lines of another one: `on_resize` may come after they are drawn."""
        before = self._region.width, self._drawn_width
        self._region = self.scrollable_content_region
        self._drawn_width = self._region.width if self.vertical_scrollbar.region else self.region.width
        if before != (self._region.width, self._drawn_width):
            self._strips.clear()
        # The other filters are in the styles.
        self._ascii = next((each for each in self.get_line_filters() if isinstance(each, AsciiFilter)), None)

    def render_line(self, y: int) -> Strip:
        """Return one line: the titles, or a row."""
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._drawn(y)
        return strip

    def _drawn(self, y: int) -> Strip:
        if y < HEADER:
            return self._header()
        position = self.scroll_offset.y + y - HEADER
        if position >= len(self.ids):
            note = self.note if y == HEADER + 1 and not self.ids else ""
            width, quiet = self._region.width, self._style("cell--quiet")
            return self._line([Segment(fitted(f" {note}", width), quiet)], width, quiet)
        return self._row(position)

    def _header(self) -> Strip:
        style = self._style("table--header")
        line = " " * MARK_CELLS
        for placed in self._layout():
            title = placed.column.title
            if self.order and placed.column.order == self.order[0]:
                title += "-" if self.order[1] else "+"
            line += fitted(title, placed.width, right=placed.column.right) + " " * placed.gap
        return self._line([Segment(line, style)], self._filled(), style)

    def _row(self, position: int) -> Strip:
        row_id = self.ids[position]
        base = ["table--cursor"] if position == self._cursor else []
        if row_id in self.marks:
            base.append("table--marked")
        plain = self._style(*base)
        row, now = self.rows.get(row_id), self._now()
        segments, text, style = [], "*" if row_id in self.marks else " ", plain
        for placed in self._layout():
            cell = placed.column.show(row, now) if row is not None else LOADING
            for part, name in _parts(cell, placed):
                name = "quiet" if self.is_old else name
                cell_style = self._style(f"cell--{name}", *base) if name else plain
                if cell_style is not style:  # neighbours of one style are one segment
                    segments.append(Segment(text, style))
                    text, style = "", cell_style
                text += part
        segments.append(Segment(text, style))
        return self._line(segments, self._filled(), plain)

    def _line(self, segments: list[Segment], length: int, rest: Style) -> Strip:
        """Return a line of `length` cells, fitted to the width of the rows and of the scroll bar's place."""
        width = self._region.width
        if length > width:
            segments, length = list(Strip(segments, length).crop(0, width)), width
        for end, style in ((width, rest), (self._drawn_width, self._style())):
            if length < end:
                segments.append(Segment(" " * (end - length), style))
                length = end
        if self._ascii:
            segments = self._ascii.apply(segments)
        return Strip(segments, length)

    def column_x(self, key: str) -> int:
        """Return where a column begins; 0 if it is not shown."""
        found = (MARK_CELLS + placed.x for placed in self._layout() if placed.column.key == key)
        return next(found, 0)

    def _layout(self) -> list[PlacedColumn]:
        width = self._region.width - MARK_CELLS
        if self._placed[0] != width:
            shown = [each for each in self.columns if each.rank == 0 or each.key not in self._hidden]
            self._placed = (width, arrange(shown, width, self._needs))
        return self._placed[1]

    def _filled(self) -> int:
        """Return the width of all columns."""
        placed = self._layout()
        return MARK_CELLS + (placed[-1].x + placed[-1].width + placed[-1].gap if placed else 0)

    def _style(self, *classes: str) -> Style:
        """Return the style of these classes on top of the table's own, as it is shown; computed once."""
        style = self._styles.get(classes)
        if style is None:
            style = self.get_visual_style(*classes).rich_style
            for name in classes:  # the visual style leaves out `reverse`
                style = style + self.get_component_styles(name).text_style
            _, background = self.background_colors
            for line_filter in self.get_line_filters():
                (segment,) = line_filter.apply([Segment(" ", style)], background)
                style = segment.style or style
            self._styles[classes] = style
        return style

    def _enliven(self) -> None:
        """Check every line at the next tick. Before the first layout there are none."""
        self._lively = set(range(HEADER, self.scrollable_content_region.height))

    def _redraw(self) -> None:
        self._strips.clear()
        self._enliven()
        self.refresh()
        self._want()

    def _want(self) -> None:
        if self.is_near_end or any(each not in self.rows for each in self.visible_ids()):
            self.post_message(self.Wanting())

    def _keep_in_sight(self) -> None:
        top, page = self.scroll_offset.y, self._page()
        if self._cursor < top:
            self._scroll(self._cursor)
        elif self._cursor >= top + page:
            self._scroll(self._cursor - page + 1)

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(0, min(top, len(self.ids) - self._page())), animate=False, force=True)

    def _page(self) -> int:
        return max(1, self.scrollable_content_region.height - HEADER)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw all lines: others are in sight."""
        self._move_scroll_bar(new_value)
        self.refresh(self.size.region)
        self._strips.clear()
        self._enliven()
        self.post_message(self.Wanting())

    def _move_scroll_bar(self, position: float) -> None:
        """Move the thumb; draw it only if that shows: in a long list it hardly moves with a page."""
        bar = self.vertical_scrollbar
        before = _thumb(bar)
        bar.set_reactive(ScrollBar.position, position)
        if _thumb(bar) != before:
            bar.refresh()

    def on_resize(self) -> None:
        """Draw all lines in the new width."""
        self.virtual_size = Size(self.size.width, len(self.ids) + HEADER)
        self._keep_in_sight()
        self._redraw()

    def notify_style_update(self) -> None:
        """Draw all lines in the new theme."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()


def _parts(cell: Cell, placed: PlacedColumn) -> Sequence[tuple[str, str]]:
    """Return the texts of a cell, with the gap after it, and the names of their styles."""
    column, width, gap = placed.column, placed.width, " " * placed.gap
    left = width - cells(cell.text) if cell.parts else -1
    if left >= 0:
        return (*cell.parts, (" " * left + gap, ""))
    return ((fitted(cell.text, width, right=column.right, keeps_end=column.keeps_end) + gap, cell.style),)


def _thumb(bar: ScrollBar) -> int:
    """Return where Textual draws the thumb, in steps from the top."""
    size, whole, shown = bar.size.height, bar.window_virtual_size, bar.window_size
    if whole <= shown:
        return 0
    length = max(1.0, size * shown / whole)
    return int((size - length) * bar.position / (whole - shown) * _STEPS_OF_CELL)


def _position(ids: Sequence[Any], held: Any, before: int) -> int:
    """Return the new position of the row; if it is gone, its old position."""
    if held is not None:
        try:
            return ids.index(held)
        except ValueError:
            pass
    return max(0, min(before, len(ids) - 1))
