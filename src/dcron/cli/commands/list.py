"""`list`: the tasks, one row each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dcron.cli import console
from dcron.cli.chosen_tasks import read_selector
from dcron.cli.colours import AlarmCell
from dcron.cli.context import opened_crontab
from dcron.cli.help import OUTPUT
from dcron.cli.options import At, Db, Json, SelectorOption
from dcron.cli.past_crontab import read_past
from dcron.cli.tables import TableColumn, print_table
from dcron.cli.task_table import COLUMNS, row
from dcron.cli.warnings import living_nodes, print_frozen, why_idle
from dcron.errors import UsageError
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.policy.selectors import Selector
    from dcron.services.history import PastCrontab
    from dcron.services.task_rows import TaskRow


COMMAND = TableColumn("COMMAND", least=12)


ORDERS = ("name", "next", "last", "state", "schedule")
"""What a list can be sorted by; with `state`, tasks that need attention come first."""


LEFT, NODE = 4, 7
_EMPTY = {
    "failed": "no task's last finished run failed; `dcron list --dead` shows tasks with older failures",
    "dead": "no task has dead letters",
    "paused": "no task is paused",
    "source": "no task belongs to this source",
    "drifted": "no task was changed by hand since its source was applied",
}


def command(
    selector: SelectorOption = None,
    names: Annotated[
        bool, typer.Option("--names", help="Print only the names.", rich_help_panel=OUTPUT)
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only tasks whose last finished run failed or was lost.")
    ] = False,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only tasks that have dead letters (`dcron dead` lists these).")
    ] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only tasks that are paused.")] = False,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="SOURCE", help="Only tasks of this source, such as shop/cron."),
    ] = None,
    drifted: Annotated[
        bool, typer.Option("--drifted", help="Only tasks changed by hand since their source was applied.")
    ] = False,
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
    at: At = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List the tasks with their next and last runs.

    \b
    dcron list --sort next
    dcron list --failed -o wide
    dcron list -l team=shop
    dcron list --at yesterday

    NEXT is in the task's own zone. NODE is the one that runs the task now, else the one of the last run.
    If LEFT is "no agent", NODE says why no agent can claim the next run.
    """
    from dcron.cli import json_output
    from dcron.policy.ownership import is_drifted
    from dcron.store.search_terms import Term

    chooser = read_selector(selector)
    flags = {"failed": failed, "dead": dead, "paused": paused}
    chosen = {**flags, "source": source is not None, "drifted": drifted}
    if sort not in ORDERS:
        raise UsageError(f"--sort {sort!r}: give {', '.join(ORDERS)}")
    if at and (failed or dead or drifted or source is not None or sort not in ("name", "next", "schedule")):
        raise UsageError("--at shows tasks without their runs; leave out --failed and such, and this --sort")
    with opened_crontab(db) as crontab:
        now = crontab.now()
        if at:
            past = read_past(crontab, at)
            now, views = past.at, _past_rows(past, sort, reverse=reverse, paused=paused, chooser=chooser)
        else:
            terms = [Term(flag) for flag, given in flags.items() if given]
            terms += [Term("label", str(chooser))] if chooser else []
            terms += [] if source is None else [Term("source", source)]
            views = crontab.list_tasks(terms, sort, reverse=reverse)
            if drifted:
                views = (view for view in views if is_drifted(view.task))
        if as_json and names:
            console.emit_list(view.task.name for view in views)
        elif as_json:
            console.emit_list(json_output.task_shape(view, now) for view in views)
        elif names:
            for view in views:
                console.data(view.task.name)
        else:
            idle = None if at else why_idle(living_nodes(crontab))
            shown = (replace(view, unserved=None) if idle else view for view in views)
            columns = [*COLUMNS, COMMAND] if output else COLUMNS
            if not print_table(columns, (_row(view, now)[: len(columns)] for view in shown)):
                console.note("there was no such task then" if at else _empty(chosen, chooser))
            elif idle:
                console.note(idle)
            if not at:
                print_frozen(crontab)


def _past_rows(
    past: "PastCrontab", sort: str, *, reverse: bool, paused: bool, chooser: "Selector | None"
) -> "Iterator[TaskRow]":
    from dcron.services.history import row_at

    chosen = [task for task in past.tasks if chooser is None or chooser.matches(task.labels)]
    rows = [row_at(task, past.at) for task in chosen if not (paused and task.enabled)]
    if sort == "next":
        rows.sort(key=lambda row: (row.next_at is None, row.next_at or past.at))
    elif sort == "schedule":
        rows.sort(key=lambda row: row.task.schedule)
    return iter(rows[::-1] if reverse else rows)


def _row(view: "TaskRow", now: datetime) -> list[str]:
    """Return the cells of a task with its command, and the reason if no node can claim its next run."""
    cells = [*row(view, now), view.task.command]
    if view.unserved and view.next_at:
        cells[LEFT] = AlarmCell(humanize.to_next(view.next_run, view.next_at, view.unserved, now))
        cells[NODE] = cells[NODE] if view.alive else AlarmCell(view.unserved)
    return cells


def _empty(flags: Mapping[str, bool], chooser: "Selector | None") -> str:
    given = [flag for flag, is_given in flags.items() if is_given]
    if chooser:
        return f"no task matches {' '.join([f'-l {chooser}', *(f'--{flag}' for flag in given)])}"
    if len(given) > 1:
        return f"no task matches {' '.join(f'--{flag}' for flag in given)}"
    if given:
        return _EMPTY[given[0]]
    return "no tasks yet; `dcron add '30 2 * * *' COMMAND` adds one, `dcron import FILE` imports a crontab"
