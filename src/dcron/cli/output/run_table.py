"""The table of runs, for `runs` and `demo`, and runs read page by page."""

from collections.abc import Iterator
from datetime import datetime, tzinfo

from dcron import services
from dcron.cli.output.tables import TableColumn, state_cell
from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.presentation.humanize import WAITS_FOR
from dcron.values.lists import RunFilter

PAGE = 500
"""Runs that one query reads."""


def pages(crontab: "services.crontab.Crontab", matching: RunFilter, count: int) -> Iterator[Run]:
    """Yield the newest `count` runs that match, read a page at a time."""
    from dataclasses import replace

    while count > 0:
        page = crontab.runs(matching, min(count, PAGE))
        yield from page
        if len(page) < min(count, PAGE):
            return
        count -= len(page)
        matching = replace(matching, before_id=page[-1].id)


def run_columns(here: tzinfo) -> list[TableColumn]:
    """Return the columns of the table; times are in one zone."""
    return [
        TableColumn("RUN", right=True),
        TableColumn("TASK", least=10),
        TableColumn("STATE"),
        TableColumn("TRIGGER", spare=True),
        TableColumn(f"FOR ({here})", least=15),
        TableColumn("TOOK", right=True),
        TableColumn("NODE", least=6, spare=True),
        TableColumn("REASON", least=8),
    ]


def run_row(run: Run, here: tzinfo, now: datetime, tries: int | None = None) -> list[str]:
    """Return the cells of a run; `tries` is how many attempts its task allows."""
    duration = run.duration(now)
    return [
        str(run.id),
        run.task,
        state_cell(run.state.value, run.state),
        _trigger(run, tries),
        humanize.clock(run.due_at if run.state is RunState.WAITING else run.scheduled_for, here, now),
        humanize.took(duration) if duration is not None else "",
        run.node or "",
        run.reason or _holds_up(run, here, now),
    ]


def _holds_up(run: Run, here: tzinfo, now: datetime) -> str:
    if run.is_unheard:
        return humanize.not_heard_of(run, here, now)
    return WAITS_FOR[run.blocked] if run.blocked else humanize.refusals(run)


def _trigger(run: Run, tries: int | None) -> str:
    text = humanize.attempt(run, tries)
    return text if run.flow is None else f"{text}, flow {run.flow}"
