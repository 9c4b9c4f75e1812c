"""`run`: start tasks now."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from dcron import services
from dcron.cli.asking import which
from dcron.cli.asking.options import (
    Db,
    Json,
    OptionalWholeNames,
    Payload,
    SelectorOption,
    flag,
    option,
    run_number,
    takes,
)
from dcron.cli.asking.task_options import (
    TRIAL,
    TaskOptions,
    TrialOptions,
    added,
    command_text,
    named,
)
from dcron.cli.asking.warnings import print_idle_agents
from dcron.cli.output import console, json_output
from dcron.cli.output.run_output import JsonOutput, output_here
from dcron.cli.running.context import opened_crontab
from dcron.cli.running.waiting import Waiting, exit_code
from dcron.errors import ExitCode, UsageError
from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.values.lists import RunFilter
from dcron.values.quantities import parse_duration
from dcron.values.text_input import text_or_file


@takes(TrialOptions)
def command(
    names: OptionalWholeNames = None,
    selector: SelectorOption = None,
    payload: Payload = None,
    wait: Annotated[
        bool, flag("--wait", "Wait for the last attempt to end, and exit with the command's code.")
    ] = False,
    follow: Annotated[bool, flag("--follow", "Wait, and print the output as it is written.")] = False,
    wait_timeout: Annotated[
        str | None, option("--wait-timeout", "30m", "Longest time to wait; then exit code 124.")
    ] = None,
    with_line: Annotated[
        str | None,
        option(
            "--with",
            "LINE",
            "Try this command in place of the task's; or words: --with -- COMMAND...",
            panel=TRIAL,
        ),
    ] = None,
    with_words: Annotated[
        list[str] | None, flag("--with-word", "A word behind --with --.", hidden=True)
    ] = None,
    time_limit: Annotated[
        str | None, option("--time-limit", "30m", "Longest runtime of the trial.", panel=TRIAL)
    ] = None,
    like: Annotated[
        int | None,
        option(
            "--like",
            "RUN",
            "Repeat exactly what this run executed, in place of NAME.",
            parser=run_number,
            panel=TRIAL,
        ),
    ] = None,
    node: Annotated[
        str | None, option("--node", "NODE", "Only node that may take the trial.", panel=TRIAL)
    ] = None,
    as_json: Json = False,
    db: Db = None,
    *,
    options: TaskOptions,
) -> None:
    """Run tasks now; --wait and --follow stay until the end.

    \b
    dcron run backup --wait --wait-timeout 2h
    dcron run backup --with 'pg_dump -j8 shop' -e DEBUG=1 --node web-3 --wait
    dcron run --like 8123 --follow
    dcron run -l team=shop

    Paused tasks run, too. --wait and --follow print why a run has not started. Ctrl-C and
    --wait-timeout stop the waiting, not the run.

    An option for trials runs a changed task once: the task stays as it is, and its alerts, statistics,
    retries and `@after` tasks take no notice. `dcron set NAME --from-run RUN` saves what was tried.
    """
    text = text_or_file(payload, "--payload") if payload is not None else None
    seconds = named("wait-timeout", parse_duration, wait_timeout) if wait_timeout is not None else None
    if seconds is not None and not (wait or follow):
        raise UsageError("--wait-timeout needs --wait or --follow")
    changed = _tried(with_line, with_words or [], time_limit, options)
    chooser = which.read_selector(selector, names) or which.patterns_in(names)
    if chooser and (like is not None or changed or node is not None):
        raise UsageError("a trial is of one task; give its name instead of -l")
    with opened_crontab(db) as crontab:
        chosen = which.to_change(crontab, "run", (), chooser)
        if chooser:
            made, chosen.left = crontab.run_chosen(chosen.tasks, text)
        elif like is not None:
            if names or changed or text is not None:
                raise UsageError("--like repeats a run as it was: give only --node with it")
            console.agree(f"repeat run {like}", asks=False)
            made = [_trials(crontab).repeat(like, node=node)]
        elif not names:
            raise UsageError(
                "missing argument 'NAME...'; -l chooses tasks by labels, --like RUN repeats a run"
            )
        elif changed or node is not None:
            made = [_try(crontab, names, changed, text, node)]
        else:
            made = crontab.run_all(which.named_tasks(crontab, "run", names), text)
        print_idle_agents(crontab)
        if made and (wait or follow):
            raise typer.Exit(_wait(crontab, made, seconds, follow=follow, as_json=as_json))
        if as_json:
            now = crontab.now()
            shapes = [json_output.run_shape(run, now) for run in made]
            console.emit_one_or_list(shapes, as_list=chosen.is_list)
        else:
            for run in made:
                console.data(f"run {run.id} of {run.task} is due; `dcron logs -f {run.id}` follows it")
        chosen.report_left(crontab)


def _tried(
    line: str | None, words: Sequence[str], time_limit: str | None, options: TaskOptions
) -> dict[str, Any]:
    """Return the fields that a trial changes. Raises UsageError."""
    changed = options.values("UTC")
    if words:
        changed["command"], changed["argv"] = command_text(words)
    elif line is not None:
        changed |= {"command": line, "argv": None}
    if time_limit is not None:
        changed["timeout"] = named("time-limit", parse_duration, time_limit)
    return changed


def _trials(crontab: "services.crontab.Crontab") -> "services.runs.trials.Trials":
    return services.runs.trials.Trials(crontab)


def _try(
    crontab: "services.crontab.Crontab",
    names: Sequence[str],
    changed: dict[str, Any],
    payload: str | None,
    node: str | None,
) -> Run:
    """Make a trial of the one task that was named."""
    if len(names) > 1:
        raise UsageError("a trial is of one task; give one name")
    (task,) = which.named_tasks(crontab, "try", names)
    if crontab.runs(RunFilter(task.id, [RunState.CLAIMED, RunState.RUNNING]), 1):
        console.note(f"{task.name} is running now; the trial runs beside it")
    return _trials(crontab).run_changed(task, added(changed, task), payload=payload, node=node)


def _wait(
    crontab: "services.crontab.Crontab",
    made: Sequence[Run],
    seconds: float | None,
    *,
    follow: bool,
    as_json: bool,
) -> int:
    """Wait until these runs have ended, print their results, and return the exit code."""
    if not as_json and console.is_terminal():
        due = ", ".join(f"run {run.id} of {run.task}" for run in made)
        console.note(f"due: {due}; Ctrl-C stops the waiting, not the run")
    output = (JsonOutput if as_json else output_here) if follow else None
    waiting = Waiting(crontab, made, new_output=output)
    in_time = waiting.wait(seconds)
    now, runs_of_nodes = crontab.now(), [run for each in waiting.ends for run in each]
    if as_json:
        shapes = [json_output.run_shape(_worst(each), now) for each in waiting.ends]
        if follow:
            for shape in shapes:
                console.emit_line(shape)
        else:
            console.emit_one_or_list(shapes)
    for run in runs_of_nodes:
        if not run.state.is_final:
            console.note(
                f"run {run.id} of {run.task} is still {run.state.value} and continues;"
                f" `dcron cancel {run.id}` cancels it"
            )
        elif not as_json:
            _print_result(run, now, on_stderr=follow)
    return exit_code(_worst(runs_of_nodes)) if in_time else ExitCode.TIMED_OUT


def _worst(runs: Sequence[Run]) -> Run:
    """Return the first run that did not succeed, else the first."""
    return next((run for run in runs if exit_code(run)), runs[0])


def _print_result(run: Run, now: datetime, *, on_stderr: bool) -> None:
    """Print how the run ended: on stderr where stdout has its output."""
    where = f" on {run.node}" if run.node else ""
    reason = f": {run.reason}" if run.reason and run.state is not RunState.SUCCEEDED else ""
    duration = run.duration(now)
    after = f" after {humanize.took(duration)}" if duration is not None else ""
    text = f"run {run.id} of {run.task} {run.state.value}{where}{after}{reason}"
    if on_stderr:
        console.note(text)
    else:
        console.data(text)
