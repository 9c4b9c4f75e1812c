"""`view`: one task or one run in full."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.colours import AlarmCell
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import At, Db, Json, OptionalName, run_number
from dcron.cli.past_crontab import read_past
from dcron.cli.run_details import on_hold, show_run
from dcron.cli.tables import print_facts
from dcron.cli.warnings import print_frozen
from dcron.errors import UsageError
from dcron.model import Run, RunState, Trigger
from dcron.presentation import alerts, humanize
from dcron.presentation.graph import graph_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dcron.presentation.alerts import AlertFacts
    from dcron.services.crontab import Crontab
    from dcron.services.history import PastCrontab
    from dcron.services.settings import SettingValue
    from dcron.services.task_rows import TaskRow


LISTED = 5
"""Waiting runs and dead letters that are listed; further ones are counted."""


READ = 100
"""Waiting runs and dead letters that are read."""


Fact = tuple[str, str | list[str] | None]


@dataclass(frozen=True)
class TaskContext:
    """The waiting runs, dead letters and dependencies of a task."""

    waiting: Sequence[Run]
    """At most READ, in the order in which they are due."""
    dead: Sequence[Run]
    """At most READ, the newest first."""
    graph: "Mapping[str, Sequence[str]]"
    alerts: "Sequence[AlertFacts]"
    """The open ones."""
    by_label: "Sequence[SettingValue]" = ()
    """The settings that apply because of its labels."""


def command(
    name: OptionalName = None,
    run_id: Annotated[
        int | None,
        typer.Option("--run", metavar="RUN", help="Show this run instead of a task.", parser=run_number),
    ] = None,
    at: At = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show one task or one run in full.

    \b
    dcron view backup
    dcron view --run 1307
    dcron view backup --at 2h

    A task is shown with its waiting runs and the reasons they wait, its dead letters, and the tasks upstream
    and downstream of it.
    """
    from dcron.cli import json_output

    if (name is None) == (run_id is None):
        raise UsageError("give the name of a task, or the number of a run with --run")
    with opened_crontab(db) as crontab:
        if name is None:
            if at:
                raise UsageError("--at shows a task as it was; a run does not change")
            show_run(crontab, run_id or 0, as_json=as_json)
            return
        if at:
            _view_past(read_past(crontab, at), name, as_json=as_json)
            return
        found = crontab.view(name)
        around = _surroundings(crontab, found)
        now = crontab.now()
        if as_json:
            console.emit({**json_output.task_shape(found, now), **_shape(around, now)})
        else:
            print_facts([*_facts(found, around, now), on_hold(crontab, now, found.task.id)])
            print_frozen(crontab)


def _view_past(past: "PastCrontab", name: str, *, as_json: bool) -> None:
    """Show the task as it was, without its runs."""
    from dcron.cli import json_output
    from dcron.services.history import row_at

    task = past.find(name)
    found, around = row_at(task, past.at), TaskContext((), (), {task.name: ()}, ())
    if as_json:
        console.emit({**json_output.task_shape(found, past.at), **_shape(around, past.at)})
    else:
        print_facts(_facts(found, around, past.at))


def _surroundings(crontab: "Crontab", view: "TaskRow") -> TaskContext:
    from dcron.services.alerts import Alerts
    from dcron.services.settings import SharedSettings
    from dcron.store.runs import RunFilter

    task_id = view.task.id
    waiting = crontab.runs(RunFilter(task_id, [RunState.WAITING]), READ)
    return TaskContext(
        sorted(waiting, key=lambda run: (run.due_at, run.id)),
        crontab.runs(RunFilter(task_id, dead=True), READ),
        crontab.dependency_graph(view.task),
        Alerts(crontab).of_task(task_id) if view.alerts else (),
        SharedSettings(crontab).of_labels(view.task) if view.task.labels else (),
    )


def _shape(around: TaskContext, now: datetime) -> dict[str, Any]:
    from dcron.cli import json_output

    return {
        "waiting": [json_output.run_shape(run, now) for run in around.waiting],
        "dead_letters": [json_output.run_shape(run, now) for run in around.dead],
        "graph": {name: list(earlier) for name, earlier in sorted(around.graph.items())},
    }


def _facts(view: "TaskRow", around: TaskContext, now: datetime) -> Iterator[Fact]:
    from dcron.presentation import next_runs, owned_tasks

    task = view.task
    yield "name", task.name
    yield "about", task.describe
    yield "schedule", task.schedule
    yield "when", next_runs.explanation(task)
    yield "zone", task.timezone
    yield "next", _coming(view, now)
    yield (
        "agents",
        f"none can claim its next run: {view.unserved}" if view.unserved and task.enabled else None,
    )
    yield "alert", [AlarmCell(_alert(facts, now)) for facts in around.alerts] or None
    yield "waiting", _waiting(view, around.waiting, now)
    yield "suspended", task.error
    yield "graph", graph_lines(around.graph, task.name) or None
    yield from _of_the_command(view)
    yield from _of_the_times(view)
    yield from _of_the_runs(view, around, now)
    for each in around.by_label:
        yield "by label", f"{each.setting.name} is {each.text}"
    yield "source", owned_tasks.source(task)
    yield (
        "changed",
        f"version {task.version}, {humanize.ago(task.changed_at, now)}, by {task.changed_by or 'unknown'}",
    )


def _alert(facts: "AlertFacts", now: datetime) -> str:
    alert = facts.alert
    by = f", acknowledged by {alert.acknowledged_by}" if alerts.is_acknowledged(alert, now) else ""
    blame = f"; it {facts.blame.sentence}" if facts.blame else ""
    return f"{alerts.word(alert.kind)} since {alerts.time(alert.opened_at)} (alert {alert.id}){by}{blame}"


def _of_the_command(view: "TaskRow") -> Iterator[Fact]:
    from dcron.presentation import next_runs

    task = view.task
    yield "command", next_runs.command_line(task)
    for name, value in task.env.items():
        yield "env", f"{name}={value}"
    yield "stdin", task.stdin
    yield "directory", task.cwd
    yield "user", task.user
    yield "timeout", humanize.span(task.timeout) if task.timeout else None


def _of_the_times(view: "TaskRow") -> Iterator[Fact]:
    from dcron.presentation import policies as policies
    from dcron.schedule import zone

    task = view.task
    yield "gap", "skip: a run at a local time that the clock skips is dropped" if task.gap == "skip" else None
    yield "fold", "both: a local time that comes twice has two runs" if task.fold == "both" else None
    for name, at in (("not before", task.not_before), ("not after", task.not_after)):
        yield name, humanize.full(at.astimezone(zone(own_zone()))) if at else None
    yield "except", _calendar(task.except_calendar, task.except_content)
    yield "only", _calendar(task.only_calendar, task.only_content)
    yield "max running", "no limit" if task.max_running is None else str(task.max_running)
    yield from policies.asked(task)
    yield "once", "removed from the crontab after its run has succeeded" if task.once else None


def _of_the_runs(view: "TaskRow", around: TaskContext, now: datetime) -> Iterator[Fact]:
    for run in view.alive:
        yield "now", _run_line(run, now)
    yield "last", _run_line(view.last_run, now) if view.last_run and not view.alive else None
    letters = [f"{_run_line(run, now)}: dcron retry {run.id}" for run in around.dead[:LISTED]]
    yield "dead", _and_more(letters, around.dead, "dcron dead") or None


def _coming(view: "TaskRow", now: datetime) -> str | list[str] | None:
    from dcron.presentation import next_runs
    from dcron.schedule import zone

    task = view.task
    if task.enabled:
        settled_until = view.settled_until(now)
        return next_runs.next_runs(task, now, planned=view.next_run_at, settled_until=settled_until)
    return next_runs.pause(task, zone(own_zone()))


def _waiting(view: "TaskRow", waiting: Sequence[Run], now: datetime) -> list[str] | None:
    """Return the waiting runs, but not a scheduled run that is not blocked."""
    listed = [run for run in waiting if run.trigger is not Trigger.SCHEDULE or run.blocked]
    shown = listed[:LISTED]
    waits = (humanize.waits(run, view.task.tries, now, view.frozen) for run in shown)
    lines = [f"run {run.id}, {text}" for run, text in zip(shown, waits, strict=True)]
    return _and_more(lines, listed, f"dcron runs {view.task.name} --state waiting") or None


def _and_more(lines: list[str], runs: Sequence[Run], where: str) -> list[str]:
    more = len(runs) - len(lines)
    least = " or more" if len(runs) >= READ else ""
    return [*lines, f"and {more}{least} more: {where}"] if more > 0 else lines


def _calendar(name: str | None, content: str | None) -> str | None:
    if name is None:
        return None
    return f"on the dates of calendar {name}" + ("" if content else ", which does not exist: nothing runs")


def _run_line(run: Run, now: datetime) -> str:
    parts = [f"run {run.id}", humanize.result(run, now)]
    if run.started_at:
        parts.append(f"started {humanize.ago(run.started_at, now)}")
    if run.owner:
        parts.append(f"on {run.owner}")
    if run.refused_by:
        parts.append(f"after {humanize.refusals(run)}")
    return ", ".join(parts)
