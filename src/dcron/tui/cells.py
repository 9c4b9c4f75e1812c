"""What stands in a cell of a table: inert text and a look. Foreign text gets there through `cell` only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.safetext import NAME_CELLS, safe

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.task_rows import RecentRun, TaskRow


class Cell(NamedTuple):
    """Inert text, and the name of the look it has (theme.py)."""

    text: str
    look: str = ""


EMPTY = Cell("")


def cell(text: str | bytes | None, look: str = "") -> Cell:
    """A cell of any text, made inert."""
    return Cell(safe(text, NAME_CELLS), look) if text else EMPTY


@dataclass(frozen=True)
class TaskStatus:
    """How a task or a run stands: a word, and the name of its look and of its sign."""

    word: str
    look: str


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


def run_standing(run: Run) -> TaskStatus:
    """How a run stands."""
    return _OF_RUN.get(run.state) or TaskStatus(run.state.value, "quiet")


def task_standing(row: "TaskRow", now: datetime) -> TaskStatus:
    """How a task stands: what happens now before what is wrong, before how it went last."""
    if row.alive:
        return run_standing(row.alive[-1])
    if not row.task.enabled:
        return TaskStatus("paused", "paused")
    if row.task.error:
        return TaskStatus("error", "error")
    if row.is_late(now):
        return TaskStatus("late", "late")
    if row.failed and row.last_run and not row.last_run.state.is_failure:
        return TaskStatus("failed", "failed")  # a later run was cancelled, which clears nothing
    if row.last_run:
        return run_standing(row.last_run)
    return TaskStatus("new", "quiet")


def next_cell(row: "TaskRow", now: datetime) -> Cell:
    """The time to the next run, or what it waits for; `!` where the clocks change before it."""
    if row.next_at is None and not row.task.enabled:
        return Cell("paused", "paused")
    if row.next_at is None:
        return Cell("error", "error") if row.task.error else Cell("-", "quiet")
    told = humanize.to_next(row.next_run, row.next_at, row.unserved, now)
    if row.unserved:
        return Cell(told, "late")
    if row.next_run and row.next_run.blocked:
        return Cell(told, "waiting")
    if row.is_late(now):
        return Cell(told.replace("late", "LATE"), "late")
    if row.next_at <= now:
        return Cell("now", "running")
    mark = "!" if row.clock_change else ""
    return Cell(told + mark, "late" if mark else "")


def last_cell(row: "TaskRow", now: datetime) -> Cell:
    """What happens, or how it went last and when."""
    run = row.alive[-1] if row.alive else row.last_run
    if run is None:
        return EMPTY
    told = humanize.result(run, now)
    if run.state is RunState.SUCCEEDED:
        told = "ok"
    if run.finished_at:
        told = f"{told} {humanize.ago(run.finished_at, now)}"
    return cell(told, run_standing(run).look)


def owner_cell(row: "TaskRow") -> Cell:
    """The node that runs the task now; elsewhere the one that ran it last, told quietly."""
    if row.alive:
        return cell(row.alive[-1].node, "running")
    return cell(row.last_run.node, "quiet") if row.last_run else EMPTY


_HEIGHTS = {True: "▁▂▃▄▅▆▇", False: "_.-=#"}
"""None fills its line: it would grow into the one above."""
_SPARK_SIGNS = {
    True: {RunState.FAILED: "×", RunState.LOST: "?", RunState.SKIPPED: "·", RunState.CANCELLED: "-"},
    False: {RunState.FAILED: "x", RunState.LOST: "?", RunState.SKIPPED: ",", RunState.CANCELLED: ":"},
}


def spark(recent: "Sequence[RecentRun]", *, unicode: bool) -> Cell:
    """A column a run, as high as it was long beside the longest; what did not end well has a sign."""
    longest = max((run.seconds or 0.0 for run in recent if run.state is RunState.SUCCEEDED), default=0.0)
    heights, signs = _HEIGHTS[unicode], _SPARK_SIGNS[unicode]
    told = "".join(signs.get(run.state) or _height(run.seconds, longest, heights) for run in recent)
    return Cell(told, "quiet")


def _height(seconds: float | None, longest: float, heights: str) -> str:
    share = (seconds or 0.0) / longest if longest > 0 else 0.0
    return heights[min(len(heights) - 1, int(share * len(heights)))]
