"""Turns of the past without a row of their own: another row tells of them, or is about to."""

from datetime import datetime

from dcron.model import Run, RunState, Trigger
from dcron.services.why import waiting
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.record import of_run
from dcron.store import history

_NEAR_TURNS = 5
_TURNS = (Trigger.SCHEDULE, Trigger.NODE)


def explain(inquiry: Inquiry, moment: datetime) -> Cause:
    """A turn of the past that has no row of its own: another row tells of it, or is about to."""
    return (
        _told_together(inquiry, moment)
        or _rests(inquiry, moment)
        or _rested(inquiry, moment)
        or _held_up(inquiry, moment)
        or _unplanned(inquiry, moment)
        or _nothing_on_record(inquiry, moment)
    )


def _told_together(inquiry: Inquiry, moment: datetime) -> Cause | None:
    """The row that stands for several turns, this one among them."""
    near = history.turns_after(inquiry.connection, inquiry.task_id, moment, _NEAR_TURNS)
    near += history.turns_before(inquiry.connection, inquiry.task_id, moment, _NEAR_TURNS)
    for run in near:
        span = run.covers
        if span and span[0] <= moment <= span[1]:
            told = of_run(inquiry, run)[0]
            rest = told.sentence.partition(" did not run: ")[2] or run.reason
            facts = {**told.facts, "at": moment, "first": span[0], "last": span[1]}
            return inquiry.told(moment, told.code, f"not run, as run {run.id} tells: {rest}", facts)
    return None


def _rests(inquiry: Inquiry, moment: datetime) -> Cause | None:
    """The line is paused, or suspended, since before then."""
    task = inquiry.task
    if task is None or (task.enabled and not task.error):
        return None
    if not task.enabled and (task.paused_at or task.changed_at) <= moment:
        return inquiry.paused(moment)
    last = history.turns_before(inquiry.connection, task.id, inquiry.now, 1)
    if task.error and (not last or last[0].scheduled_for < moment):
        return inquiry.suspended(task.error, moment)
    return None


def _held_up(inquiry: Inquiry, moment: datetime) -> Cause | None:
    """A line has one turn at a time, and the one before was not begun by then."""
    standing = [run for run in inquiry.unfinished if run.trigger in _TURNS and run.scheduled_for < moment]
    before = [run for run in standing if run.started_at is None]
    if before:
        return waits_with(inquiry, before[-1], moment, "not run yet, for")
    done = [
        *(run for run in standing if run.started_at),
        *history.turns_before(inquiry.connection, inquiry.task_id, moment, _NEAR_TURNS),
    ]
    for run in done:
        begun = run.started_at or run.finished_at
        if begun and begun >= moment:
            sentence = f"the turn before it was not begun until {inquiry.clock.time(begun)}: "
            cause = of_run(inquiry, run)[0]
            return inquiry.told(moment, "held-up", sentence + cause.sentence, {"held_by": run.id})
    return None


def waits_with(inquiry: Inquiry, run: Run, moment: datetime, begin: str) -> Cause:
    """The turn will be told, or made up for, when the one before it is taken."""
    is_due = run.state is RunState.WAITING and run.blocked is None and run.due_at <= inquiry.now
    told = (waiting.why_not_taken if is_due else waiting.explain)(inquiry, run)[0]
    turn = f"the turn of {inquiry.clock.time(run.scheduled_for)} has not begun (run {run.id})"
    facts = {**told.facts, "at": moment, "held_by": run.id}
    return inquiry.told(moment, told.code, f"{begin} {turn}: {told.sentence}", facts)


def _rested(inquiry: Inquiry, moment: datetime) -> Cause | None:
    """The line was paused then, and changed before the pause ended: its record has only the new times."""
    pause = inquiry.life.last_until(moment, "pause", "resume")
    if pause is None or pause.action != "pause":
        return None
    before = history.turns_before(inquiry.connection, inquiry.task_id, moment, _NEAR_TURNS)
    if any(run.started_at and run.started_at > pause.at for run in before):
        return None  # it had ended by itself
    reason = (pause.after or {}).get("reason")
    sentence = f"{inquiry.name} was paused {inquiry.by_whom(pause)}{f': {reason}' if reason else ''}"
    facts = {"by": pause.actor, "login": pause.login, "since": pause.at, "reason": reason}
    return inquiry.told(moment, "paused", sentence, facts)


def _unplanned(inquiry: Inquiry, moment: datetime) -> Cause | None:
    """The line was written by hand, or changed, and agents planned it only later, or not yet."""
    task = inquiry.task
    if task and task.planned_version != task.version and not inquiry.unfinished:
        return unplanned(inquiry, moment)
    first = history.nearest(inquiry.connection, inquiry.task_id, moment, later=False)
    if first is not None or any(run.scheduled_for < moment for run in inquiry.unfinished):
        return None
    following = _next_on_record(inquiry, moment)
    if following is None:
        return None
    sentence = (
        f"nothing is on record of {inquiry.name} until then: agents first planned it for"
        f" {inquiry.clock.time(following.scheduled_for)} (run {following.id})"
    )
    return inquiry.told(moment, "unplanned", sentence, {"after": following.scheduled_for})


def unplanned(inquiry: Inquiry, moment: datetime | None = None) -> Cause:
    """No agent has planned the line as it is."""
    agents = "an agent does so at its next look" if inquiry.fleet else waiting.nobody(inquiry).sentence
    sentence = f"{inquiry.name} is new or changed, and not planned yet; {agents}"
    return inquiry.told(moment, "unplanned", sentence)


def _next_on_record(inquiry: Inquiry, moment: datetime) -> Run | None:
    later = [run for run in inquiry.unfinished if run.scheduled_for > moment]
    if found := history.nearest(inquiry.connection, inquiry.task_id, moment, later=True):
        later.append(found)
    return min(later, key=lambda run: run.scheduled_for, default=None)


def _nothing_on_record(inquiry: Inquiry, moment: datetime) -> Cause:
    """The last resort: somebody has written, or deleted, rows by hand."""
    before = history.nearest(inquiry.connection, inquiry.task_id, moment, later=False)
    after = _next_on_record(inquiry, moment)
    told = " and ".join(
        f"run {run.id}, {inquiry.clock.time(run.scheduled_for)}" for run in (before, after) if run
    )
    sentence = f"the schedule has this time, and no row tells of it; the nearest are {told or 'gone too'}"
    return inquiry.told(moment, "no-record", sentence)
