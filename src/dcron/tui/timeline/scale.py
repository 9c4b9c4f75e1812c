"""The scale of the timeline: how long a cell is, where the cells begin, and the header over them."""

from datetime import UTC, datetime, timedelta, tzinfo

from dcron.policy.start_times import StartSpan

AHEAD = timedelta(hours=24)
LEAD = timedelta(hours=1)
"""What is shown of the time before now; a cell at least."""
CELLS = [timedelta(minutes=minutes) for minutes in (5, 10, 15, 20, 30, 60, 120)]
"""How long a cell may be: hours begin at cells in nearly all zones."""
LABEL_CELLS = 6
"""From one label to the next at least."""
_LABEL_HOURS = (1, 2, 3, 4, 6, 12)
_HOUR = timedelta(hours=1)
_SECOND = timedelta(seconds=1)


def cells_of(cell: timedelta) -> int:
    """How many cells of this length there are."""
    return AHEAD // cell + _lead(cell)


def cell_for(room: int) -> timedelta:
    """The shortest cell of which all have room in so many columns."""
    return next((cell for cell in CELLS if cells_of(cell) <= room), CELLS[-1])


def span_at(now: datetime, cell: timedelta, shift: timedelta) -> StartSpan:
    """A day from now, and a little before; later by `shift`."""
    begin = now - (now - datetime(1970, 1, 1, tzinfo=UTC)) % cell - _lead(cell) * cell
    return StartSpan(begin + shift, cell, cells_of(cell))


def header(span: StartSpan, here: tzinfo, now: datetime) -> str:
    """The hours over their cells, `|` over now, and where clocks change `!gap` or `!fold`."""
    line = [" "] * span.cells
    for position in range(span.cells):
        if change := _change(span, here, position):
            _put(line, min(position, span.cells - 1), change)
    if 0 <= span.position(now) < span.cells:
        _put(line, span.position(now), "|")
    hours = _label_hours(span.cell)
    for position in range(span.cells):
        label = _label(span, here, position, hours)
        wanted = max(0, position - 1), position + len(label) + 1
        if label and position + len(label) <= span.cells and not "".join(line[slice(*wanted)]).strip():
            _put(line, position, label)
    return "".join(line)


def _lead(cell: timedelta) -> int:
    return max(1, LEAD // cell)


def _put(line: list[str], position: int, text: str) -> None:
    for offset, letter in enumerate(text[: len(line) - position]):
        line[position + offset] = letter


def _change(span: StartSpan, here: tzinfo, position: int) -> str:
    before = _last_face(span, here, position - 1).utcoffset() or timedelta(0)
    after = _last_face(span, here, position).utcoffset() or timedelta(0)
    return "" if before == after else "!gap" if after > before else "!fold"


def _last_face(span: StartSpan, here: tzinfo, position: int) -> datetime:
    """What clocks show at the end of a cell."""
    return (span.start_of(position + 1) - _SECOND).astimezone(here)


def _label(span: StartSpan, here: tzinfo, position: int, hours: int) -> str:
    """The hour that begins in the cell, the day where it is midnight; empty where no label is due."""
    before, face = _last_face(span, here, position - 1), _last_face(span, here, position)
    if (before.date(), before.hour) == (face.date(), face.hour) or face.hour % hours:
        return ""
    return f"{face:%a}" if face.hour == 0 else f"{face:%H}h"


def _label_hours(cell: timedelta) -> int:
    fits = (hours for hours in _LABEL_HOURS if hours * _HOUR >= LABEL_CELLS * cell)
    return next(fits, _LABEL_HOURS[-1])
