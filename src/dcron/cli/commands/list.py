"""`list`: the tasks, one row each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from dcron import policy, services
from dcron.cli.asking.options import At, Db, Json, OptionalNames, SelectorOption, flag, option
from dcron.cli.asking.warnings import living_nodes, print_frozen, why_idle
from dcron.cli.asking.which import read_selector
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.output.task_table import COLUMNS, row
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.help import OUTPUT
from dcron.cli.running.past_crontab import read_past
from dcron.errors import UsageError
from dcron.presentation import humanize
from dcron.values.lists import Term

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
    chosen: OptionalNames = None,
    selector: SelectorOption = None,
    names: Annotated[bool, flag("--names", "Print only the names.", panel=OUTPUT)] = False,
    failed: Annotated[
        bool, flag("--failed", "Only tasks whose last finished run failed or was lost.")
    ] = False,
    dead: Annotated[
        bool, flag("--dead", "Only tasks that have dead letters (`dcron dead` lists these).")
    ] = False,
    paused: Annotated[bool, flag("--paused", "Only tasks that are paused.")] = False,
    source: Annotated[
        str | None, option("--source", "SOURCE", "Only tasks of this source, such as shop/cron.")
    ] = None,
    drifted: Annotated[
        bool, flag("--drifted", "Only tasks changed by hand since their source was applied.")
    ] = False,
    sort: Annotated[str, option("--sort", "|".join(ORDERS), "Column to sort by.")] = "name",
    reverse: Annotated[bool, flag("-r", "--reverse", "Reverse the order.")] = False,
    at: At = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List the tasks: next runs, last results.

    \b
    dcron list --sort next
    dcron list --failed -o wide
    dcron list 'shop-*' backup
    dcron list -l team=shop
    dcron list --at yesterday

    NEXT is in the task's own zone. NODE is the one that runs the task now, else the one of the last run.
    If LEFT is "no agent", NODE says why no agent can claim the next run.
    """
    from dcron.store.tasks.search_terms import term_of

    flags = {"failed": failed, "dead": dead, "paused": paused}
    flagged = {**flags, "source": source is not None, "drifted": drifted}
    if sort not in ORDERS:
        raise UsageError(f"--sort {sort!r}: give {', '.join(ORDERS)}")
    if at and (failed or dead or drifted or source is not None or sort not in ("name", "next", "schedule")):
        raise UsageError("--at shows tasks without their runs; leave out --failed and such, and this --sort")
    with opened_crontab(db) as crontab:
        now = crontab.now()
        chooser = read_selector(selector, chosen)
        if chosen:
            chooser = crontab.named(chosen, removed=at is not None)
        if at:
            past = read_past(crontab, at)
            now, views = past.at, _past_rows(past, sort, reverse=reverse, paused=paused, chooser=chooser)
        else:
            terms = [Term(flag) for flag, given in flags.items() if given]
            terms += [term_of(chooser)] if chooser else []
            terms += [] if source is None else [Term("source", source)]
            views = crontab.list_tasks(terms, sort, reverse=reverse)
            if drifted:
                views = (view for view in views if policy.ownership.is_drifted(view.task))
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
            columns = [*COLUMNS, COMMAND] if console.form == "wide" else COLUMNS
            if not print_table(columns, (_row(view, now)[: len(columns)] for view in shown)):
                console.note("there was no such task then" if at else _empty(flagged, chooser))
            elif idle:
                console.note(idle)
            if not at:
                print_frozen(crontab)


def _past_rows(
    past: "services.history.PastCrontab",
    sort: str,
    *,
    reverse: bool,
    paused: bool,
    chooser: "policy.selectors.Selector | None",
) -> "Iterator[services.tasks.rows.TaskRow]":
    chosen = [task for task in past.tasks if chooser is None or chooser.chooses(task.name, task.labels)]
    rows = [services.history.row_at(task, past.at) for task in chosen if not (paused and task.enabled)]
    if sort == "next":
        rows.sort(key=lambda row: (row.next_at is None, row.next_at or past.at))
    elif sort == "schedule":
        rows.sort(key=lambda row: row.task.schedule)
    return iter(rows[::-1] if reverse else rows)


def _row(view: "services.tasks.rows.TaskRow", now: datetime) -> list[str]:
    """Return the cells of a task with its command, and the reason if no node can claim its next run."""
    cells = [*row(view, now), view.task.command]
    if view.unserved and view.next_at:
        cells[LEFT] = AlarmCell(humanize.to_next(view.next_run, view.next_at, view.unserved, now))
        cells[NODE] = cells[NODE] if view.alive else AlarmCell(view.unserved)
    return cells


def _empty(flags: Mapping[str, bool], chooser: "policy.selectors.Selector | None") -> str:
    given = [flag for flag, is_given in flags.items() if is_given]
    if chooser:
        return f"no task matches {' '.join([chooser.typed, *(f'--{flag}' for flag in given)])}"
    if len(given) > 1:
        return f"no task matches {' '.join(f'--{flag}' for flag in given)}"
    if given:
        return _EMPTY[given[0]]
    return "no tasks yet; `dcron add '30 2 * * *' COMMAND` adds one, `dcron import FILE` imports a crontab"
