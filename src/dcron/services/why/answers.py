"""Answer the three questions of `dcron why`: about a time, a span, or the last and the next run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from dcron.errors import UsageError
from dcron.model import Definition, Run, RunState, Trigger
from dcron.policy.alert_facts import AlertFacts
from dcron.policy.starting import occurrences
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.near import previous_occurrence
from dcron.policy.starting.occurrences import schedule_of
from dcron.presentation import alerts, blame
from dcron.presentation.why import Cause
from dcron.schedule.next_run import clock_transitions
from dcron.schedule.zones import zone
from dcron.services.why import flows, incidents, times
from dcron.services.why.facts import MOST_TIMES, Facts, TimeFacts, author
from dcron.services.why.runs import of_run
from dcron.store import changes, history
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import listing as alert_list

_MERGED = frozenset(
    (
        *("future", "calendar", "frozen", "paused", "suspended", "unserved", "no-agent", "not-yet"),
        *("removed", "window"),
    )
)
"""Codes that are shown once for occurrences that follow each other."""


@dataclass(frozen=True)
class Span:
    """A range of time, such as a day."""

    first: datetime
    end: datetime
    """Not part of it."""


# At a time, and in a span -----------------------------------------------------------------------------


def of_time(facts: Facts, at: datetime) -> list[Cause]:
    """Explain an occurrence, or those in the minute that a person typed."""
    then = _of_name(facts, at)
    is_minute = at.second == 0 and at.microsecond == 0
    found = then.times_in(at, at + (timedelta(minutes=1) if is_minute else timedelta(seconds=1)))
    asked = [each for each in found if each.at == at] or found or [TimeFacts(then, at, ())]
    return [*chain.from_iterable(map(times.of_time, asked)), *_changes_since(then, at)]


def of_span(facts: Facts, span: Span) -> list[Cause]:
    """Explain all times in the span, equal causes once, up to MOST_TIMES."""
    then = _of_name(facts, span.end - INSTANT)
    asked = then.times_in(span.first, span.end)
    found = list(_merged(map(times.of_time, asked[:MOST_TIMES])))
    if not any(cause.code == "daylight-saving" for cause in found):
        found += _clock_changes(then, span)
    if not asked:
        found += times.of_time(TimeFacts(then, span.first, ()))
    found += [then.cause("more", at=None, after=each.at) for each in asked[MOST_TIMES : MOST_TIMES + 1]]
    return [*found, *_changes_since(facts, span.end)]


def _of_name(facts: Facts, at: datetime) -> Facts:
    """Return the facts of the task that had this name at the time, if it was another one."""
    if facts.past.planned_for(at) is not None:
        return facts
    task_id = changes.task_of_name(facts.connection, facts.name, at)
    return replace(facts, task_id=task_id) if task_id else facts


def _clock_changes(facts: Facts, span: Span) -> Iterator[Cause]:
    """Yield what a clock change in the span does to the task, whether it gains a time or loses one."""
    task = facts.past.planned_for(span.first) or facts.latest
    try:
        found = clock_transitions(schedule_of(task), zone(task.timezone), span.first, count=1) if task else []
    except UsageError:
        return
    for change in found:
        if change.at < span.end:
            yield facts.cause("daylight-saving", "", {"note": change.text}, at=change.at)


def _changes_since(facts: Facts, at: datetime) -> Iterator[Cause]:
    """Yield how the task was changed or removed since this time."""
    edits = facts.past.edits_since(at)
    if edits:
        last = edits[-1]
        fields = sorted({field for edit in edits for field in edit.fields})
        words = {"change": last, "times": len(edits) if len(edits) > 1 else None}
        yield facts.cause("changed-since", "", words, at=None, **author(last), fields=fields)
    removal = facts.past.removal()
    if removal and removal.at > at:
        yield facts.removed()


# Equal causes of several times, once ------------------------------------------------------------------


def _merged(groups: Iterable[list[Cause]]) -> Iterator[Cause]:
    """Yield the causes of each time; those that equal the ones before them only once."""
    kept: list[Cause] = []
    alike: list[datetime] = []
    for causes in groups:
        if kept and _is_same(kept, causes):
            alike.append(causes[0].facts["at"])
            continue
        yield from _with_count(kept, alike)
        kept, alike = causes, []
    yield from _with_count(kept, alike)


def _is_same(first: list[Cause], causes: list[Cause]) -> bool:
    if [each.code for each in first] != [each.code for each in causes]:
        return False
    before, after = first[0].facts, causes[0].facts
    if "first" in before:  # one row covers all of these
        return before.get("run") == after.get("run")
    pairs = zip(first, causes, strict=True)
    return after.get("run") is None and all(
        each.code in _MERGED or _held_alike(was, each) for was, each in pairs
    )


def _held_alike(before: Cause, after: Cause) -> bool:
    by = after.facts.get("held_by")
    return by is not None and by == before.facts.get("held_by")


def _with_count(causes: list[Cause], alike: Sequence[datetime], least: str = "") -> list[Cause]:
    """Return the causes; the first one says how many others it is about. `least` goes before their number."""
    if not alike:
        return causes
    inner = causes[0]
    form = "alike" if len(alike) > 1 else "alike-one"
    counted = {**inner.facts, "more": len(alike), "until": alike[-1]}
    words = {"inner": inner, "least": least}
    return [replace(inner, form=form, facts=counted, words=words), *causes[1:]]


# Without a time ---------------------------------------------------------------------------------------


def lately(facts: Facts) -> list[Cause]:
    """Explain how the task did last, what it does now, and when it runs next."""
    # A cause of one time is not repeated for another time, or for all.
    first: dict[str, Cause] = {}
    for cause in (*_last(facts), *_now(facts), *_next(facts), *_alerts(facts), *incidents.recent(facts)):
        first.setdefault(cause.text, cause)
    return list(first.values())


def _alerts(facts: Facts) -> list[Cause]:
    """Explain what is wrong with the task, and what changed before it began."""
    found = alert_list.of_tasks(facts.connection, [facts.task_id]).get(facts.task_id, [])
    return [_alert(facts, each) for each in alert_facts.read(facts.connection, found, facts.now)]


def _alert(facts: Facts, found: AlertFacts) -> Cause:
    alert, known = found.alert, blame.of(found)
    words: dict[str, Any] = {"is_now": alerts.word(alert.kind), "blame": known and known.sentence}
    if alerts.is_acknowledged(alert, facts.now):
        words |= {"known": alert.acknowledged_by, "note": alert.acknowledged_note}
    began: dict[str, Any] = {"began": known.text, "difference": list(known.difference)} if known else {}
    about: dict[str, Any] = {"at": None, "alert": alert.id, "kind": alert.kind, "since": alert.opened_at}
    return facts.cause("alert", "", words, **about, **began)


def _last(facts: Facts) -> list[Cause]:
    """Explain the task's last occurrence, and its latest run if that is another one."""
    at = _last_occurrence(facts)
    latest = history.latest(facts.connection, facts.task_id, 1)
    found: list[Cause] = []
    if at and (not latest or latest[0].scheduled_for <= at):
        # What a waiting run holds up is explained with that run.
        causes = times.of_time(facts.time(at))
        # Nor is a time before the task existed: it has no last run.
        found += (cause for cause in causes if not cause.facts.get("held_by") and cause.code != "not-yet")
    elif not latest and not facts.unfinished:
        found.append(facts.cause("never"))
    explained = {cause.facts.get("run") for cause in found}
    others = (run for run in latest if run.id not in explained)
    return [*(cause for run in others for cause in of_run(facts, run)), *found]


def _last_occurrence(facts: Facts) -> datetime | None:
    removal = facts.past.removal()
    until = removal.at if removal else facts.now
    try:
        if facts.latest and schedule_of(facts.latest).timed:
            return previous_occurrence(facts.latest, until + INSTANT)
    except UsageError:
        return None
    return None


def _now(facts: Facts) -> Iterator[Cause]:
    """Explain what is running, or waits beside the next occurrence. Runs that wait alike are counted."""
    least = "at least" if len(facts.unfinished) >= history.MOST_UNFINISHED else ""
    for alike in _waiting_alike(facts):
        yield from _with_count(of_run(facts, alike[0]), [run.scheduled_for for run in alike[1:]], least)


def _waiting_alike(facts: Facts) -> Iterable[list[Run]]:
    """Return the unfinished runs, those together that wait for the same; not the next occurrence."""
    groups: dict[Any, list[Run]] = {}
    for run in facts.unfinished:
        waits = run.state is RunState.WAITING
        is_due = run.due_at <= facts.now
        if waits and run.trigger is Trigger.SCHEDULE and not run.blocked and not is_due:
            continue
        alike = (run.trigger, run.blocked, run.lane, is_due) if waits and is_due else run.id
        groups.setdefault(alike, []).append(run)
    return list(groups.values())[:MOST_TIMES]


def _next(facts: Facts) -> list[Cause]:
    """Explain when the task runs next, or why it does not."""
    task = facts.task
    if task is None:
        return [facts.removed()]
    if problem := task.error or _problem(task, facts.now):
        return [facts.suspended(problem)]
    if not task.enabled:
        return [facts.paused()]
    frozen = facts.frozen(facts.now)
    by_clock = occurrences.is_timed(task) or occurrences.delay_of(task)
    following = flows.waits_for(facts, task) + (_next_occurrence(facts) if by_clock else [])
    return [*([frozen] if frozen else []), *following]


def _problem(task: Definition, now: datetime) -> str | None:
    """Return why agents cannot compute the times of the task; None when they can."""
    try:
        occurrences.next_occurrence(task, now)
    except UsageError as error:
        return str(error)
    return None


def _next_occurrence(facts: Facts) -> list[Cause]:
    task = facts.task
    assert task
    scheduled = next((run for run in facts.unfinished if run.trigger is Trigger.SCHEDULE), None)
    if scheduled is None and task.planned_version != task.version:
        return [times.unplanned(facts)]
    if occurrences.delay_of(task):
        return of_run(facts, scheduled) if scheduled else []
    following = occurrences.next_occurrence(task, facts.now)
    if following is None:
        return [facts.cause("no-more-times", at=None, schedule=task.schedule)]
    # The next occurrence, and the next one that no calendar excludes.
    allowed = occurrences.next_not_excluded(task, facts.now)
    asked = [following] if allowed in (None, following) else [following, allowed]
    waiting = facts.unfinished
    rows = {each: [run for run in waiting if run.scheduled_for == each] for each in asked if each}
    return [cause for at in rows for cause in times.of_time(TimeFacts(facts, at, rows[at]))]
