"""`list`: the tasks, a line each."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.idleness import why_idle
from dcron.cli.options import Db, Json
from dcron.cli.tables import AlarmCell, TableColumn, print_table
from dcron.errors import UsageError
from dcron.model import Run, RunState
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.services.tasks import TaskView

TASKS = [
    TableColumn("NAME", least=10),
    TableColumn("SCHEDULE", least=9, spare=True),
    TableColumn("TZ", least=7, keep_end=True, spare=True),
    TableColumn("NEXT"),
    TableColumn("LEFT", right=True),
    TableColumn("LAST", right=True, spare=True),
    TableColumn("RESULT"),
    TableColumn("OWNER", least=5),
]
COMMAND = TableColumn("COMMAND", least=12)
ORDERS = ("name", "next", "last", "state", "schedule")
"""What a list can be sorted by; `state` has first what wants attention."""
LEFT, OWNER = 4, 7
UNHAPPY = (RunState.FAILED, RunState.LOST)


def list_tasks(
    names: Annotated[bool, typer.Option("--names", help="Print the names alone.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only tasks whose last run to end failed or was lost.")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only tasks that are paused.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", metavar="|".join(ORDERS), help="By which column; else by name.")
    ] = "name",
    reverse: Annotated[bool, typer.Option("-r", "--reverse", help="The last ones first.")] = False,
    output: Annotated[
        Literal["wide"] | None,
        typer.Option("-o", "--output", metavar="wide", help="Show the commands, too."),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List the tasks, when each runs next and how it went last.

    NEXT is in the task's own zone. OWNER is the node that runs it now, else the one that ran it last; where
    LEFT says "no agent", why none can take its next run.

    \b
    dcron list --sort next
    dcron list --failed -o wide
    """
    from dcron.cli import json_output

    if sort not in ORDERS:
        raise UsageError(f"--sort {sort!r}: give {', '.join(ORDERS)}")
    with opened_crontab(db) as crontab:
        now = crontab.now()
        views = crontab.views(paused=paused, failed=failed, order=sort, reverse=reverse)
        if as_json and names:
            console.emit_list(view.task.name for view in views)
        elif as_json:
            console.emit_list(json_output.task_shape(view, now) for view in views)
        elif names:
            for view in views:
                console.data(view.task.name)
        else:
            idle = why_idle(crontab)
            shown = (replace(view, unserved=None) if idle else view for view in views)
            columns = [*TASKS, COMMAND] if output else TASKS
            if not print_table(columns, (_row(view, now)[: len(columns)] for view in shown)):
                console.note(_nothing(paused=paused, failed=failed))
            elif idle:
                console.note(idle)


def row(view: "TaskView", now: datetime) -> list[str]:
    """A task as TASKS shows it, whoever may be there to run it."""
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


def _row(view: "TaskView", now: datetime) -> list[str]:
    """The same with its command; and where no node can take its next run, why."""
    cells = [*row(view, now), view.task.command]
    if view.unserved and view.comes_at:
        cells[LEFT] = AlarmCell(humanize.to_next(view.next_run, view.comes_at, view.unserved, now))
        cells[OWNER] = cells[OWNER] if view.alive else AlarmCell(view.unserved)
    return cells


def _left(view: "TaskView", now: datetime) -> str:
    told = humanize.to_next(view.next_run, view.comes_at, None, now)
    return AlarmCell(told) if told.startswith("late") else told


def _next(view: "TaskView", now: datetime) -> str:
    from dcron.errors import ZoneError
    from dcron.schedule import zone

    due = view.comes_at
    if due is None:
        return "paused" if not view.task.enabled else AlarmCell("suspended") if view.task.error else ""
    try:
        return humanize.clock(due, zone(view.task.timezone), now)
    except ZoneError:  # this machine's tz database does not have it
        return humanize.clock(due, UTC, now) + "Z"


def _result(run: Run, now: datetime) -> str:
    told = humanize.result(run, now)
    return AlarmCell(told) if run.state in UNHAPPY else told


def _nothing(*, paused: bool, failed: bool) -> str:
    if failed:
        return "no task's last run to end has failed; `dcron dead` lists the dead letters"
    if paused:
        return "no task is paused"
    return "no tasks yet; `dcron add '30 2 * * *' COMMAND` adds one, `dcron import FILE` a crontab"
