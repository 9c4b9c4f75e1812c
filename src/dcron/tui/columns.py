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
    """A column: how wide it is, how soon it goes where room is short, and what it shows of a row."""

    key: str
    title: str
    width: int
    show: Callable[[Any, datetime], Cell]
    """The cell of a row at a moment on the database's clock."""
    rank: int = 0
    """Columns of rank 0 always stay; of the others the highest rank goes first."""
    most: int = 0
    """How wide it becomes where there is room."""
    grows: bool = False
    """The last of those that grow takes all the room that is left then."""
    right: bool = False
    order: str | None = None
    """The order that a click on the title sorts by."""
    from_width: int = 0
    """The width of the table from which on it is shown at all."""


@dataclass(frozen=True)
class PlacedColumn:
    """A column in its place."""

    column: Column
    x: int
    width: int


def place(columns: Sequence[Column], width: int) -> list[PlacedColumn]:
    """The columns that fit, in their order and as wide as there is room for."""
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
    """The columns and their widths, with what is left given to those that can use it."""
    widths = {column.key: column.width for column in columns}
    for column in sorted(columns, key=lambda column: column.rank):
        more = max(0, min(column.most - column.width, left))
        widths[column.key] += more
        left -= more
    for column in [column for column in columns if column.grows][-1:]:
        widths[column.key] += left
    return [(column, widths[column.key]) for column in columns]


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Inert text in exactly so many cells."""
    if len(text) > width // 2:
        text = shorten(text, width)
    space = " " * (width - cells(text))
    return space + text if right else text + space
