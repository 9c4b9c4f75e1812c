"""`run`: start tasks now."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import all_to_change
from dcron.cli.options import Db, Json, WholeNames
from dcron.cli.task_options import named
from dcron.cli.waiting import Waiting, exit_code
from dcron.cli.warnings import mention_idleness
from dcron.errors import ExitCode, UsageError
from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.quantities import parse_duration
from dcron.text_input import text_or_file

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab


def command(
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
