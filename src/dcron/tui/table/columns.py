"""Columns of a table, and which of them a width has room for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dcron.tui.table.cells import Cell
from dcron.values.safe_text import cells, shorten, shorten_middle

GAP = 1
NAME_CELLS = 12
"""Least width of names."""
NAME_FIRST = 28
"""Width up to which names get their room before any other column."""
NAME_SHARE = 0.4
"""Greatest share of the width for the column of the names."""


@dataclass(frozen=True)
class Column:
    """A column: its width, its rank where room is short, and its cells."""

    key: str
    title: str
    width: int
    show: Callable[[Any, datetime], Cell]
    """Return the cell of a row at a time on the database's clock."""
    rank: int = 0
    """Columns of rank 0 are always shown; of the others the highest rank is left out first."""
    most: int = 0
    """Greatest width."""
    fits: bool = False
    """Whether it becomes as wide as its longest text, up to `most`. The names do so before other columns."""
    if_used: bool = False
    """Whether it is left out until a row has a text for it. It is also one that `fits`."""
    keeps_end: bool = False
    """Whether a long text is shortened in the middle."""
    grows: bool = False
    """Whether it takes the remaining room; of several, the last does."""
    right: bool = False
    order: str | None = None
    """The order of a click on the title."""
    from_width: int = 0
    """Least width of the table with which it is shown."""


def name_column(
    key: str, title: str, show: Callable[[Any, datetime], Cell], order: str | None = None
) -> Column:
    """Return a column of names: it gets its room before others, and long names keep both ends."""
    return Column(key, title, NAME_CELLS, show, most=60, fits=True, keeps_end=True, grows=True, order=order)


@dataclass(frozen=True)
class PlacedColumn:
    """A column with its position and width."""

    column: Column
    x: int
    width: int
    gap: int
    """Cells behind it; 0 where the width ends."""


def arrange(columns: Sequence[Column], width: int, needs: Mapping[str, int]) -> list[PlacedColumn]:
    """Return the columns that fit, with their positions and widths; `needs` are widths of texts by column."""
    others = sum(column.width + GAP for column in columns if column.rank == 0 and not column.fits)
    room = max(int(width * NAME_SHARE), min(NAME_FIRST, width - others))
    used = [column for column in columns if not column.if_used or needs.get(column.key)]
    widened = [_widened(column, room, needs) for column in used]
    kept: set[str] = set()
    left = width
    for column in sorted(widened, key=lambda column: column.rank):
        cost = column.width + (GAP if kept else 0)
        if column.rank == 0 or (cost <= left and width >= column.from_width):
            kept.add(column.key)
            left -= cost
    placed, x = [], 0
    for column, wide in _grown([column for column in widened if column.key in kept], left):
        room = max(1, min(wide, width - x))
        placed.append(PlacedColumn(column, x, room, gap=max(0, min(GAP, width - x - room))))
        x += room + GAP
    return [each for each in placed if each.x < width]


def _widened(column: Column, room: int, needs: Mapping[str, int]) -> Column:
    """Return the column with the width that its texts need; one of rank 0 gets it at once, up to `room`."""
    if not column.fits:
        return column
    most = min(column.most, needs.get(column.key, 0))
    if column.rank:
        return replace(column, most=most)
    return replace(column, width=max(column.width, min(most, room)), most=most)


def _grown(columns: Sequence[Column], left: int) -> list[tuple[Column, int]]:
    """Return the columns and their widths; the remaining room goes to those that can use it."""
    widths = {column.key: column.width for column in columns}
    for column in sorted(columns, key=lambda column: column.rank):
        more = max(0, min(column.most - column.width, left))
        widths[column.key] += more
        left -= more
    for column in [column for column in columns if column.grows][-1:]:
        widths[column.key] += left
    return [(column, widths[column.key]) for column in columns]


def fitted(text: str, width: int, *, right: bool = False, keeps_end: bool = False) -> str:
    """Return an inert text in exactly `width` cells; with `keeps_end` its middle is cut out."""
    if text.isascii() and len(text) <= width:
        return text.rjust(width) if right else text.ljust(width)
    text = shorten_middle(text, width) if keeps_end else shorten(text, width)
    space = " " * (width - cells(text))
    return space + text if right else text + space
