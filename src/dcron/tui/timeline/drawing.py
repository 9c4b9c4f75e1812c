"""The row of a task on the timeline: one sign per cell."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from statistics import median

from dcron.model import RunState
from dcron.policy.forecast.start_times import Filled, StartSpan
from dcron.services.dashboard import TimelineRow
from dcron.tui.table.cells import Cell, parted

NOW = "|"
ONE, MANY, SKIPPED, LATE = "^", "=", ".", "!"
BEGUN, RUNNING, EXPECTED = "[", "$", "~"
HEAT = {True: "░▒▓█", False: "-+%#"}
"""One start in a cell, two, up to MANY_FROM, and more."""
MANY_FROM = 6
_ASCII = str.maketrans({RUNNING: "="})
_UNICODE = str.maketrans(
    {NOW: "│", ONE: "•", MANY: "━", SKIPPED: "·", BEGUN: "█", RUNNING: "█", EXPECTED: "░"}
)
_STYLES = {
    **dict.fromkeys((ONE, MANY), "start"),
    **{sign: f"heat-{shade}" for signs in HEAT.values() for shade, sign in enumerate(signs, 1)},
    **dict.fromkeys((BEGUN, RUNNING), "running"),
    **dict.fromkeys((NOW, SKIPPED), "quiet"),
    EXPECTED: "track",
    LATE: "late",
}
BAR_CELLS = 3
"""Number of neighbouring cells with a start from which on they are drawn as a bar."""


def signs_cell(row: TimelineRow, now: datetime, heat: str = "", *, unicode: bool) -> Cell:
    """Return the cells: `^` a start, `=====` many, `.` skipped; `[==|~~` a run and its usual length.

    With `heat`, one of HEAT, a sign and its shade say how many starts its cell has; those of a task whose
    last run failed are red.
    """

    def style(sign: str) -> str:
        return "failed" if row.failed and sign in heat else _STYLES.get(sign, "")

    drawn = groupby(_signs(row, now, heat), style)
    table = _UNICODE if unicode else _ASCII
    return parted(*(("".join(same).translate(table), style) for style, same in drawn))


def heat_legend(*, unicode: bool) -> list[tuple[str, str]]:
    """Return parts of a line with what the shades mean, and their styles."""
    numbers = ("1", "2", f"3-{MANY_FROM - 1}", f"{MANY_FROM}+")
    parts = [(" starts in a cell: ", "$foreground-muted")]
    for shade, (sign, number) in enumerate(zip(HEAT[unicode], numbers, strict=True), 1):
        parts += [(sign * 2, f"$heat-{shade}"), (f" {number}   ", "$foreground-muted")]
    return [
        *parts,
        (HEAT[unicode][-1] * 2, "bold $text-error"),
        (" its last run failed", "$foreground-muted"),
    ]


def now_sign(*, unicode: bool) -> str:
    """Return the sign for now."""
    return NOW.translate(_UNICODE) if unicode else NOW


def _signs(row: TimelineRow, now: datetime, heat: str) -> str:
    """Return one sign per cell, as ASCII except for RUNNING."""
    span = row.span
    line = [_sign(cell, now, span.start_of(position + 1), heat) for position, cell in enumerate(row.cells)]
    if not heat:
        _join(line)
    _put_next(line, row, span, now)
    here = span.position(now)
    if 0 <= here < span.cells and line[here] == " ":
        line[here] = NOW
    for run in row.alive:
        _put_run(line, span, run.started_at or now, now, usual_length(row))
    if row.is_late(now) and row.next_at and here >= 0:
        line[max(0, min(span.position(row.next_at), span.cells - 1))] = LATE
    return "".join(line)


def starts_text(row: TimelineRow, now: datetime) -> str:
    """Return the number of starts to come; `150+` if not all were counted."""
    number = sum(len(_coming(cell, now)) for cell in row.cells)
    if not number and row.next_at and max(now, row.span.begin) <= row.next_at < row.span.end:
        number = 1  # it does not follow the schedule
    return f"{number}+" if any(cell.has_more for cell in row.cells) else str(number)


def usual_length(row: TimelineRow) -> timedelta | None:
    """Return the median length of the last successful runs; None if there are none."""
    took = [each.seconds for each in row.recent if each.state is RunState.SUCCEEDED and each.seconds]
    return timedelta(seconds=median(took)) if took else None


def _coming(cell: Filled, now: datetime) -> Sequence[datetime]:
    return [start for start in cell.starts if start >= now]


def _sign(cell: Filled, now: datetime, end: datetime, heat: str) -> str:
    if end <= now:
        return " "
    coming = _coming(cell, now)
    if heat and coming:
        number = MANY_FROM if cell.has_more else len(coming)
        return heat[3 if number >= MANY_FROM else min(number - 1, 2)]
    if len(coming) > 1 or cell.has_more:
        return MANY
    return ONE if coming else SKIPPED if cell.skipped else " "


def _join(line: list[str]) -> None:
    """Draw neighbouring starts as bars."""
    position = 0
    for is_start, same in groupby(line, lambda sign: sign in (ONE, MANY)):
        length = len(list(same))
        if is_start and length >= BAR_CELLS:
            line[position : position + length] = MANY * length
        position += length


def _put_next(line: list[str], row: TimelineRow, span: StartSpan, now: datetime) -> None:
    """Draw a run that does not follow the schedule: a retry, or one after a delay."""
    if row.next_at is None or row.next_at < now:
        return
    position = span.position(row.next_at)
    if 0 <= position < span.cells and line[position] == " ":
        line[position] = ONE


def _put_run(
    line: list[str], span: StartSpan, started: datetime, now: datetime, usual: timedelta | None
) -> None:
    first, here = span.position(started), span.position(now)
    for position in range(max(0, first), min(here, span.cells)):
        line[position] = BEGUN if position == first else RUNNING
    if 0 <= first == here < span.cells:
        line[first] = BEGUN
    until = min(span.cells, span.position(started + usual) + 1) if usual else 0
    for position in range(max(0, here + 1), until):
        line[position] = EXPECTED if line[position] == " " else line[position]
