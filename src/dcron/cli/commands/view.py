"""`view`: one task or one run in full."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from dcron import policy, presentation, services
from dcron.cli.asking.options import At, Db, Json, argument, is_number, option, run_number
from dcron.cli.asking.warnings import print_frozen
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import print_facts
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.cli.running.past_crontab import read_past
from dcron.cli.running.run_details import on_hold, read_run
from dcron.errors import NotFound, UsageError
from dcron.model import Run, RunState, Trigger
from dcron.presentation import alerts, humanize
from dcron.presentation.graph import graph_lines
from dcron.schedule.zones import zone
from dcron.values.lists import RunFilter

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
    graph: Mapping[str, Sequence[str]]
    alerts: "Sequence[policy.alert_facts.AlertFacts]"
    """The open ones."""
    by_label: "Sequence[services.settings.SettingValue]" = ()
    """The settings that apply because of its labels."""


def command(
    which: Annotated[
        list[str] | None,
        argument("NAME|RUN...", "Names of tasks, prefixes, patterns ('shop-*'), or numbers of runs."),
    ] = None,
    run_id: Annotated[
        int | None, option("--run", "RUN", "A run, as its number alone.", parser=run_number)
    ] = None,
    at: At = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show everything about a task, or about a run.

    \b
    dcron view backup
    dcron view 1307
    dcron view 'shop-*' report
    dcron view backup --at 2h

    A task is shown with its waiting runs and the reasons they wait, its dead letters, and the tasks upstream
    and downstream of it.
    """
    if bool(which) == (run_id is not None):
        raise UsageError("give the name of a task, or the number of a run")
    words = which or [str(run_id)]
    if at and any(map(is_number, words)):
        raise UsageError("--at shows a task as it was; a run does not change")
    with opened_crontab(db) as crontab:
        past = read_past(crontab, at) if at else None
        names = [name for word in words for name in (_fitting(crontab, past, word) or [word])]
        found = [_read(crontab, past, name, as_json=as_json) for name in names]
        if as_json and (len(words) > 1 or policy.selectors.is_pattern(words[0])):
            console.emit_list(found)
        elif as_json:
            console.emit(found[0])
        else:
            for number, facts in enumerate(found):
                if number:
                    console.data()
                print_facts(facts)
            if not past and not all(map(is_number, words)):
                print_frozen(crontab)


def _fitting(
    crontab: "services.crontab.Crontab", past: "services.history.PastCrontab | None", word: str
) -> list[str]:
    """Return the names of tasks that a pattern fits; none for a word that is no pattern. Raises NotFound."""
    if not policy.selectors.is_pattern(word):
        return []
    if past is None:
        return [task.name for task in crontab.selected(crontab.named([word]))]
    pattern = policy.selectors.NamedTasks((), (word,))
    if names := [task.name for task in past.tasks if pattern.chooses(task.name, task.labels)]:
        return names
    raise NotFound(f"no task had a name like {word!r} then")


def _read(
    crontab: "services.crontab.Crontab",
    past: "services.history.PastCrontab | None",
    word: str,
    *,
    as_json: bool,
) -> Any:
    """Return what there is to know about a task or a run: its document, or facts for people."""
    if is_number(word):
        return read_run(crontab, run_number(word), as_json=as_json)
    if past:
        task = past.find(word)
        found, around, now = (
            services.history.row_at(task, past.at),
            TaskContext((), (), {task.name: ()}, ()),
            past.at,
        )
    else:
        found = crontab.view(word)
        around, now = _surroundings(crontab, found), crontab.now()
    if as_json:
        return json_output.task_shape(found, now, "task-view", **_shape(around, now))
    facts = list(_facts(found, around, now))
    return facts if past else [*facts, on_hold(crontab, now, found.task.id)]


def _surroundings(crontab: "services.crontab.Crontab", view: "services.tasks.rows.TaskRow") -> TaskContext:
    task_id = view.task.id
    waiting = crontab.runs(RunFilter(task_id, [RunState.WAITING]), READ)
    return TaskContext(
        sorted(waiting, key=lambda run: (run.due_at, run.id)),
        crontab.runs(RunFilter(task_id, dead=True), READ),
        crontab.dependency_graph(view.task),
        services.alerts.Alerts(crontab).of_task(task_id) if view.alerts else (),
        services.settings.SharedSettings(crontab).of_labels(view.task) if view.task.labels else (),
    )


def _shape(around: TaskContext, now: datetime) -> dict[str, Any]:
    return {
        "waiting": [json_output.run_shape(run, now) for run in around.waiting],
        "dead_letters": [json_output.run_shape(run, now) for run in around.dead],
        "graph": {name: list(earlier) for name, earlier in sorted(around.graph.items())},
    }


def _facts(view: "services.tasks.rows.TaskRow", around: TaskContext, now: datetime) -> Iterator[Fact]:
    task = view.task
    yield "name", task.name
    yield "about", task.describe
    yield "schedule", task.schedule
    yield "when", presentation.next_runs.explanation(task)
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
    yield "source", presentation.owned_tasks.source(task)
    yield (
        "changed",
        f"version {task.version}, {humanize.ago(task.changed_at, now)}, by {task.changed_by or 'unknown'}",
    )


def _alert(facts: "policy.alert_facts.AlertFacts", now: datetime) -> str:
    alert = facts.alert
    by = f", acknowledged by {alert.acknowledged_by}" if alerts.is_acknowledged(alert, now) else ""
    known = presentation.blame.of(facts)
    blame = f"; it {known.sentence}" if known else ""
    return f"{alerts.word(alert.kind)} since {alerts.time(alert.opened_at)} (alert {alert.id}){by}{blame}"


def _of_the_command(view: "services.tasks.rows.TaskRow") -> Iterator[Fact]:
    task = view.task
    yield "command", presentation.next_runs.command_line(task)
    for name, value in task.env.items():
        yield "env", f"{name}={value}"
    yield "stdin", task.stdin
    yield "directory", task.cwd
    yield "user", task.user
    yield "timeout", humanize.span(task.timeout) if task.timeout else None


def _of_the_times(view: "services.tasks.rows.TaskRow") -> Iterator[Fact]:
    task = view.task
    yield "gap", "skip: a run at a local time that the clock skips is dropped" if task.gap == "skip" else None
    yield "fold", "both: a local time that comes twice has two runs" if task.fold == "both" else None
    for name, at in (("not before", task.not_before), ("not after", task.not_after)):
        yield name, humanize.full(at.astimezone(zone(own_zone()))) if at else None
    yield "except", _calendar(task.except_calendar, task.except_content)
    yield "only", _calendar(task.only_calendar, task.only_content)
    yield "max running", "no limit" if task.max_running is None else str(task.max_running)
    yield from presentation.policies.asked(task)
    yield "once", "removed from the crontab after its run has succeeded" if task.once else None


def _of_the_runs(view: "services.tasks.rows.TaskRow", around: TaskContext, now: datetime) -> Iterator[Fact]:
    for run in view.alive:
        yield "now", _run_line(run, now)
    yield "last", _run_line(view.last_run, now) if view.last_run and not view.alive else None
    letters = [f"{_run_line(run, now)}: dcron retry {run.id}" for run in around.dead[:LISTED]]
    yield "dead", _and_more(letters, around.dead, "dcron dead") or None


def _coming(view: "services.tasks.rows.TaskRow", now: datetime) -> str | list[str] | None:
    task = view.task
    if task.enabled:
        settled_until = view.settled_until(now)
        return presentation.next_runs.next_runs(
            task, now, planned=view.next_run_at, settled_until=settled_until
        )
    return presentation.next_runs.pause(task, zone(own_zone()))


def _waiting(view: "services.tasks.rows.TaskRow", waiting: Sequence[Run], now: datetime) -> list[str] | None:
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
    parts = [f"run {run.id}", humanize.not_heard_of(run, zone(own_zone()), now) or humanize.result(run, now)]
    if run.started_at:
        parts.append(f"started {humanize.ago(run.started_at, now)}")
    if run.owner:
        parts.append(f"on {run.owner}")
    if run.refused_by:
        parts.append(f"after {humanize.refusals(run)}")
    return ", ".join(parts)
