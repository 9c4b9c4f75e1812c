"""Cells of a table: inert text and a style. Foreign text gets into a cell through `cell` only."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.values.safe_text import NAME_CELLS, safe

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.tasks.rows import RecentRun, TaskRow


class Cell(NamedTuple):
    """Inert text and the name of its style (colours.py)."""

    text: str
    style: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    """The same text in parts with a style each; it is used where the whole text has room."""


EMPTY = Cell("")


def cell(text: str | bytes | None, style: str = "") -> Cell:
    """Return a cell of any text, made inert."""
    return Cell(safe(text, NAME_CELLS), style) if text else EMPTY


def parted(*parts: tuple[str, str]) -> Cell:
    """Return a cell of inert texts with a style each; where it is cut, it has the style of the first."""
    return Cell("".join(text for text, _ in parts), parts[0][1], parts)


class TaskStatus(NamedTuple):
    """The status of a task or a run: a word, and the name of its style and its sign."""

    word: str
    style: str


ASCII_SIGNS: Mapping[str, str] = {
    "running": "R",
    "ok": "+",
    "failed": "x",
    "lost": "?",
    "late": "!",
    "error": "!",
    "paused": "-",
    "quiet": ".",
    "waiting": ".",
}
UNICODE_SIGNS: Mapping[str, str] = {
    **ASCII_SIGNS,
    "running": "▶",
    "ok": "✓",
    "failed": "✗",
    "paused": "‖",
    "quiet": "·",
    "waiting": "·",
}
_OF_RUN = {
    RunState.WAITING: TaskStatus("waiting", "waiting"),
    RunState.CLAIMED: TaskStatus("starting", "running"),
    RunState.RUNNING: TaskStatus("running", "running"),
    RunState.SUCCEEDED: TaskStatus("ok", "ok"),
    RunState.FAILED: TaskStatus("failed", "failed"),
    RunState.LOST: TaskStatus("lost", "lost"),
    RunState.SKIPPED: TaskStatus("skipped", "quiet"),
    RunState.CANCELLED: TaskStatus("cancelled", "quiet"),
}


def run_status(run: Run) -> TaskStatus:
    """Return the status of a run."""
    if run.is_unheard:
        return TaskStatus("unheard", "lost")
    return _OF_RUN.get(run.state) or TaskStatus(run.state.value, "quiet")


def task_status(row: "TaskRow", now: datetime) -> TaskStatus:
    """Return the status of a task: its running run, else what is wrong, else its last run."""
    if row.alive:
        return run_status(row.alive[-1])
    if not row.task.enabled:
        return TaskStatus("paused", "paused")
    if row.task.error:
        return TaskStatus("error", "error")
    if row.is_late(now):
        return TaskStatus("late", "late")
    if row.held_by(now):
        return TaskStatus(humanize.FROZEN, "paused")
    if row.failed and row.last_run and not row.last_run.state.is_failure:
        return TaskStatus("failed", "failed")  # a later run was cancelled, which clears nothing
    if row.last_run:
        return run_status(row.last_run)
    return TaskStatus("new", "quiet")


def next_cell(row: "TaskRow", now: datetime) -> Cell:
    """Return the time to the next run, or why there is none; `!` if the clocks change before it."""
    if row.next_at is None and not row.task.enabled:
        return Cell("paused", "paused")
    if row.next_at is None:
        return Cell("error", "error") if row.task.error else Cell("-", "quiet")
    text = humanize.to_next(row.next_run, row.next_at, row.unserved, now, row.frozen)
    if row.unserved:
        return Cell(text, "late")
    if row.next_run and row.next_run.blocked:
        return Cell(text, "waiting")
    if late_by := row.late_by(now):
        return Cell(humanize.late(late_by).replace("late", "LATE"), "late")
    if text == humanize.FROZEN:
        return Cell(text, "paused")
    if row.next_at <= now:
        return Cell("now", "running")
    mark = "!" if row.clock_change else ""
    return Cell(text + mark, "late" if mark else "")


def last_cell(row: "TaskRow", now: datetime) -> Cell:
    """What happens, or how it went last and when."""
    run = row.alive[-1] if row.alive else row.last_run
    if run is None:
        return EMPTY
    text = humanize.result(run, now)
    if run.state is RunState.SUCCEEDED:
        text = "ok"
    result = cell(text, run_status(run).style)
    if run.finished_at is None:
        return result
    return parted((result.text, result.style), (f" {humanize.ago(run.finished_at, now)}", "quiet"))


def ended_cell(run: Run, now: datetime) -> Cell:
    """How long ago the run ended."""
    return Cell(humanize.ago(run.finished_at, now)) if run.finished_at else EMPTY


def owner_cell(row: "TaskRow") -> Cell:
    """The node that runs the task now; elsewhere the one that ran it last, text quietly."""
    if row.alive:
        return cell(row.alive[-1].node, "running")
    return cell(row.last_run.node, "quiet") if row.last_run else EMPTY


_HEIGHTS = {True: "▁▂▃▄▅▆▇", False: "_.-=#"}
"""None of them is a full line: it would touch the row above."""
SPARK_SIGNS = {
    True: {RunState.FAILED: "×", RunState.LOST: "?", RunState.SKIPPED: "·", RunState.CANCELLED: "-"},
    False: {RunState.FAILED: "x", RunState.LOST: "?", RunState.SKIPPED: ",", RunState.CANCELLED: ":"},
}
FLAT_SECONDS = 1.0
"""Runs that are all shorter than this have the same height: their differences mean nothing."""


def spark(recent: "Sequence[RecentRun]", *, unicode: bool) -> Cell:
    """Return one column per run, as high as its length among all; unsuccessful runs have a sign."""
    longest = max((run.seconds or 0.0 for run in recent if run.state is RunState.SUCCEEDED), default=0.0)
    heights, signs = _HEIGHTS[unicode], SPARK_SIGNS[unicode]
    parts = [
        (signs.get(run.state) or _height(run.seconds, longest, heights), _spark_style(run.state))
        for run in recent
    ]
    return parted(*parts) if parts else EMPTY


def _height(seconds: float | None, longest: float, heights: str) -> str:
    share = (seconds or 0.0) / longest if longest >= FLAT_SECONDS else 0.0
    return heights[min(len(heights) - 1, int(share * len(heights)))]


def _spark_style(state: RunState) -> str:
    return "bar" if state is RunState.SUCCEEDED else _OF_RUN[state].style


SLOT_CELLS = 8
"""Most cells of a bar of slots."""
_SLOTS = {True: ("━", "━"), False: ("#", "-")}


def slots_cell(used: int, slots: int, *, unicode: bool) -> Cell:
    """Return a bar with a cell for each slot, or for its share of them, and `2/8`."""
    length = min(SLOT_CELLS, slots)
    filled = min(length, -(-used * length // slots)) if slots else 0
    taken, free = _SLOTS[unicode]
    style = "late" if slots and used >= slots else "running"
    bar = ((taken * filled, style), (free * (length - filled), "track"))
    number = f"{used}/{slots}"
    return parted(
        *(part for part in bar if part[0]),
        (" " * (SLOT_CELLS - length) + f" {number}", "" if used else "quiet"),
    )
