"""`list`: the tasks, one row each."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.help import OUTPUT
from dcron.cli.options import Db, Json
from dcron.cli.tables import AlarmCell, TableColumn, print_table
from dcron.cli.task_table import COLUMNS, row
from dcron.cli.warnings import why_idle
from dcron.errors import UsageError
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.services.tasks import TaskView


COMMAND = TableColumn("COMMAND", least=12)


ORDERS = ("name", "next", "last", "state", "schedule")
"""What a list can be sorted by; with `state`, tasks that need attention come first."""


LEFT, OWNER = 4, 7


def command(
    names: Annotated[
        bool, typer.Option("--names", help="Print only the names.", rich_help_panel=OUTPUT)
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only tasks whose last finished run failed or was lost.")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only tasks that are paused.")] = False,
    sort: Annotated[
        str, typer.Option("--sort", metavar="|".join(ORDERS), help="Column to sort by.")
    ] = "name",
    reverse: Annotated[bool, typer.Option("-r", "--reverse", help="Reverse the order.")] = False,
    output: Annotated[
        Literal["wide"] | None,
        typer.Option(
            "-o", "--output", metavar="wide", help="Also show the commands.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List the tasks with their next and last runs.

    \b
    dcron list --sort next
    dcron list --failed -o wide

    NEXT is in the task's own zone. OWNER is the node that runs the task now, else the node of the last run.
    If LEFT is "no agent", OWNER says why no agent can claim the next run.
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
            columns = [*COLUMNS, COMMAND] if output else COLUMNS
            if not print_table(columns, (_row(view, now)[: len(columns)] for view in shown)):
                console.note(_empty(paused=paused, failed=failed))
            elif idle:
                console.note(idle)


def _row(view: "TaskView", now: datetime) -> list[str]:
    """Return the cells of a task with its command, and the reason if no node can claim its next run."""
    cells = [*row(view, now), view.task.command]
    if view.unserved and view.comes_at:
        cells[LEFT] = AlarmCell(humanize.to_next(view.next_run, view.comes_at, view.unserved, now))
        cells[OWNER] = cells[OWNER] if view.alive else AlarmCell(view.unserved)
    return cells


def _empty(*, paused: bool, failed: bool) -> str:
    if failed:
        return "no task's last finished run failed; `dcron dead` lists the dead letters"
    if paused:
        return "no task is paused"
    return "no tasks yet; `dcron add '30 2 * * *' COMMAND` adds one, `dcron import FILE` imports a crontab"
