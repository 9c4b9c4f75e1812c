"""Without a time: how the line did last, what it does now, and when it runs next."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from dcron import policy
from dcron.errors import UsageError
from dcron.model import RunState, Trigger
from dcron.services.why import incidents, passed, record, sources, waiting
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.stretch import MOST_TIMES, explained, rows_between
from dcron.services.why.times import previous, schedule_of
from dcron.store import history


def explain(inquiry: Inquiry) -> list[Cause]:
    happened = [*incidents.recent(inquiry), *incidents.overlong_leases(inquiry)]
    found = [*_last(inquiry), *_now(inquiry), *_next(inquiry), *happened]
    # What is said of one time need not be said once more of another, or of all.
    first: dict[str, Cause] = {}
    for cause in found:
        first.setdefault(cause.gist, cause)
    return list(first.values())


def _last(inquiry: Inquiry) -> list[Cause]:
    """The last time the line had, and its latest run if that is another one."""
    moment = _last_time(inquiry)
    latest = history.latest(inquiry.connection, inquiry.task_id, 1)
    found: list[Cause] = []
    if moment and (not latest or latest[0].scheduled_for <= moment):
        rows = rows_between(inquiry, moment, moment + policy.INSTANT)
        # What is held up by a run that waits is told with that run.
        causes = chain.from_iterable(explained(inquiry, [moment], rows))
        found += (cause for cause in causes if not cause.facts.get("held_by"))
    elif not latest and not inquiry.unfinished:
        found.append(Cause("never", f"{inquiry.name} has not run yet"))
    told = {cause.facts.get("run") for cause in found}
    return [
        *(cause for run in latest if run.id not in told for cause in record.of_run(inquiry, run)),
        *found,
    ]


def _last_time(inquiry: Inquiry) -> datetime | None:
    removal = inquiry.life.removal()
    until = removal.at if removal else inquiry.now
    try:
        if inquiry.line and schedule_of(inquiry.line).timed:
            return previous(inquiry.line, until + policy.INSTANT)
    except UsageError:
        return None
    return None


def _now(inquiry: Inquiry) -> Iterator[Cause]:
    """What is under way, or waits beside the next turn."""
    for run in inquiry.unfinished[:MOST_TIMES]:
        is_next = run.trigger is Trigger.SCHEDULE and run.state is RunState.WAITING
        if not is_next or run.blocked or run.due_at <= inquiry.now:
            yield from waiting.explain(inquiry, run)


def _next(inquiry: Inquiry) -> list[Cause]:
    """When the line runs next, or why it does not."""
    task = inquiry.task
    if task is None:
        return [inquiry.removed()]
    if task.error:
        return [inquiry.suspended(task.error)]
    if problem := inquiry.problem(task):
        return [inquiry.suspended(problem)]
    if not task.enabled:
        return [inquiry.paused()]
    following = sources.waits_for(inquiry, task)
    return following + (_next_time(inquiry) if policy.is_timed(task) or policy.delay_of(task) else [])


def _next_time(inquiry: Inquiry) -> list[Cause]:
    task = inquiry.task
    assert task
    turn = next((run for run in inquiry.unfinished if run.trigger is Trigger.SCHEDULE), None)
    if turn is None and task.planned_version != task.version:
        return [passed.unplanned(inquiry)]
    if policy.delay_of(task):
        return waiting.explain(inquiry, turn) if turn else []
    return _coming_times(inquiry)


def _coming_times(inquiry: Inquiry) -> list[Cause]:
    """The line's next time, and the one that calendars leave if they exclude it."""
    task = inquiry.task
    assert task
    following = policy.next_occurrence(task, inquiry.now)
    wanted = policy.next_wanted(task, inquiry.now)
    if following is None:
        sentence = f"{task.name} has no further times: its schedule is {task.schedule}"
        return [inquiry.told(None, "no-more-times", sentence, {"schedule": task.schedule})]
    moments = [following] if wanted in (None, following) else [following, wanted]
    rows = [run for run in inquiry.unfinished if run.scheduled_for in moments]
    return list(chain.from_iterable(explained(inquiry, [each for each in moments if each], rows)))
