"""Print tables: aligned, without borders, cut to the width of the terminal, row by row."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from dcron.cli.output import console
from dcron.cli.output.colours import ActiveCell, AlarmCell, GoodCell, Title, coloured
from dcron.model import RunState
from dcron.values.safe_text import cells, safe, shorten

SAMPLE = 200
"""Rows that set the widths of the columns; cells of later rows are cut or stick out."""
GAP = "  "


@dataclass(frozen=True)
class TableColumn:
    """A column, and how far it may be cut on a narrow terminal."""

    title: str
    least: int | None = None
    """Fewest cells to keep; None if the column is never cut."""
    right: bool = False
    keep_end: bool = False
    """Cut the beginning, not the end, as in the name of a zone."""
    spare: bool = False
    """Omit this column first if the terminal is too narrow."""


def print_table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> int:
    """Print the rows under their titles and return their number. Without rows, print nothing."""
    count = 0
    for count, line in enumerate(table_lines(columns, rows), 0):  # noqa: B007 - the titles are not a row
        console.drawn(line)
    return count


def table_lines(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the table, the titles first; none if there are no rows."""
    rows = iter(rows)
    sample = [_inert(row) for row in islice(rows, SAMPLE)]
    if not sample:
        return
    widths = _fit(columns, _widths(columns, sample))
    yield _line(columns, widths, [Title(column.title) for column in columns])
    for row in chain(sample, map(_inert, rows)):
        yield _line(columns, widths, row)


def print_facts(facts: Iterable[tuple[str, str | Sequence[str] | None]]) -> None:
    """Print names and values, one pair per line, except those without a value. A value may have lines."""
    shown = [(name, value) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        for number, line in enumerate(value.split("\n") if isinstance(value, str) else value):
            console.drawn(f"{'' if number else name:<{width}}{GAP}{shown_line(line)}".rstrip())


def shown_line(line: str) -> str:
    """Return the line, safe for terminals, in the colour of its kind."""
    return coloured(safe(line), line)


def state_cell(text: str, state: RunState) -> str:
    """Return a text about a run in this state, to be highlighted as it deserves."""
    if state.is_failure:
        return AlarmCell(text)
    if state is RunState.SUCCEEDED:
        return GoodCell(text)
    return ActiveCell(text) if state in (RunState.CLAIMED, RunState.RUNNING) else text


def _inert(row: Sequence[str]) -> list[str]:
    return [type(cell)(safe(cell)) for cell in row]


def _widths(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(cells(column.title), *(cells(row[position]) for row in rows))
        for position, column in enumerate(columns)
    ]


def _fit(columns: Sequence[TableColumn], widths: list[int]) -> list[int]:
    """Return widths that fit the terminal: the column with the most room shrinks first. A pipe has no width.

    If the table cannot fit, the last columns get width 0 and are omitted, spare columns first.
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
    """Return the cells of a line with these widths."""
    return sum(widths) + len(GAP) * (sum(map(bool, widths)) - 1)


def _line(columns: Sequence[TableColumn], widths: Sequence[int], row: Sequence[str]) -> str:
    shown = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        if not width:
            continue
        text = _cut(cell, width, column)
        space = " " * (width - cells(text))
        text = coloured(text, cell)
        shown.append(space + text if column.right else text + space)
    return GAP.join(shown).rstrip()


def _cut(cell: str, width: int, column: TableColumn) -> str:
    if not console.is_terminal() or cells(cell) <= width:
        return cell
    if column.keep_end and cell.isascii():
        return "…" + cell[len(cell) - width + 1 :]
    return shorten(cell, width)
