"""`cancel`: end runs."""

from collections.abc import Sequence
from itertools import chain
from typing import Annotated

from dcron import policy, services
from dcron.cli.asking.options import Db, Json, RunsOrNames, SelectorOption, flag, option, runs_or_names
from dcron.cli.asking.which import (
    MOST_RUNS,
    agree_to_runs,
    each_run,
    named_runs,
    named_tasks,
    read_selector,
    report_left,
    with_patterns,
)
from dcron.cli.output import console, json_output
from dcron.cli.running.context import opened_crontab
from dcron.errors import DcronError, Refused, UsageError
from dcron.model import Run, RunState, Task
from dcron.presentation import humanize
from dcron.values.lists import RunFilter, WaitingRuns

_ACTIVE = (RunState.CLAIMED, RunState.RUNNING)


def command(
    which: RunsOrNames = None,
    selector: SelectorOption = None,
    batch: Annotated[str | None, option("--batch", "ID", "Cancel the waiting runs of this backfill.")] = None,
    active: Annotated[bool, flag("--active", "With NAME: stop its active runs, too.")] = False,
    lost: Annotated[bool, flag("--lost", "Give up runs that no node has heard of.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Stop runs; `retry` runs failed ones again.

    \b
    dcron cancel 1307
    dcron cancel -y 1307 1311
    dcron cancel backup
    dcron cancel -l team=shop

    A waiting run ends at once. A run that has started is stopped by its node. All runs are looked up before
    the first is cancelled. NAME cancels the waiting runs of the task, but not its next scheduled one. -l
    cancels the runs of tasks with these labels that are due or have started. --lost is for runs whose node
    is dead: if their commands still run, others may run beside them.
    """
    if bool(which) + (selector is not None) + (batch is not None) != 1:
        raise UsageError(
            "give the numbers of runs, names of tasks, -l with labels (-l team=shop), or --batch ID"
        )
    chooser = read_selector(selector)
    run_ids, names = runs_or_names(which or [])
    if active and not names:
        raise UsageError("--active: give the name of a task; numbers and -l stop active runs anyway")
    if lost and not run_ids:
        raise UsageError("--lost: give the numbers of the runs; `dcron runs` shows which are unheard")
    with opened_crontab(db) as crontab:
        left: dict[str, DcronError] = {}
        if lost:
            cancelled = _give_up(crontab, run_ids)
        elif run_ids:
            cancelled = _cancel_runs(crontab, run_ids)
        elif chooser:
            found = _under_way(crontab, chooser)
            agree_to_runs(crontab, "cancel", chooser, found, "no run is due or has started")
            cancelled, left = each_run(found, crontab.cancel)
        else:
            groups = _of_batch(crontab, batch) if batch else _of_tasks(crontab, names)
            cancelled = cancel_waiting(crontab, groups, active=active, as_json=as_json)
        if as_json:
            now = crontab.now()
            shapes = [json_output.run_shape(run, now) for run in cancelled]
            console.emit_one_or_list(shapes, as_list=not run_ids)
        else:
            for run in cancelled:
                if run_ids or chooser or not run.state.is_final:  # else those that waited were counted
                    console.data(f"{_done(run)}  run {run.id} of {run.task}{_what_follows(run)}")
        report_left(left)


def cancel_waiting(
    crontab: "services.crontab.Crontab",
    groups: Sequence[tuple[Task, WaitingRuns]],
    *,
    active: bool = False,
    as_json: bool = False,
) -> list[Run]:
    """Cancel these waiting runs, and with `active` those that have started, after the user has agreed.

    Print how many waited. Return all of them. Raises Refused.
    """
    named = ", ".join(task.name for task, _ in groups)
    number = sum(crontab.count_waiting(which) for _, which in groups)
    alive = [run for task, _ in groups for run in crontab.runs(RunFilter(task.id, _ACTIVE), MOST_RUNS)]
    if not number and not (active and alive):
        more = f"; {humanize.plural(len(alive), 'run')} active: --active stops them" if alive else ""
        raise Refused(f"no run of {named} waits{more or '; `dcron pause` stops the next scheduled ones'}")
    does = "is active and goes on" if len(alive) == 1 else "are active and go on"
    fate = f"; {len(alive):,} {does}" if alive else ""
    waiting = humanize.plural(number, "waiting run")
    act = f"cancel {waiting} of {named}{fate}"
    if active and alive:
        act = f"stop {humanize.plural(len(alive), 'active run')} of {named}"
        act += f" and cancel {waiting}" if number else ""
    console.agree(act, count=number + (len(alive) if active else 0))
    cancelled = [*chain.from_iterable(chain.from_iterable(crontab.cancel_waiting(*each) for each in groups))]
    if not as_json and number:
        console.data(f"cancelled  {humanize.plural(len(cancelled), 'waiting run')} of {named}")
    if active:
        stopped, _ = each_run(alive, crontab.cancel)  # others have ended meanwhile
        cancelled += stopped
    return cancelled


def _of_tasks(crontab: "services.crontab.Crontab", names: Sequence[str]) -> list[tuple[Task, WaitingRuns]]:
    now = crontab.now()
    tasks = named_tasks(crontab, "cancel", with_patterns(crontab, names), asks=True)
    return [(task, WaitingRuns(task.id, now)) for task in tasks]


def _of_batch(crontab: "services.crontab.Crontab", batch: str) -> list[tuple[Task, WaitingRuns]]:
    """Return the task and the runs of a backfill. Raises UsageError if the batch is something else."""
    undo = services.undo.Undo(crontab)
    made = undo.backfilled(undo.batch(batch))
    if made is None:
        raise UsageError(f"--batch {batch}: this is no backfill; `dcron undo --batch {batch}` takes it back")
    return [made]


def _cancel_runs(crontab: "services.crontab.Crontab", run_ids: Sequence[int]) -> list[Run]:
    """Cancel the runs with these numbers, after the user has agreed. Raises Refused if one has ended."""
    found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
    if len(found) > 1 and (over := next((run for run in found if run.state.is_final), None)):
        raise Refused(f"run {over.id} of {over.task} has already ended ({over.state}); nothing was cancelled")
    if alive := [run for run in found if run.state in _ACTIVE]:
        console.agree(f"stop {', '.join(map(_where, alive))}", count=len(alive))
    else:
        console.agree(f"cancel {named_runs(found)}", asks=False)
    return [crontab.cancel(run.id) for run in found]


def _give_up(crontab: "services.crontab.Crontab", run_ids: Sequence[int]) -> list[Run]:
    """Declare unheard runs lost, after the user has agreed. Raises Refused if one of them is heard of."""
    found = [crontab.find_run(run_id) for run_id in dict.fromkeys(run_ids)]
    if heard := next((run for run in found if not run.is_unheard), None):
        raise Refused(f"{_not_unheard(heard)}; nothing was given up")
    names = ", ".join(f"run {run.id} of {run.task} on {run.node}" for run in found)
    console.agree(
        f"give up {names}: if its command still runs, another one may run beside it until its node is back",
        count=len(found),
    )
    return [crontab.give_up(run.id) for run in found]


def _not_unheard(run: Run) -> str:
    if run.state.is_final:
        return f"run {run.id} of {run.task} has already ended ({run.state})"
    return f"run {run.id} of {run.task} is heard of ({run.state}); `dcron cancel {run.id}` stops it"


def _under_way(crontab: "services.crontab.Crontab", selector: "policy.selectors.Selector") -> list[Run]:
    """Return the runs of the selector's tasks that are due or have started, the newest first."""
    states = [RunState.WAITING, *_ACTIVE]
    now = crontab.now()
    found = crontab.runs(RunFilter(states=states, selector=selector), MOST_RUNS)
    return [run for run in found if run.state is not RunState.WAITING or run.due_at <= now]


def _done(run: Run) -> str:
    if run.state is RunState.LOST:
        return "given up"
    return "cancelled" if run.state.is_final else "cancelling"


def _what_follows(run: Run) -> str:
    if run.state.is_final:
        return ""
    if not run.is_unheard or run.unheard_since is None:
        return f": {run.node} has been asked to stop it"
    since = f"{run.unheard_since:%Y-%m-%dT%H:%M:%SZ}"
    return (
        f": {run.node} has not been heard of since {since}; it is asked when it is back."
        f" If you know that it is dead: dcron cancel {run.id} --lost"
    )


def _where(run: Run) -> str:
    does = "running" if run.state is RunState.RUNNING else "about to start"
    return f"run {run.id} of {run.task}, {does} on {run.node}"
