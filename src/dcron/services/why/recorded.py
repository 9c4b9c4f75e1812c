"""What has happened, by the record: how runs ended, and why an occurrence has no run of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from dcron import policy
from dcron.errors import UsageError
from dcron.fields.retention import DEFAULTS, format_value
from dcron.model import Definition, Run, RunState, SkipCode, Trigger
from dcron.schedule import Schedule, upcoming, zone
from dcron.schedule import explain as in_words
from dcron.services.why import pending, run_causes
from dcron.services.why.context import (
    Context,
    author,
    changes_times,
    clock_change_at,
    definitions_of,
    occurs,
    previous_occurrence,
    schedule_of,
)
from dcron.services.why.run_causes import RUNS_SHOWN, Cause, named
from dcron.store import epochs, history, retention, runs, tasks
from dcron.store.history import AuditEntry

_NEAR_RUNS = 5
_MOST_UPSTREAM_RUNS = 20
_SCHEDULED = (Trigger.SCHEDULE, Trigger.NODE)
_RECENT = timedelta(days=1)
"""How long an incident of the database may explain what is seen now."""
_TOLERANCE = timedelta(seconds=5)


def of_run(context: Context, run: Run) -> list[Cause]:
    """Return what became of a run, or what it waits for."""
    if not run.state.is_final:
        return pending.of_run(context, run)
    if run.state is not RunState.SKIPPED:
        return [run_causes.ended(run, context.clock)]
    more, facts = _skip_details(context, run)
    return [run_causes.skipped(run, context.clock, more, facts)]


def _skip_details(context: Context, run: Run) -> tuple[str, dict[str, Any]]:
    """Return what else is known about a skipped run: words that follow its reason, and facts."""
    match run.skip_code:
        case SkipCode.OVERLAP:
            assert run.finished_at
            others = history.alive_at(context.connection, run, run.finished_at, RUNS_SHOWN + 1)
            return f" ({named(others)})" if others else "", {"runs": [each.id for each in others]}
        case SkipCode.PAUSED:
            pause = context.past.last_until(run.covers_from or run.scheduled_for, "pause")
            return (f"; since {context.time(pause.at)}", author(pause)) if pause else ("", {})
        case SkipCode.MISSED:
            return _fleet_at(context, run.covers_from or run.scheduled_for), {}
        case SkipCode.UPSTREAM if run.caused_by:
            upstream = runs.by_id(context.connection, run.caused_by)
            return "", {"upstream": upstream.task if upstream else None, "upstream_run": run.caused_by}
    return "", {}


def _fleet_at(context: Context, at: datetime) -> str:
    """Return which agents were there at this time, or when the last one ended."""
    alive = history.nodes_at(context.connection, at, RUNS_SHOWN)
    if alive:
        return f"; agents there at the time: {', '.join(alive)}"
    last = history.last_node(context.connection, at)
    if last is None:
        return "; no agent was there yet"
    return f"; no agent was there: the last one, {last.id}, ended {context.time(last.died_at)}"


# One time of a task -----------------------------------------------------------------------------------


def occurrence(context: Context, at: datetime, rows: Sequence[Run]) -> list[Cause]:
    """Return why the task did, did not, or will not run at a time; `rows` are its runs of that time."""
    if rows:
        return [*(cause for run in rows for cause in of_run(context, run)), *_clock_change(context, at)]
    definition = context.past.definition_at(at)
    if definition is None:
        return [_not_in_crontab(context, at)]
    try:
        return _without_run(context, definition, at)
    except UsageError as error:
        return [context.suspended(str(error), at)]


def _without_run(context: Context, task: Definition, at: datetime) -> list[Cause]:
    schedule = schedule_of(task)
    if not schedule.timed:
        return _untimed(context, task, schedule, at)
    if not occurs(replace(task, not_before=None, not_after=None), at):
        return _no_such_time(context, task, schedule, at)
    if outside := _outside_window(context, task, at):
        return [outside]
    causes = pending.occurrence(context, at) if at > context.now else [_past_occurrence(context, at)]
    return [*causes, *_clock_change(context, at)]


def _not_in_crontab(context: Context, at: datetime) -> Cause:
    if context.past.last_until(at - policy.INSTANT):
        return context.removed(at)
    added = context.past.first_after(at - policy.INSTANT)
    assert added
    text = f"{context.name} was not there yet: it was added {context.by_whom(added)}"
    return context.cause(at, "not-yet", text, author(added))


def _outside_window(context: Context, task: Definition, at: datetime) -> Cause | None:
    if task.not_before and at < task.not_before:
        option, bound, what = "not_before", task.not_before, "begins"
    elif task.not_after and at > task.not_after:
        option, bound, what = "not_after", task.not_after, "ends"
    else:
        return None
    text = f"it lies outside the window of {context.name}, which {what} {context.time(bound)}"
    return context.cause(at, "window", text, {option: bound})


def _clock_change(context: Context, at: datetime) -> list[Cause]:
    """Return what a clock change does to an occurrence that the task has."""
    task = context.past.definition_at(at)
    if task is None:
        return []
    try:
        coming = upcoming(schedule_of(task), zone(task.timezone), at - policy.INSTANT, policy.rules_of(task))
        found = next(coming, None)
    except UsageError:
        return []
    if found is None or found.at != at or not found.note:
        return []
    return [context.cause(at, "daylight-saving", f"the clocks change: {found.note}")]


# A time that the schedule does not have ---------------------------------------------------------------


def _no_such_time(context: Context, task: Definition, schedule: Schedule, at: datetime) -> list[Cause]:
    near = {"before": previous_occurrence(task, at), "after": policy.next_occurrence(task, at)}
    times = " and ".join(
        f"{context.time(each)}{_start(context, task, each)}" for each in near.values() if each
    )
    nearest = f"; its nearest are {times}" if times else "; it has no others"
    text = f"the schedule {task.schedule} ({in_words(schedule)}) has no such time{nearest}"
    found = [context.cause(at, "no-such-time", text, {"schedule": task.schedule, **near})]
    if change := clock_change_at(task, at):
        found.insert(0, context.cause(at, "daylight-saving", f"the clocks change: {change}"))
    return found + _other_schedule(context, at)


def _start(context: Context, task: Definition, at: datetime) -> str:
    due = policy.due_at(task, at)
    return f" (with its jitter {context.time(due)})" if due != at else ""


def _other_schedule(context: Context, at: datetime) -> list[Cause]:
    """Return the edit before or after which the task has, or had, an occurrence at this time."""
    edits = [each for each in context.past.changes if each.action == "set" and changes_times(each)]
    for position, edit in enumerate(edits):
        following = edits[position + 1].at if position + 1 < len(edits) else None
        before, after = definitions_of(edit)
        if edit.at <= at and (following is None or at < following) and _had(before, at):
            return [_edited(context, at, edit, "until then its schedule was", before)]
        preceding = edits[position - 1].at if position else None
        if at < edit.at and (preceding is None or preceding <= at) and _had(after, at):
            return [_edited(context, at, edit, "since then its schedule is", after)]
    return []


def _had(task: Definition | None, at: datetime) -> bool:
    try:
        return task is not None and schedule_of(task).timed and occurs(task, at)
    except UsageError:
        return False


def _edited(context: Context, at: datetime, edit: AuditEntry, what: str, task: Definition | None) -> Cause:
    schedule = f" {task.schedule} ({task.timezone})" if task else ""
    text = f"{context.name} was changed {context.by_whom(edit)}: {what}{schedule}, which has this time"
    return context.cause(at, "edited", text, author(edit))


def _untimed(context: Context, task: Definition, schedule: Schedule, at: datetime) -> list[Cause]:
    """Return why a task without times of its own has no run at this time."""
    is_past = at <= context.now
    text = (
        f"{context.name} runs {in_words(schedule)}, and did not then{_nearest(context, at)}"
        if is_past
        else f"{context.name} has no times of its own: it runs {in_words(schedule)}"
    )
    cause = context.cause(at, "no-such-time", text, {"schedule": task.schedule})
    return [cause, *(_upstream_at(context, schedule.after, at) if is_past else ())]


def _nearest(context: Context, at: datetime) -> str:
    before = history.nearest(context.connection, context.task_id, at, later=False)
    after = history.nearest(context.connection, context.task_id, at, later=True)
    near = [
        f"run {run.id} was {which}, {context.time(run.scheduled_for)}"
        for run, which in ((before, "the one before"), (after, "the one after"))
        if run
    ]
    return f"; {', '.join(near)}" if near else ""


def _upstream_at(context: Context, upstream: Sequence[str], at: datetime) -> Iterator[Cause]:
    """Yield how the upstream tasks did at this time."""
    for task in tasks.by_names(context.connection, upstream):
        end = at.replace(microsecond=999_999)
        rows = history.finished(context.connection, task.id, at, end, _MOST_UPSTREAM_RUNS)
        rows += [run for run in history.unfinished(context.connection, task.id) if run.scheduled_for == at]
        what = (
            pending.state_in_flow(task.name, rows[-1])
            if rows
            else f"{task.name} had no run of that time either"
        )
        facts = {"upstream": task.name, "upstream_run": rows[-1].id if rows else None}
        yield context.cause(at, "after", f"it comes after {task.name}; {what}", facts)


# An occurrence of the past without a run of its own ---------------------------------------------------


def _past_occurrence(context: Context, at: datetime) -> Cause:
    """Return why there is no run of this occurrence: another row covers it, or is about to."""
    return (
        _covered(context, at)
        or _paused_or_suspended_since(context, at)
        or _paused_then(context, at)
        or _pruned(context, at)
        or _held_up(context, at)
        or _unplanned(context, at)
        or _nothing_on_record(context, at)
    )


def _covered(context: Context, at: datetime) -> Cause | None:
    """Return the row that covers several occurrences, with this one among them."""
    near = history.scheduled_runs_after(context.connection, context.task_id, at, _NEAR_RUNS)
    near += history.scheduled_runs_before(context.connection, context.task_id, at, _NEAR_RUNS)
    for run in near:
        if run.covers and run.covers[0] <= at <= run.covers[1]:
            cause = of_run(context, run)[0]
            more, _ = _skip_details(context, run)
            text = f"did not run, see run {run.id}: {run.reason}{more}"
            facts = {**cause.facts, "at": at, "first": run.covers[0], "last": run.covers[1]}
            return context.cause(at, cause.code, text, facts)
    return None


def _paused_or_suspended_since(context: Context, at: datetime) -> Cause | None:
    """Return the pause or the suspension that began before this time and still lasts."""
    task = context.task
    if task is None or (task.enabled and not task.error):
        return None
    if not task.enabled and (task.paused_at or task.changed_at) <= at:
        return context.paused(at)
    last = history.scheduled_runs_before(context.connection, task.id, context.now, 1)
    if task.error and (not last or last[0].scheduled_for < at):
        return context.suspended(task.error, at)
    return None


def _paused_then(context: Context, at: datetime) -> Cause | None:
    """Return the pause of then, if the task was edited before it ended: the record has the new times only."""
    pause = context.past.last_until(at, "pause", "resume")
    if pause is None or pause.action != "pause":
        return None
    before = history.scheduled_runs_before(context.connection, context.task_id, at, _NEAR_RUNS)
    if any(run.started_at and run.started_at > pause.at for run in before):
        return None  # the pause had ended by its own `--until`
    reason = pause.pause_reason
    text = f"{context.name} was paused {context.by_whom(pause)}{f': {reason}' if reason else ''}"
    return context.cause(at, "paused", text, {**author(pause), "reason": reason})


def _held_up(context: Context, at: datetime) -> Cause | None:
    """Return the earlier occurrence that had not begun by then: a task has one scheduled run at a time."""
    earlier = [run for run in context.unfinished if run.trigger in _SCHEDULED and run.scheduled_for < at]
    waiting = [run for run in earlier if run.started_at is None]
    if waiting:
        return pending.behind(context, waiting[-1], at, "not run yet, because")
    begun = [run for run in earlier if run.started_at]
    begun += history.scheduled_runs_before(context.connection, context.task_id, at, _NEAR_RUNS)
    for run in begun:
        since = run.started_at or run.finished_at
        if since and since >= at:
            begin = f"the occurrence before it was not begun until {context.time(since)}: "
            cause = of_run(context, run)[0]
            return context.cause(at, "held-up", begin + cause.sentence, {"held_by": run.id})
    return None


def _unplanned(context: Context, at: datetime) -> Cause | None:
    """Return that agents planned a new or changed task only later, or have yet to plan it."""
    task = context.task
    if task and task.planned_version != task.version and not context.unfinished:
        return pending.unplanned(context, at)
    first = history.nearest(context.connection, context.task_id, at, later=False)
    if first is not None or any(run.scheduled_for < at for run in context.unfinished):
        return None
    following = _next_on_record(context, at)
    if following is None:
        return None
    text = (
        f"nothing is on record of {context.name} until then: agents first planned it for"
        f" {context.time(following.scheduled_for)} (run {following.id})"
    )
    return context.cause(at, "unplanned", text, {"after": following.scheduled_for})


def _next_on_record(context: Context, at: datetime) -> Run | None:
    later = [run for run in context.unfinished if run.scheduled_for > at]
    if found := history.nearest(context.connection, context.task_id, at, later=True):
        later.append(found)
    return min(later, key=lambda run: run.scheduled_for, default=None)


def _pruned(context: Context, at: datetime) -> Cause | None:
    """Return that runs of that time have been pruned."""
    if not retention.was_pruned(context.connection, at, at):
        return None
    keep = format_value("runs", retention.settings_kept(context.connection).get("runs", DEFAULTS["runs"]))
    text = f"its record has been pruned; runs are kept for {keep} (`dcron config list`, `--keep`)"
    return context.cause(at, "pruned", text, {"keep_runs": keep})


def _nothing_on_record(context: Context, at: datetime) -> Cause:
    """Return the last resort: a person has written, or deleted, rows with SQL."""
    before = history.nearest(context.connection, context.task_id, at, later=False)
    near = " and ".join(
        f"run {run.id}, {context.time(run.scheduled_for)}"
        for run in (before, _next_on_record(context, at))
        if run
    )
    text = (
        f"the schedule has this time, but the record has no run of it; the nearest are {near or 'gone too'}"
    )
    return context.cause(at, "no-record", text)


# Incidents of the database ----------------------------------------------------------------------------


def incidents(context: Context) -> Iterator[Cause]:
    """Yield what happened to the database within the last day, or concerns times still to come."""
    if (epoch := epochs.last(context.connection, "epoch")) and _is_recent(context, epoch.at):
        text = (
            f"the database may have lost what it had committed ({epoch.after.get('reason')}): run ids go on"
            f" above {epoch.after.get('ids')}, and an occurrence that it forgot may run again"
        )
        facts = {"since": epoch.at, "ids": epoch.after.get("ids")}
        yield Cause("epoch", text, facts, context.time(epoch.at))
    step = epochs.last(context.connection, "clock")
    ran_until = _ran_until(step.after) if step else None
    if step and (_is_recent(context, step.at) or (ran_until and ran_until > context.now)):
        early = (
            f"; what ran ahead of its time, up to {context.time(ran_until)}, is not run again"
            if ran_until
            else ""
        )
        text = f"the database's clock was set back, and {step.after.get('tasks')} tasks were replanned{early}"
        facts = {"since": step.at, "ran_until": ran_until}
        yield Cause("clock-set-back", text, facts, context.time(step.at))


def _ran_until(after: Mapping[str, Any]) -> datetime | None:
    until = after.get("ran_until")
    return datetime.fromisoformat(until) if until else None


def _is_recent(context: Context, at: datetime) -> bool:
    return context.now - _RECENT < at <= context.now + _TOLERANCE


def overlong_leases(context: Context) -> Iterator[Cause]:
    """Yield the nodes whose leases end later than any lease can by the clock as it is now."""
    for node in context.nodes:
        longest = node.lease and context.now + timedelta(seconds=node.lease) + _TOLERANCE
        if longest and node.alive_until > longest:
            text = (
                f"the lease of {node.id} ends {context.time(node.alive_until)}, later than its"
                f" {node.lease:g}s allow: the database's clock was set back, or was ahead; without a renewal"
                f" the agents declare the node dead {node.lease:g}s after they first saw it"
            )
            yield Cause("clock-lease", text, {"node": node.id, "until": node.alive_until})
