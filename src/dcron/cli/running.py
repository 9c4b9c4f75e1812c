"""`run`, `runs` and `cancel`: turns of tasks."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.idleness import mention_idleness
from dcron.cli.name_arguments import all_to_change
from dcron.cli.one_run import show_run
from dcron.cli.options import Db, Force, Json, MaybeName, RunIds, WholeNames, run_number
from dcron.cli.tables import AlarmCell, TableColumn, print_table
from dcron.cli.task_options import named
from dcron.cli.waiting import Waiting, exit_code
from dcron.errors import ExitCode, Refused, UsageError
from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.presentation.humanize import HELD
from dcron.quantities import parse_duration
from dcron.text_input import text_or_file

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.store.runs import RunFilter

PAGE = 500


def run(
    names: WholeNames,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="TEXT|@FILE", help="What the command gets on stdin and in $DCRON_PAYLOAD."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of its last attempt; exit as the command did.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait, and print what it writes as it comes.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="30m", help="Wait no longer than this; then exit with 124."),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Run tasks now, on whichever node is free. Paused ones too.

    While it waits it says what for. Ctrl-C and --timeout end the waiting, not the run.

    \b
    dcron run backup --wait --timeout 2h
    dcron run backup --follow
    """
    from dcron.cli import json_output

    text = text_or_file(payload, "--payload") if payload is not None else None
    seconds = named("timeout", parse_duration, timeout) if timeout is not None else None
    if seconds is not None and not (wait or follow):
        raise UsageError("--timeout bounds the waiting; give --wait or --follow with it")
    with opened_crontab(db) as crontab:
        made = crontab.run_all(all_to_change(crontab, "run", names), text)
        mention_idleness(crontab)
        if wait or follow:
            raise typer.Exit(_wait(crontab, made, seconds, follow=follow, as_json=as_json))
        if as_json:
            now = crontab.now()
            console.emit_one_or_list([json_output.run_shape(run, now) for run in made])
            return
        for run in made:
            console.data(f"run {run.id} of {run.task} is due; `dcron logs -f {run.id}` follows it")


def runs(
    name: MaybeName = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help=f"Only these: {', '.join(RunState)}; repeatable."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only runs since then: 2h, today, '2027-01-01 09:00'…"),
    ] = None,
    flow: Annotated[
        int | None,
        typer.Option(
            "--flow",
            metavar="ID",
            help="Only this flow: the run it began with, and what came after.",
            parser=run_number,
        ),
    ] = None,
    run_id: Annotated[
        int | None,
        typer.Option("--id", metavar="RUN", help="Show this run whole.", parser=run_number),
    ] = None,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", help="How many at most.", min=1)] = 20,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List runs, the newest first: those to come, under way and past.

    TRIGGER tells why there is a run: `retry 2/3` is the second attempt of three, `flow 41` names what it is
    part of.

    \b
    dcron runs backup -n 50 --state failed,lost
    dcron runs --flow 41
    dcron runs --id 1307
    """
    from dcron.cli import json_output
    from dcron.schedule import zone
    from dcron.store.runs import RunFilter

    states = _states(state or [])
    if run_id is not None and (name or states or since or flow is not None):
        raise UsageError("--id is one run; leave the other options out")
    with opened_crontab(db) as crontab:
        if run_id is not None:
            show_run(crontab, run_id, as_json=as_json)
            return
        now = crontab.now()
        task_id = crontab.task_id(name) if name is not None else None
        moment = past_time(since, zone(own_zone()), now) if since else None
        if flow is not None:
            crontab.require_flow(flow)
        found = pages(crontab, RunFilter(task_id, states, moment, flow=flow), count)
        if as_json:
            console.emit_list(json_output.run_shape(each, now) for each in found)
        elif not _print_runs(crontab, found, now):
            asked = name or states or since or flow is not None
            console.note("no such runs" if asked else "nothing has run yet, and nothing is due")


def cancel(run_ids: RunIds, force: Force = False, as_json: Json = False, db: Db = None) -> None:
    """Cancel runs. One that waits ends at once; one that runs is stopped by its node.

    All are looked up before anything is done.
    """
    from dcron.cli import json_output

    with opened_crontab(db) as crontab:
        found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
        if len(found) > 1 and (over := next((run for run in found if run.state.is_final), None)):
            raise Refused(f"run {over.id} of {over.task} is over: {over.state}; nothing was cancelled")
        if alive := [run for run in found if run.state in (RunState.CLAIMED, RunState.RUNNING)]:
            console.require_consent(f"stop {', '.join(map(_where, alive))}", force=force)
        cancelled = [crontab.cancel(run.id) for run in found]
        if as_json:
            now = crontab.now()
            console.emit_one_or_list([json_output.run_shape(run, now) for run in cancelled])
            return
        for run in cancelled:
            told = "" if run.state.is_final else f": {run.node} has been asked to stop it"
            console.data(f"{'cancelling' if told else 'cancelled'}  run {run.id} of {run.task}{told}")


def _where(run: Run) -> str:
    does = "running" if run.state is RunState.RUNNING else "about to start"
    return f"run {run.id} of {run.task}, {does} on {run.node}"


def _wait(
    crontab: "Crontab", made: Sequence[Run], seconds: float | None, *, follow: bool, as_json: bool
) -> int:
    """Wait for the ends of these runs, print them, and return the exit code."""
    from dcron.cli import json_output
    from dcron.cli.run_output import JsonOutput, output_here

    if not as_json and console.is_terminal():
        due = ", ".join(f"run {run.id} of {run.task}" for run in made)
        console.note(f"due: {due}; Ctrl-C stops the waiting, not the run")
    output = (JsonOutput if as_json else output_here) if follow else None
    waiting = Waiting(crontab, made, new_output=output)
    in_time = waiting.wait(seconds)
    now, runs_of_nodes = crontab.now(), [run for each in waiting.ends for run in each]
    if as_json:
        told = [json_output.run_shape(_worst(each), now) for each in waiting.ends]
        if follow:
            for shape in told:
                console.emit_line(shape)
        else:
            console.emit_one_or_list(told)
    for run in runs_of_nodes:
        if not run.state.is_final:
            console.note(
                f"run {run.id} of {run.task} is {run.state.value} still, and goes on;"
                f" `dcron cancel {run.id}` ends it"
            )
        elif not as_json:
            _say_end(run, now, aside=follow)
    return exit_code(_worst(runs_of_nodes)) if in_time else ExitCode.TIMED_OUT


def _worst(runs: Sequence[Run]) -> Run:
    """The first of the runs that did not succeed, else the first."""
    return next((run for run in runs if exit_code(run)), runs[0])


def _say_end(run: Run, now: datetime, *, aside: bool) -> None:
    """Print how the run ended; `aside` where stdout has its output."""
    where = f" on {run.node}" if run.node else ""
    reason = f": {run.reason}" if run.reason and run.state is not RunState.SUCCEEDED else ""
    duration = run.duration(now)
    after = f" after {humanize.took(duration)}" if duration is not None else ""
    told = f"run {run.id} of {run.task} {run.state.value}{where}{after}{reason}"
    if aside:
        console.note(told)
    else:
        console.data(told)


def _states(names: Sequence[str]) -> list[RunState] | None:
    wanted = [name for text in names for name in text.split(",")]
    for name in wanted:
        if name not in list(RunState):
            raise UsageError(f"--state {name!r}: give {', '.join(RunState)}")
    return [RunState(name) for name in wanted] or None


def past_time(text: str, here: Any, now: datetime) -> datetime:
    """A time that is past, in the zone `here`: `2h` and `2h ago` count back from now."""
    from dcron.schedule import parse_duration, parse_time

    if re.fullmatch(r"\s*[0-9.wdhms]+(\s+ago)?\s*", text):
        return now - timedelta(seconds=parse_duration(text.strip().removesuffix("ago").strip()))
    if re.fullmatch(r"\s*\d{1,2}:\d{2}(:\d{2})?\s*", text):
        moment = parse_time(f"today {text.strip()}", here, now)
        return moment if moment <= now else moment - timedelta(days=1)
    return parse_time(text, here, now)


def pages(crontab: "Crontab", wanted: "RunFilter", count: int) -> Iterator[Run]:
    """The newest `count` runs, read a page at a time."""
    from dataclasses import replace

    while count > 0:
        page = crontab.runs(wanted, min(count, PAGE))
        yield from page
        if len(page) < min(count, PAGE):
            return
        count -= len(page)
        wanted = replace(wanted, before_id=page[-1].id)


def _print_runs(crontab: "Crontab", found: Iterator[Run], now: datetime) -> int:
    from dcron.schedule import zone

    here = zone(own_zone())
    return print_table(run_columns(here), _rows(crontab, found, here, now))


def _rows(crontab: "Crontab", found: Iterator[Run], here: tzinfo, now: datetime) -> Iterator[list[str]]:
    """The rows, and for retries how many attempts their tasks have; looked up a page at a time."""
    while page := list(islice(found, PAGE)):
        again = {run.task_id for run in page if run.attempt > 1}
        tries = {task.id: task.tries for task in crontab.lines(again).values()} if again else {}
        yield from (run_row(run, here, now, tries.get(run.task_id)) for run in page)


def run_columns(here: tzinfo) -> list[TableColumn]:
    """The table of runs, its times in one zone."""
    return [
        TableColumn("RUN", right=True),
        TableColumn("TASK", least=10),
        TableColumn("STATE"),
        TableColumn("TRIGGER", spare=True),
        TableColumn(f"DUE ({here})", least=15),
        TableColumn("TOOK", right=True),
        TableColumn("NODE", least=6, spare=True),
        TableColumn("REASON", least=8),
    ]


def run_row(run: Run, here: tzinfo, now: datetime, tries: int | None = None) -> list[str]:
    """A run as this table shows it; `tries` is how many attempts its task has."""
    duration = run.duration(now)
    return [
        str(run.id),
        run.task,
        AlarmCell(run.state.value) if run.state in (RunState.FAILED, RunState.LOST) else run.state.value,
        _trigger(run, tries),
        humanize.clock(run.due_at if run.state is RunState.WAITING else run.scheduled_for, here, now),
        humanize.took(duration) if duration is not None else "",
        run.node or "",
        run.reason or (HELD[run.blocked] if run.blocked else humanize.refusals(run)),
    ]


def _trigger(run: Run, tries: int | None) -> str:
    told = run.trigger.value
    if run.attempt > 1:
        told += f" {run.attempt}/{tries}" if tries and run.attempt <= tries else f" {run.attempt}"
    return told if run.flow is None else f"{told}, flow {run.flow}"
