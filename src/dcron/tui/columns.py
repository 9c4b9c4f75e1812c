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
    grows: bool = False
    """Takes the room that is left; `width` is then the least it needs."""
    right: bool = False
    order: str | None = None
    """The order that a click on the title sorts by."""
    from_width: int = 0
    """The width of the table from which on it is shown at all."""


@dataclass(frozen=True)
class Placed:
    """A column in its place."""

    column: Column
    x: int
    width: int


def place(columns: Sequence[Column], width: int) -> list[Placed]:
    """The columns that fit, in their order, the growing one as wide as it can be."""
    kept: set[str] = set()
    left = width
    for column in sorted(columns, key=lambda column: column.rank):
        needs = column.width + (GAP if kept else 0)
        if column.rank == 0 or (needs <= left and width >= column.from_width):
            kept.add(column.key)
            left -= needs
    placed, x = [], 0
    for column in columns:
        if column.key in kept:
            room = max(1, min(column.width + (left if column.grows else 0), width - x))
            placed.append(Placed(column, x, room))
            x += room + GAP
    return [each for each in placed if each.x < width]


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Inert text in exactly so many cells."""
    if len(text) > width // 2:
        text = shorten(text, width)
    space = " " * (width - cells(text))
    return space + text if right else text + space
