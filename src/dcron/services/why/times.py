"""Why a task did, did not, or will not run at a time: ordered rules over the facts. The first one counts."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from dcron.errors import UsageError
from dcron.fields.retention import DEFAULTS, format_value
from dcron.model import Definition, Run, RunState, Trigger
from dcron.policy.history import RecordedChange
from dcron.policy.starting import lanes, occurrences
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.near import clock_change_at, occurs, previous_occurrence
from dcron.presentation.why import Cause
from dcron.schedule.explain import explain as in_words
from dcron.schedule.next_run import upcoming
from dcron.schedule.zones import zone
from dcron.services.why import flows, runs
from dcron.services.why.facts import Facts, TimeFacts, author
from dcron.store import history
from dcron.store.retention import history as past


def of_time(time: TimeFacts) -> list[Cause]:
    """Return why the task did, did not, or will not run at a time."""
    try:
        return runs.first(_OF_TIME, time.facts, time)
    except UsageError as error:
        return [time.facts.suspended(str(error), time.at)]


def _has_runs(facts: Facts, time: TimeFacts) -> list[Cause]:
    causes = [cause for run in time.rows for cause in runs.of_run(facts, run)]
    return [*causes, *_clock_change(facts, time)] if causes else []


def _is_not_in_crontab(facts: Facts, time: TimeFacts) -> list[Cause]:
    if time.definition:
        return []
    if facts.past.last(time.at - INSTANT):
        return [facts.removed(time.at)]
    added = facts.past.first(time.at - INSTANT)
    assert added
    return [facts.cause("not-yet", "", {"change": added}, at=time.at, **author(added))]


def _clock_change(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return what a clock change does to an occurrence that the task has."""
    if time.definition is None:
        return []
    try:
        rules = occurrences.rules_of(time.task)
        coming = upcoming(time.schedule, zone(time.task.timezone), time.at - INSTANT, rules)
        found = next(coming, None)
    except UsageError:
        return []
    if found is None or found.at != time.at or not found.note:
        return []
    return [facts.cause("daylight-saving", "", {"note": found.note}, at=time.at)]


# A time that the schedule does not have ---------------------------------------------------------------


def _has_no_times(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return why a task without times of its own has no run at this time."""
    if time.schedule.timed:
        return []
    is_past = time.at <= facts.now
    near = [(time.before, "the one before"), (time.after, "the one after")] if is_past else []
    words = {"in_words": in_words(time.schedule), "near": [(run, which) for run, which in near if run]}
    form = "no-such-time-then" if is_past else "no-such-time-of-its-own"
    cause = facts.cause("no-such-time", form, words, at=time.at, schedule=time.task.schedule)
    return [cause, *(flows.upstream_at(facts, time.schedule.after, time.at) if is_past else ())]


def _is_no_occurrence(facts: Facts, time: TimeFacts) -> list[Cause]:
    task = time.task
    if occurs(replace(task, not_before=None, not_after=None), time.at):
        return []
    near: dict[str, Any] = {
        "before": previous_occurrence(task, time.at),
        "after": occurrences.next_occurrence(task, time.at),
    }
    starts = [(each, occurrences.due_at(task, each)) for each in near.values() if each]
    words = {"in_words": in_words(time.schedule), "near": starts}
    form = "" if starts else "no-such-time-ever"
    cause = facts.cause("no-such-time", form, words, at=time.at, schedule=task.schedule, **near)
    note = clock_change_at(task, time.at)
    changed = [facts.cause("daylight-saving", "", {"note": note}, at=time.at)] if note else []
    return [*changed, cause, *_other_schedule(facts, time.at)]


def _other_schedule(facts: Facts, at: datetime) -> list[Cause]:
    """Return the edit before or after which the task has, or had, an occurrence at this time."""
    edits = [each for each in facts.past.changes if each.changes_times]
    for position, edit in enumerate(edits):
        following = edits[position + 1].at if position + 1 < len(edits) else None
        states = (edit.state_before, edit.state_after)
        before, after = (state.definition if state else None for state in states)
        if edit.at <= at and (following is None or at < following) and _had(before, at):
            return [_edited(facts, at, edit, "edited-after", before)]
        preceding = edits[position - 1].at if position else None
        if at < edit.at and (preceding is None or preceding <= at) and _had(after, at):
            return [_edited(facts, at, edit, "edited-before", after)]
    return []


def _had(task: Definition | None, at: datetime) -> bool:
    try:
        return task is not None and occurs(task, at)
    except UsageError:
        return False


def _edited(facts: Facts, at: datetime, edit: RecordedChange, form: str, task: Definition | None) -> Cause:
    return facts.cause("edited", form, {"change": edit, "task": task}, at=at, **author(edit))


def _is_outside_window(facts: Facts, time: TimeFacts) -> list[Cause]:
    task = time.task
    if task.not_before and time.at < task.not_before:
        return [facts.cause("window", "window-begins", at=time.at, not_before=task.not_before)]
    if task.not_after and time.at > task.not_after:
        return [facts.cause("window", "window-ends", at=time.at, not_after=task.not_after)]
    return []


# An occurrence to come --------------------------------------------------------------------------------


def _is_coming(facts: Facts, time: TimeFacts) -> list[Cause]:
    if time.at <= facts.now:
        return []
    return [*runs.first(_COMING, facts, time), *_clock_change(facts, time)]


def _is_removed(facts: Facts, time: TimeFacts) -> list[Cause]:
    return [] if facts.task else [facts.removed(time.at)]


def _is_suspended(facts: Facts, time: TimeFacts) -> list[Cause]:
    assert facts.task
    return [facts.suspended(facts.task.error, time.at)] if facts.task.error else []


def _is_excluded(facts: Facts, time: TimeFacts) -> list[Cause]:
    assert facts.task
    calendar = occurrences.excluded_by(facts.task, time.at)
    return [facts.cause("calendar", at=time.at, reason=calendar)] if calendar else []


def _is_paused_then(facts: Facts, time: TimeFacts) -> list[Cause]:
    task = facts.task
    assert task
    lasts = not task.enabled and (task.paused_until is None or time.at <= task.paused_until)
    return [facts.paused(time.at)] if lasts else []


def _will_run(facts: Facts, time: TimeFacts) -> list[Cause]:
    task, at = facts.task, time.at
    assert task
    paused = [] if task.enabled else [facts.paused(at)]
    due = occurrences.due_at(task, at)
    if frozen := facts.frozen(due, at):
        return [*paused, frozen]
    obstacles = _behind_another(facts, time) or [
        replace(each, about=at, facts={"at": at, **each.facts})
        for each in runs.no_node(facts, lanes.lane_of(task))
    ]
    words = {"will": "is due" if obstacles else "will run", "jitter": due if due != at else None}
    return [*paused, facts.cause("future", "", words, at=at, due_at=due), *obstacles]


def _behind_another(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return the task's scheduled run, if it is due and is not claimed: when it ends is unknown."""
    for run in facts.unfinished:
        is_scheduled = run.trigger is Trigger.SCHEDULE and run.state is RunState.WAITING
        if is_scheduled and run.due_at <= facts.now and run.scheduled_for < time.at:
            cause = runs.behind(facts, run, time.at, "behind")
            if cause.code != "due" or run.backlog_until:
                return [cause]
    return []


_COMING = (_is_removed, _is_suspended, _is_excluded, _is_paused_then, _will_run)


# An occurrence of the past without a run of its own ---------------------------------------------------


def _is_past(facts: Facts, time: TimeFacts) -> list[Cause]:
    return [*runs.first(_PAST, facts, time), *_clock_change(facts, time)]


def _is_covered(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return the row that covers several occurrences, with this one among them."""
    for run in (*time.runs_after, *time.runs_before):
        if run.covers and run.covers[0] <= time.at <= run.covers[1]:
            cause = runs.of_run(facts, run)[0]
            known = {**cause.facts, "at": time.at, "first": run.covers[0], "last": run.covers[1]}
            words = {"reason": run.reason, **runs.skip_details(facts, run)[0]}
            return [replace(cause, form="covered", about=time.at, facts=known, words=words)]
    return []


def _is_paused_since(facts: Facts, time: TimeFacts) -> list[Cause]:
    task = facts.task
    since = task and not task.enabled and (task.paused_at or task.changed_at)
    return [facts.paused(time.at)] if since and since <= time.at else []


def _is_suspended_since(facts: Facts, time: TimeFacts) -> list[Cause]:
    task = facts.task
    if task is None or not task.error:
        return []
    last = history.scheduled_runs_before(facts.connection, task.id, facts.now, 1)
    return [facts.suspended(task.error, time.at)] if not last or last[0].scheduled_for < time.at else []


def _was_paused(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return the pause of then, if the task was edited before it ended: the record has the new times only."""
    pause = facts.past.last(time.at, "pause", "resume")
    if pause is None or pause.action != "pause":
        return []
    if any(run.started_at and run.started_at > pause.at for run in time.runs_before):
        return []  # the pause had ended by its own `--until`
    more = {**author(pause), "reason": pause.pause_reason}
    return [facts.cause("paused", "paused-then", {"change": pause}, at=time.at, **more)]


def _is_pruned(facts: Facts, time: TimeFacts) -> list[Cause]:
    if not past.was_pruned(facts.connection, time.at, time.at):
        return []
    kept = past.settings_kept(facts.connection).get("runs", DEFAULTS["runs"])
    return [facts.cause("pruned", at=time.at, keep_runs=format_value("runs", kept))]


def _is_held_up(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return the earlier occurrence that had not begun by then: a task has one scheduled run at a time."""
    earlier = time.unfinished_before
    if waiting := [run for run in earlier if run.started_at is None]:
        return [runs.behind(facts, waiting[-1], time.at, "behind-past")]
    for run in (*earlier, *time.runs_before):
        since = run.started_at or run.finished_at
        if since and since >= time.at:
            words = {"begun": since, "inner": runs.of_run(facts, run)[0]}
            return [facts.cause("held-up", "", words, at=time.at, held_by=run.id)]
    return []


def _is_unplanned(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return that agents planned a new or changed task only later, or have yet to plan it."""
    task = facts.task
    if task and task.planned_version != task.version and not facts.unfinished:
        return [unplanned(facts, time.at)]
    if time.before or any(run.scheduled_for < time.at for run in facts.unfinished) or not time.following:
        return []
    following = time.following
    words = {"first": following}
    return [facts.cause("unplanned", "planned-late", words, at=time.at, after=following.scheduled_for)]


def unplanned(facts: Facts, at: datetime | None = None) -> Cause:
    """Return the cause of a task that no agent has planned as it is."""
    if facts.fleet:
        return facts.cause("unplanned", at=at)
    return facts.cause("unplanned", "unplanned-no-agent", {"inner": runs.no_agent(facts)}, at=at)


def _is_not_on_record(facts: Facts, time: TimeFacts) -> list[Cause]:
    """Return the last resort: a person has written, or deleted, rows with SQL."""
    near: list[Run] = [run for run in (time.before, time.following) if run]
    return [facts.cause("no-record", "", {"near": near}, at=time.at)]


_PAST = (
    _is_covered,
    _is_paused_since,
    _is_suspended_since,
    _was_paused,
    _is_pruned,
    _is_held_up,
    _is_unplanned,
    _is_not_on_record,
)
_OF_TIME = (
    _has_runs,
    _is_not_in_crontab,
    _has_no_times,
    _is_no_occurrence,
    _is_outside_window,
    _is_coming,
    _is_past,
)
