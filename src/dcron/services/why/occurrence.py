"""One time of a line: what the record has of it, and where it has nothing, why."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from dcron import policy
from dcron.errors import UsageError
from dcron.model import Definition, Run, RunState, Trigger
from dcron.schedule import Schedule, upcoming, zone
from dcron.schedule import explain as in_words
from dcron.services.why import passed, sources, waiting
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.lifetime import changes_times, lines_of
from dcron.services.why.record import of_run
from dcron.services.why.times import clock_change_at, occurs, previous, schedule_of
from dcron.store.history import AuditEntry


def explain(inquiry: Inquiry, moment: datetime, rows: Sequence[Run]) -> list[Cause]:
    """Why the line did, did not, or will not run at a time; `rows` are its runs of that time."""
    told = [cause for run in rows for cause in of_run(inquiry, run)]
    if rows:
        return [*told, *_note(inquiry, moment)]
    line = inquiry.life.definition_at(moment)
    if line is None:
        return [_not_there(inquiry, moment)]
    try:
        return _without_row(inquiry, line, moment)
    except UsageError as error:
        return [inquiry.suspended(str(error), moment)]


# Without a row --------------------------------------------------------------------------------------


def _without_row(inquiry: Inquiry, line: Definition, moment: datetime) -> list[Cause]:
    schedule = schedule_of(line)
    if not schedule.timed:
        return sources.at_no_time(inquiry, line, moment)
    if not occurs(replace(line, not_before=None, not_after=None), moment):
        return _no_such_time(inquiry, line, schedule, moment)
    if outside := _outside_window(inquiry, line, moment):
        return [outside]
    if moment > inquiry.now:
        return [*_to_come(inquiry, moment), *_note(inquiry, moment)]
    return [passed.explain(inquiry, moment), *_note(inquiry, moment)]


def _not_there(inquiry: Inquiry, moment: datetime) -> Cause:
    """The line was not in the crontab then."""
    if inquiry.life.last_until(moment - policy.INSTANT):
        return inquiry.removed(moment)
    added = inquiry.life.first_after(moment - policy.INSTANT)
    assert added
    sentence = f"{inquiry.name} was not there yet: it was added {inquiry.by_whom(added)}"
    return inquiry.told(
        moment, "not-yet", sentence, {"by": added.actor, "login": added.login, "since": added.at}
    )


def _no_such_time(inquiry: Inquiry, line: Definition, schedule: Schedule, moment: datetime) -> list[Cause]:
    near = {"before": previous(line, moment), "after": policy.next_occurrence(line, moment)}
    facts = {"schedule": line.schedule, **near}
    told = " and ".join(
        f"{inquiry.clock.time(each)}{_starts(inquiry, line, each)}" for each in near.values() if each
    )
    nearest = f"; its nearest are {told}" if told else "; it has no others"
    sentence = f"the schedule {line.schedule} ({in_words(schedule)}) has no such time{nearest}"
    found = [inquiry.told(moment, "no-such-time", sentence, facts)]
    if text := clock_change_at(line, moment):
        found.insert(0, inquiry.told(moment, "daylight-saving", f"the clocks change: {text}"))
    return found + _with_another_schedule(inquiry, moment)


def _starts(inquiry: Inquiry, line: Definition, occurrence: datetime) -> str:
    due = policy.due_at(line, occurrence)
    return f" (with its jitter {inquiry.clock.time(due)})" if due != occurrence else ""


def _with_another_schedule(inquiry: Inquiry, moment: datetime) -> list[Cause]:
    """The edit before or after which the line has, or had, the time."""
    edits = [each for each in inquiry.life.changes if each.action == "set" and changes_times(each)]
    for position, edit in enumerate(edits):
        following = edits[position + 1].at if position + 1 < len(edits) else None
        before, after = lines_of(edit)
        if edit.at <= moment and (following is None or moment < following) and _had(before, moment):
            return [_edited(inquiry, moment, edit, "until then its schedule was", before)]
        preceding = edits[position - 1].at if position else None
        if moment < edit.at and (preceding is None or preceding <= moment) and _had(after, moment):
            return [_edited(inquiry, moment, edit, "since then its schedule is", after)]
    return []


def _had(line: Definition | None, moment: datetime) -> bool:
    try:
        return line is not None and schedule_of(line).timed and occurs(line, moment)
    except UsageError:
        return False


def _edited(
    inquiry: Inquiry, moment: datetime, edit: AuditEntry, what: str, line: Definition | None
) -> Cause:
    schedule = f" {line.schedule} ({line.timezone})" if line else ""
    sentence = f"{inquiry.name} was changed {inquiry.by_whom(edit)}: {what}{schedule}, which has this time"
    return inquiry.told(moment, "edited", sentence, {"by": edit.actor, "login": edit.login, "since": edit.at})


def _outside_window(inquiry: Inquiry, line: Definition, moment: datetime) -> Cause | None:
    if line.not_before and moment < line.not_before:
        bound, what = line.not_before, "begins"
    elif line.not_after and moment > line.not_after:
        bound, what = line.not_after, "ends"
    else:
        return None
    option = "not_before" if what == "begins" else "not_after"
    sentence = f"it lies outside the window of {inquiry.name}, which {what} {inquiry.clock.time(bound)}"
    return inquiry.told(moment, "window", sentence, {option: bound})


# To come --------------------------------------------------------------------------------------------


def _to_come(inquiry: Inquiry, moment: datetime) -> list[Cause]:
    """Whether a turn that is yet to come will run."""
    task = inquiry.task
    if task is None:
        return [inquiry.removed(moment)]
    if task.error:
        return [inquiry.suspended(task.error, moment)]
    if calendar := policy.excluded_by(task, moment):
        return [inquiry.told(moment, "calendar", f"it will be skipped: {calendar}", {"reason": calendar})]
    found = []
    if not task.enabled:
        found.append(inquiry.paused(moment))
        if task.paused_until is None or moment <= task.paused_until:
            return found
    due = policy.due_at(task, moment)
    jitter = f", by its jitter {inquiry.clock.time(due)}" if due != moment else ""
    obstacles = _behind_another(inquiry, moment) or [
        inquiry.told(moment, each.code, each.sentence, dict(each.facts))
        for each in waiting.no_node(inquiry, policy.lane_of(task))
    ]
    will = "is due" if obstacles else "will run"
    sentence = f"{task.name} {will} then, {inquiry.clock.distance(due)}{jitter}"
    return [*found, inquiry.told(moment, "future", sentence, {"due_at": due}), *obstacles]


def _behind_another(inquiry: Inquiry, moment: datetime) -> list[Cause]:
    """The line's one turn, should that be due and not be taken: nobody can say when it is over."""
    for run in inquiry.unfinished:
        is_turn = run.trigger is Trigger.SCHEDULE and run.state is RunState.WAITING
        if is_turn and run.due_at <= inquiry.now and run.scheduled_for < moment:
            cause = passed.waits_with(inquiry, run, moment, "one comes after the other, and")
            if cause.code != "due" or run.backlog_until:
                return [cause]
    return []


# Clock changes --------------------------------------------------------------------------------------


def _note(inquiry: Inquiry, moment: datetime) -> list[Cause]:
    """What a clock change does to a turn that the line has."""
    line = inquiry.life.definition_at(moment)
    if line is None:
        return []
    try:
        after = moment - timedelta(microseconds=1)
        found = next(upcoming(schedule_of(line), zone(line.timezone), after, policy.rules_of(line)), None)
    except UsageError:
        return []
    if found is None or found.at != moment or not found.note:
        return []
    return [inquiry.told(moment, "daylight-saving", f"the clocks change: {found.note}")]
