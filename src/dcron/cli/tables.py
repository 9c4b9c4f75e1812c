"""Tables for people: aligned, without borders, cut to the terminal, and printed while they are read."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from dcron.cli import console
from dcron.presentation.humanize import Struck
from dcron.safetext import cells, safe, shorten

SAMPLE = 200
"""Rows that decide how wide the columns are; those that follow are cut or stick out."""
GAP = "  "
_RED, _BOLD, _STRUCK, _PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[9m", "\x1b[0m"


@dataclass(frozen=True)
class TableColumn:
    """A column, and how far it may be cut where the terminal is narrow."""

    title: str
    least: int | None = None
    """The cells that must stay; None if it is never cut."""
    right: bool = False
    keep_end: bool = False
    """Cut at the front: the end tells more, as in a zone's name."""
    spare: bool = False
    """Left out before the others are, where the terminal is too narrow for all."""


class AlarmCell(str):
    """A cell that should catch the eye."""


class Title(str):
    """The name of a column."""


_COLOURS = {Title: _BOLD, AlarmCell: _RED, Struck: _STRUCK}


def print_table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> int:
    """Print the rows under their titles, streaming; how many there were. None at all print nothing."""
    count = 0
    for count, line in enumerate(table_lines(columns, rows), 0):  # noqa: B007 - the titles are no row
        console.drawn(line)
    return count


def table_lines(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of the table, its titles first; none at all where there are no rows."""
    rows = iter(rows)
    sample = [_inert(row) for row in islice(rows, SAMPLE)]
    if not sample:
        return
    widths = _fit(columns, _widths(columns, sample))
    yield _line(columns, widths, [Title(column.title) for column in columns])
    for row in chain(sample, map(_inert, rows)):
        yield _line(columns, widths, row)


def print_facts(facts: Iterable[tuple[str, str | Sequence[str] | None]]) -> None:
    """Names and values, one pair a line; those without a value are left out. A value may have lines."""
    shown = [(name, value) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        for number, line in enumerate(value.split("\n") if isinstance(value, str) else value):
            console.drawn(f"{'' if number else name:<{width}}{GAP}{shown_line(line)}".rstrip())


def shown_line(line: str) -> str:
    """The line, inert, and struck through where that can be shown."""
    return _coloured(safe(line), line)


def _inert(row: Sequence[str]) -> list[str]:
    return [type(cell)(safe(cell)) for cell in row]


def _widths(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(cells(column.title), *(cells(row[position]) for row in rows))
        for position, column in enumerate(columns)
    ]


def _fit(columns: Sequence[TableColumn], widths: list[int]) -> list[int]:
    """Take from the column that can spare most, until the table fits. A pipe has no width.

    Where it cannot fit, the last columns are left out, those that are spare first: their width is 0.
    """
    if not console.is_terminal():
        return widths
    room = shutil.get_terminal_size().columns
    least = [
        width if column.least is None else min(width, column.least)
        for width, column in zip(widths, columns, strict=True)
    ]
    while _taken(least) > room and sum(map(bool, least)) > 1:
        shown = [position for position, width in enumerate(least) if width and position]
        gone = max(shown, key=lambda position: (columns[position].spare, position))
        least[gone] = widths[gone] = 0
    least[0] = min(least[0], room)
    while _taken(widths) > room:
        spared = [width - kept for width, kept in zip(widths, least, strict=True)]
        widths[spared.index(max(spared))] -= 1
    return widths


def _taken(widths: Sequence[int]) -> int:
    """The cells of a line whose columns are so wide."""
    return sum(widths) + len(GAP) * (sum(map(bool, widths)) - 1)


def _line(columns: Sequence[TableColumn], widths: Sequence[int], row: Sequence[str]) -> str:
    shown = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        if not width:
            continue
        text = _cut(cell, width, column)
        space = " " * (width - cells(text))
        text = _coloured(text, cell)
        shown.append(space + text if column.right else text + space)
    return GAP.join(shown).rstrip()


def _coloured(text: str, cell: str) -> str:
    colour = next((code for kind, code in _COLOURS.items() if isinstance(cell, kind)), None)
    return f"{colour}{text}{_PLAIN}" if colour and console.has_colour() else text


def _cut(cell: str, width: int, column: TableColumn) -> str:
    if not console.is_terminal() or cells(cell) <= width:
        return cell
    if column.keep_end and cell.isascii():
        return "…" + cell[len(cell) - width + 1 :]
    return shorten(cell, width)
