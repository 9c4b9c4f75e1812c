"""`list`, `view` and `nodes`: what there is, who runs it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import printing, words
from dcron.cli.opening import opened_crontab, own_zone
from dcron.cli.parameters import Db, Json, Name
from dcron.cli.tables import Alarm, Column, print_facts, print_table
from dcron.model import Node, NodeState, Run, RunState

if TYPE_CHECKING:
    from dcron.crontab import TaskView

TASKS = [
    Column("NAME", least=10),
    Column("SCHEDULE", least=9),
    Column("TZ", least=7, keep_end=True),
    Column("NEXT"),
    Column("LEFT", right=True),
    Column("LAST", right=True),
    Column("RESULT"),
    Column("OWNER", least=5),
]
NODES = [
    Column("NODE", least=12),
    Column("HOST", least=6),
    Column("PID", right=True),
    Column("STATE"),
    Column("RUNNING", right=True),
    Column("STARTED", right=True),
    Column("LEASE", right=True),
    Column("CLOCK", right=True),
    Column("VERSION"),
    Column("TZDATA"),
]
UNHAPPY = (RunState.FAILED, RunState.LOST)
CLOCK_TOLERANCE = 2.0
"""Seconds a node's clock may be off before it catches the eye."""


def list_tasks(
    names: Annotated[bool, typer.Option("--names", help="Print the names alone.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only tasks whose last run failed.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Only tasks that are paused.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List the tasks, when each runs next and how it went last.

    NEXT is in the task's own zone. OWNER is the node that runs it now, else the one that ran it last.
    """
    from dcron.cli import shapes

    with opened_crontab(db) as crontab:
        now = crontab.now()
        views = crontab.views(paused=paused, failed=failed)
        if as_json and names:
            printing.emit_list(view.task.name for view in views)
        elif as_json:
            printing.emit_list(shapes.task_shape(view, now) for view in views)
        elif names:
            for view in views:
                printing.data(view.task.name)
        elif not print_table(TASKS, (row(view, now) for view in views)):
            printing.note(_nothing(paused=paused, failed=failed))


def view(name: Name, as_json: Json = False, db: Db = None) -> None:
    """Show all there is to know about a task."""
    from dcron.cli import shapes

    with opened_crontab(db) as crontab:
        found = crontab.view(name)
        now = crontab.now()
        if as_json:
            printing.emit(shapes.task_shape(found, now))
        else:
            print_facts(_facts(found, now))


def nodes(as_json: Json = False, db: Db = None) -> None:
    """List the running agents, and those that ended within a day."""
    from dcron.cli import shapes

    with opened_crontab(db) as crontab:
        found = crontab.nodes()
        now = crontab.now()
        if as_json:
            printing.emit_list(shapes.node_shape(node, now) for node in found)
        elif not print_table(NODES, (_node_row(node, now) for node in found)):
            printing.note("no agents yet: start `dcron agent` on each server that should run tasks")
        _tell_of_zones(found, now)


def row(view: "TaskView", now: datetime) -> list[str]:
    """A task as TASKS shows it."""
    task, latest = view.task, view.alive[-1] if view.alive else view.last_run
    remaining = words.left(view.next_run_at, now) if view.next_run_at else ""
    return [
        task.name,
        task.schedule,
        task.timezone,
        _next(view, now),
        Alarm(remaining) if remaining.startswith("late") else remaining,
        words.ago(latest.started_at, now) if latest and latest.started_at else "",
        _result(latest, now) if latest else "",
        (latest.node or "") if latest else "",
    ]


def _next(view: "TaskView", now: datetime) -> str:
    from dcron.errors import ZoneError
    from dcron.schedule import zone

    due = view.next_run_at
    if due is None:
        return "paused" if not view.task.enabled else Alarm("suspended") if view.task.error else ""
    try:
        return words.clock(due, zone(view.task.timezone), now)
    except ZoneError:  # this machine's tz database does not have it
        return words.clock(due, UTC, now) + "Z"


def _result(run: Run, now: datetime) -> str:
    told = words.result(run, now)
    return Alarm(told) if run.state in UNHAPPY else told


def _nothing(*, paused: bool, failed: bool) -> str:
    if failed:
        return "no task's last run has failed"
    if paused:
        return "no task is paused"
    return "no tasks yet; `dcron add '30 2 * * *' COMMAND` adds one, `dcron import FILE` a crontab"


def _facts(view: "TaskView", now: datetime) -> Iterable[tuple[str, str | list[str] | None]]:
    from dcron.cli import forecast
    from dcron.schedule import zone

    task = view.task
    yield "name", task.name
    yield "about", task.describe
    yield "schedule", task.schedule
    yield "when", forecast.explanation(task)
    yield "zone", task.timezone
    yield "next", _coming(view, now)
    yield "suspended", task.error
    yield "command", forecast.command_line(task)
    for name, value in task.env.items():
        yield "env", f"{name}={value}"
    yield "stdin", task.stdin
    yield "directory", task.cwd
    yield "user", task.user
    yield "timeout", words.span(task.timeout) if task.timeout else None
    yield "gap", "skip: a run at a time that the clock leaves out is dropped" if task.gap == "skip" else None
    yield "fold", "both: a run at a time that comes twice is made twice" if task.fold == "both" else None
    for name, moment in (("not before", task.not_before), ("not after", task.not_after)):
        yield name, words.full(moment.astimezone(zone(own_zone()))) if moment else None
    yield "except", _calendar(task.except_calendar, task.except_content)
    yield "only", _calendar(task.only_calendar, task.only_content)
    yield "max running", "no limit" if task.max_running is None else str(task.max_running)
    yield "once", "it leaves the crontab when its run has succeeded" if task.once else None
    for run in view.alive:
        yield "now", _run_line(run, now)
    yield "last", _run_line(view.last_run, now) if view.last_run and not view.alive else None
    yield (
        "changed",
        f"version {task.version}, {words.ago(task.changed_at, now)}, by {task.changed_by or 'somebody'}",
    )


def _coming(view: "TaskView", now: datetime) -> str | list[str] | None:
    from dcron.cli import forecast
    from dcron.schedule import zone

    task = view.task
    if task.enabled:
        return forecast.next_runs(task, now)
    return forecast.pause(task, zone(own_zone()))


def _calendar(name: str | None, content: str | None) -> str | None:
    if name is None:
        return None
    return f"on the dates of calendar {name}" + ("" if content else ", which is gone: nothing runs")


def _run_line(run: Run, now: datetime) -> str:
    parts = [f"run {run.id}", words.result(run, now)]
    if run.started_at:
        parts.append(f"started {words.ago(run.started_at, now)}")
    if run.owner:
        parts.append(f"on {run.owner}")
    return ", ".join(parts)


def _node_row(node: Node, now: datetime) -> list[str]:
    state = node.state(now)
    ended = state in (NodeState.STOPPED, NodeState.DEAD)
    lease = "" if ended else words.left(node.alive_until, now)
    return [
        node.id,
        node.host,
        str(node.pid),
        Alarm(state.value) if state in (NodeState.LATE, NodeState.DEAD) else state.value,
        f"{node.running}/{node.slots}",
        words.ago(node.started_at, now),
        lease,
        _clock_offset(node),
        node.version,
        node.tzdata,
    ]


def _tell_of_zones(found: Iterable[Node], now: datetime) -> None:
    """Say so where living nodes do not have the same time zones."""
    living = [node for node in found if node.state(now) in (NodeState.ALIVE, NodeState.DRAINING)]
    by_zones: dict[tuple[str, str | None], list[str]] = {}
    for node in living:
        by_zones.setdefault((node.tzdata, node.tzdata_fingerprint), []).append(node.name)
    if len(by_zones) > 1:
        told = "; ".join(
            f"{version}{f' ({digits})' if digits else ''} on {', '.join(sorted(set(names))[:5])}"
            + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            for (version, digits), names in sorted(by_zones.items(), key=str)
        )
        printing.complain(
            f"warning: the nodes' time zones differ: tzdata {told}. Where a zone's rules have changed between"
            " these, a task's next time depends on which node plans it: install the newest tzdata on all"
        )


def _clock_offset(node: Node) -> str:
    if node.clock_offset is None:
        return ""
    told = f"{node.clock_offset:+.1f}s"
    return Alarm(told) if abs(node.clock_offset) > CLOCK_TOLERANCE else told
