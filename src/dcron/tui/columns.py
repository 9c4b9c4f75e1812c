"""Columns of a table, and which of them a width has room for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.safetext import cells, shorten
from dcron.tui.cells import Cell

GAP = 1


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
    grows: bool = False
    """Whether it takes the remaining room; of several, the last does."""
    right: bool = False
    order: str | None = None
    """The order of a click on the title."""
    from_width: int = 0
    """Least width of the table with which it is shown."""


@dataclass(frozen=True)
class PlacedColumn:
    """A column with its position and width."""

    column: Column
    x: int
    width: int


def arrange(columns: Sequence[Column], width: int) -> list[PlacedColumn]:
    """Return the columns that fit, with their positions and widths."""
    kept: set[str] = set()
    left = width
    for column in sorted(columns, key=lambda column: column.rank):
        needs = column.width + (GAP if kept else 0)
        if column.rank == 0 or (needs <= left and width >= column.from_width):
            kept.add(column.key)
            left -= needs
    placed, x = [], 0
    for column, wide in _grown([column for column in columns if column.key in kept], left):
        room = max(1, min(wide, width - x))
        placed.append(PlacedColumn(column, x, room))
        x += room + GAP
    return [each for each in placed if each.x < width]


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


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Return an inert text in exactly `width` cells."""
    if len(text) > width // 2:
        text = shorten(text, width)
    space = " " * (width - cells(text))
    return space + text if right else text + space
