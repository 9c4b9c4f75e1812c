"""`runs`: list runs."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import islice
from typing import Annotated

from dcron import services
from dcron.cli.asking.options import (
    Db,
    Json,
    OptionalNames,
    SelectorOption,
    option,
    run_number,
    whole_number,
)
from dcron.cli.asking.which import tasks_to_read
from dcron.cli.output import console, json_output
from dcron.cli.output.run_table import PAGE, pages, run_columns, run_row
from dcron.cli.output.tables import print_table
from dcron.cli.output.times import past_time
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import UsageError
from dcron.model import Run, RunState
from dcron.schedule.zones import zone
from dcron.values.lists import RunFilter


def command(
    names: OptionalNames = None,
    selector: SelectorOption = None,
    state: Annotated[
        list[str] | None,
        option("--state", "STATE", f"Only runs in these states: {', '.join(RunState)}; repeatable."),
    ] = None,
    since: Annotated[
        str | None,
        option("--since", "TIME", "Only runs since this time: 2h (ago), today, '2027-01-01 09:00'."),
    ] = None,
    flow: Annotated[
        int | None,
        option(
            "--flow",
            "ID",
            "Only runs of this flow; its id is that of the run that started it.",
            parser=run_number,
        ),
    ] = None,
    count: Annotated[int, option("-n", "--count", "N", "Most runs to list.", parser=whole_number(1))] = 20,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List runs: waiting, active and past ones. The newest come first.

    \b
    dcron runs backup -n 50 --state failed,lost
    dcron runs backup report 'shop-*' --since 2h
    dcron runs -l team=shop
    dcron runs --flow 41

    TRIGGER is the cause of the run: `retry 2/3` is the second attempt of three, `flow 41` is part of a flow
    that run 41 started.
    """
    states = _states(state or [])
    with opened_crontab(db) as crontab:
        now = crontab.now()
        name, chooser = tasks_to_read(crontab, names, selector)
        task_id = crontab.task_id(name) if name is not None else None
        since_at = past_time(since, zone(own_zone()), now) if since else None
        if flow is not None:
            crontab.require_flow(flow)
        found = pages(crontab, RunFilter(task_id, states, since_at, flow=flow, selector=chooser), count)
        if as_json:
            console.emit_list(json_output.run_shape(each, now) for each in found)
        elif not _print_runs(crontab, found, now):
            is_filtered = name or chooser or states or since or flow is not None
            console.note("no such runs" if is_filtered else "no runs yet")


def _states(names: Sequence[str]) -> list[RunState] | None:
    states = [name for text in names for name in text.split(",")]
    for name in states:
        if name not in list(RunState):
            raise UsageError(f"--state {name!r}: give {', '.join(RunState)}")
    return [RunState(name) for name in states] or None


def _print_runs(crontab: "services.crontab.Crontab", found: Iterator[Run], now: datetime) -> int:
    here = zone(own_zone())
    return print_table(run_columns(here), _rows(crontab, found, here, now))


def _rows(
    crontab: "services.crontab.Crontab", found: Iterator[Run], here: tzinfo, now: datetime
) -> Iterator[list[str]]:
    """Yield the rows. The attempts that a retried task allows are looked up a page at a time."""
    while page := list(islice(found, PAGE)):
        again = {run.task_id for run in page if run.attempt > 1}
        tries = {task.id: task.tries for task in crontab.tasks_by_id(again).values()} if again else {}
        yield from (run_row(run, here, now, tries.get(run.task_id)) for run in page)
