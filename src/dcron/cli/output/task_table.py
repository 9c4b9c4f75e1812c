"""The table of tasks, for `list` and `demo`."""

from datetime import UTC, datetime

from dcron import services
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, state_cell
from dcron.errors import ZoneError
from dcron.model import Run
from dcron.presentation import humanize
from dcron.schedule.zones import zone

COLUMNS = [
    TableColumn("NAME", least=10),
    TableColumn("SCHEDULE", least=9, spare=True),
    TableColumn("TZ", least=7, keep_end=True, spare=True),
    TableColumn("NEXT"),
    TableColumn("LEFT", right=True),
    TableColumn("LAST", right=True, spare=True),
    TableColumn("RESULT"),
    TableColumn("NODE", least=5),
]


def row(view: "services.tasks.rows.TaskRow", now: datetime) -> list[str]:
    """Return the cells of a task, whether or not an agent can run it."""
    task, latest = view.task, view.alive[-1] if view.alive else view.last_run
    return [
        task.name,
        task.schedule,
        task.timezone,
        _next(view, now),
        _left(view, now),
        humanize.ago(latest.started_at, now) if latest and latest.started_at else "",
        _result(latest, now) if latest else "",
        (latest.node or "") if latest else "",
    ]


def _left(view: "services.tasks.rows.TaskRow", now: datetime) -> str:
    text = humanize.to_next(view.next_run, view.next_at, None, now, view.frozen)
    return AlarmCell(text) if view.is_late(now) else text


def _next(view: "services.tasks.rows.TaskRow", now: datetime) -> str:
    due = view.next_at
    if due is None:
        return "paused" if not view.task.enabled else AlarmCell("suspended") if view.task.error else ""
    try:
        return humanize.clock(due, zone(view.task.timezone), now)
    except ZoneError:  # this machine's tz database does not have it
        return humanize.clock(due, UTC, now) + "Z"


def _result(run: Run, now: datetime) -> str:
    return state_cell(humanize.result(run, now), run.state)
