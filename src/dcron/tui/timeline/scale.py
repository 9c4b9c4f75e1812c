"""The scale of the timeline: length and begin of the cells, and the header above them."""

from datetime import UTC, datetime, timedelta, tzinfo

from dcron.policy.forecast.start_times import StartSpan

AHEAD = timedelta(hours=24)
LEAD = timedelta(hours=1)
"""Time shown before now; at least one cell."""
CELLS = [timedelta(minutes=minutes) for minutes in (5, 10, 15, 20, 30, 60, 120)]
"""Possible lengths of a cell: in nearly all zones an hour begins with a cell."""
LABEL_CELLS = 6
"""Least cells from one label to the next."""
_LABEL_HOURS = (1, 2, 3, 4, 6, 12)
_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


def cells_of(cell: timedelta) -> int:
    """Return the number of cells of this length."""
    return AHEAD // cell + _lead(cell)


def cell_for(room: int) -> timedelta:
    """Return the shortest cell length with which all cells fit into `room` columns."""
    return next((cell for cell in CELLS if cells_of(cell) <= room), CELLS[-1])


def span_at(now: datetime, cell: timedelta, shift: timedelta) -> StartSpan:
    """Return the span from a little before now to a day after, moved by `shift`."""
    begin = now - (now - datetime(1970, 1, 1, tzinfo=UTC)) % cell - _lead(cell) * cell
    return StartSpan(begin + shift, cell, cells_of(cell))


def header(span: StartSpan, here: tzinfo, now: datetime) -> str:
    """Return the hours above their cells, `|` above now, and `!gap` or `!fold` where the clocks change."""
    line = [" "] * span.cells
    for position in range(span.cells):
        if change := _change(span, here, position):
            _put(line, min(position, span.cells - 1), change)
    if 0 <= span.position(now) < span.cells:
        _put(line, span.position(now), "|")
    hours = _label_hours(span.cell)
    for position in range(span.cells):
        label = _label(span, here, position, hours)
        around = slice(max(0, position - 1), position + len(label) + 1)
        if label and position + len(label) <= span.cells and not "".join(line[around]).strip():
            _put(line, position, label)
    return "".join(line)


def _lead(cell: timedelta) -> int:
    return max(1, LEAD // cell)


def _put(line: list[str], position: int, text: str) -> None:
    for offset, letter in enumerate(text[: len(line) - position]):
        line[position + offset] = letter


def _change(span: StartSpan, here: tzinfo, position: int) -> str:
    before = _last_local_time(span, here, position - 1).utcoffset() or timedelta(0)
    after = _last_local_time(span, here, position).utcoffset() or timedelta(0)
    return "" if before == after else "!gap" if after > before else "!fold"


def _last_local_time(span: StartSpan, here: tzinfo, position: int) -> datetime:
    """Return the local time at the end of a cell."""
    return (span.start_of(position + 1) - _SECOND).astimezone(here)


def _label(span: StartSpan, here: tzinfo, position: int, hours: int) -> str:
    """Return the hour that begins in the cell, or the day at midnight; empty if there is no label."""
    before, local = _last_local_time(span, here, position - 1), _last_local_time(span, here, position)
    if (before.date(), before.hour) == (local.date(), local.hour) or local.hour % hours:
        return ""
    return f"{local:%a}" if local.hour == 0 else f"{local:%H}h"


def _label_hours(cell: timedelta) -> int:
    fits = (hours for hours in _LABEL_HOURS if hours * _HOUR >= LABEL_CELLS * cell)
    return next(fits, _LABEL_HOURS[-1])
