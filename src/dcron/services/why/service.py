"""Why a task did, did not, or will not run: `dcron why`, and the same question in the TUI."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from dcron import policy
from dcron.errors import UsageError, ZoneError
from dcron.model import Run, RunState, Trigger
from dcron.policy import INSTANT
from dcron.presentation import alerts
from dcron.presentation.alerts import AlertFacts
from dcron.quantities import is_duration
from dcron.schedule import clock_transitions, parse_time, zone
from dcron.services.crontab import Crontab
from dcron.services.why import pending, recorded
from dcron.services.why.context import (
    Context,
    author,
    changed_fields,
    occurrences_between,
    previous_occurrence,
    schedule_of,
)
from dcron.services.why.run_causes import Cause, Span
from dcron.store import alert_causes, alert_list, history, runs, tasks

MOST_TIMES = 200
"""Times of a task that one answer explains."""
_MOST_ROWS = 1000
_MERGED = frozenset(
    (
        "future",
        "calendar",
        "frozen",
        "paused",
        "suspended",
        "unserved",
        "no-agent",
        "not-yet",
        "removed",
        "window",
    )
)
"""Codes that are shown once for occurrences that follow each other."""
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


class Why:
    """Explains the runs of a crontab's tasks. Every method is one transaction that only reads."""

    def __init__(self, crontab: Crontab, here: tzinfo | None = None) -> None:
        """Use the crontab's database. Sentences have times in the zone `here`, or in the task's."""
        self._crontab = crontab
        self._here = here
        self._database = crontab.database

    def meant(self, task_name: str, text: str) -> datetime | Span:
        """Return the time or the day that a text means in the task's zone. Raises NotFound or UsageError."""
        return read_when(text, self._timezone(task_name), self._crontab.now())

    def _timezone(self, task_name: str) -> str:
        """Return the task's zone, also that of a removed task."""
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            task = self._context(connection, task_name, task_id).latest
        try:
            return zone(task.timezone).key if task else "UTC"
        except ZoneError:
            return "UTC"

    def explain(self, task_name: str, when: datetime | Span | None = None) -> list[Cause]:
        """Return why the task did, did not, or will not run: at a time, in a span, or lately and next.

        The time is an occurrence of the task, or a minute that contains some. Raises NotFound.
        """
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            context = self._context(connection, task_name, task_id)
            if when is None:
                return _lately(context)
            if isinstance(when, Span):
                return [*_span(context, when), *_changes_since(context, when.end)]
            context = _with_task_of(context, when)
            return [*_time(context, when), *_changes_since(context, when)]

    def not_over(self, run: Run) -> list[Cause]:
        """Return what an unfinished run waits for, or that it runs; nothing once it is over."""
        with self._database.read() as connection:
            context = self._context(connection, run.task, run.about_task)
            current = runs.by_id(connection, run.id)
            return pending.of_run(context, current) if current and not current.state.is_final else []

    def _context(self, connection: Connection, name: str, task_id: int) -> Context:
        task = tasks.by_id(connection, task_id)
        now = self._database.now(connection)
        return Context(connection, now, task.name if task else name, task_id, self._here)


def read_when(text: str, timezone: str, now: datetime) -> datetime | Span:
    """Return the time that a text means: a clock time alone is today's, a date alone is all of that day."""
    if is_duration(text):
        raise UsageError(f"{text} is a duration; write +{text} for the time in {text}, or a date and a time")
    here = zone(timezone)
    words = _with_date(text.split(), here, now)
    first = parse_time(" ".join(words), here, now)
    if len(words) == 1 and _DATE.fullmatch(words[0]):
        following = datetime.fromisoformat(words[0]).date() + timedelta(days=1)
        return Span(first, parse_time(following.isoformat(), here, now))
    return first


def _with_date(words: Sequence[str], here: tzinfo, now: datetime) -> list[str]:
    """Return `yesterday 9:00` as `2027-06-01 09:00`."""
    words = [f"0{word}" if word[1:2] == ":" else word for word in words]
    if words and _CLOCK.fullmatch(words[0]):
        words = ["today", *words]
    if not words or words[0].lower() not in _DAYS:
        return words
    day = now.astimezone(here).date() + timedelta(days=_DAYS[words[0].lower()])
    return [day.isoformat(), *words[1:]]


# At a time, and in a span -----------------------------------------------------------------------------


def _time(context: Context, at: datetime) -> list[Cause]:
    """Explain an occurrence, or those in the minute that a person typed."""
    is_minute = at.second == 0 and at.microsecond == 0
    end = at + (timedelta(minutes=1) if is_minute else timedelta(seconds=1))
    rows = _rows_between(context, at, end)
    times = _times_between(context, rows, at, end)
    if at in times or not times:
        times = [at]
    return list(chain.from_iterable(_explained(context, times, rows)))


def _span(context: Context, span: Span) -> list[Cause]:
    """Explain all times in the span, equal causes once, up to MOST_TIMES."""
    context = _with_task_of(context, span.end - INSTANT)
    rows = _rows_between(context, span.first, span.end)
    times = _times_between(context, rows, span.first, span.end)
    if not times:
        return [*_clock_changes(context, span), *recorded.occurrence(context, span.first, [])]
    found = list(_merged(context, _explained(context, times[:MOST_TIMES], rows)))
    if not any(cause.code == "daylight-saving" for cause in found):
        found += _clock_changes(context, span)
    if len(times) > MOST_TIMES:
        following = times[MOST_TIMES]
        text = f"there is more: go on with {context.time(following)}"
        found.append(context.cause(None, "more", text, {"after": following}))
    return found


def _with_task_of(context: Context, at: datetime) -> Context:
    """Return the context of the task that had this name at the time, if it was another one."""
    if context.past.definition_at(at) is not None:
        return context
    task_id = history.task_of_name(context.connection, context.name, at)
    return replace(context, task_id=task_id) if task_id else context


def _rows_between(context: Context, first: datetime, end: datetime) -> list[Run]:
    rows = history.finished(context.connection, context.task_id, first, end, _MOST_ROWS)
    rows += [run for run in context.unfinished if first <= run.scheduled_for < end]
    return sorted(rows, key=lambda run: (run.scheduled_for, run.id))


def _times_between(context: Context, rows: Iterable[Run], first: datetime, end: datetime) -> list[datetime]:
    """Return the times from `first` to `end` that the task had, or has runs of; a few above MOST_TIMES."""
    found = {run.scheduled_for for run in rows}
    for start, stop, task in context.past.periods(first, end):
        try:
            if schedule_of(task).timed:
                found.update(occurrences_between(task, start, stop, MOST_TIMES + 1))
        except UsageError:  # the explanation of the task says so
            continue
    return sorted(found)


def _explained(context: Context, times: Iterable[datetime], rows: Iterable[Run]) -> Iterator[list[Cause]]:
    """Yield the causes of each of these times; `rows` are the task's runs of all of them."""
    of_time: dict[datetime, list[Run]] = {}
    for run in rows:
        of_time.setdefault(run.scheduled_for, []).append(run)
    for at in times:
        yield recorded.occurrence(context, at, of_time.get(at, []))


def _clock_changes(context: Context, span: Span) -> Iterator[Cause]:
    """Yield what a clock change in the span does to the task, whether it gains a time or loses one."""
    task = context.past.definition_at(span.first) or context.latest
    try:
        found = clock_transitions(schedule_of(task), zone(task.timezone), span.first, count=1) if task else []
    except UsageError:
        return
    for change in found:
        if change.at < span.end:
            yield context.cause(change.at, "daylight-saving", f"the clocks change: {change.text}")


def _changes_since(context: Context, at: datetime) -> Iterator[Cause]:
    """Yield how the task was changed or removed since this time."""
    edits = context.past.edits_since(at)
    if edits:
        last = edits[-1]
        fields = sorted({field for edit in edits for field in changed_fields(edit)})
        times = f" {len(edits)} times, last" if len(edits) > 1 else ""
        text = f"{context.name} was changed since,{times} {context.by_whom(last)}: {', '.join(fields)}"
        yield context.cause(None, "changed-since", text, {**author(last), "fields": fields})
    removal = context.past.removal()
    if removal and removal.at > at:
        yield context.removed()


# Equal causes of several times, once ------------------------------------------------------------------


def _merged(context: Context, groups: Iterable[list[Cause]]) -> Iterator[Cause]:
    """Yield the causes of each time; those that equal the ones before them only once."""
    kept: list[Cause] = []
    alike: list[Cause] = []
    for causes in groups:
        if kept and _is_same(kept, causes):
            alike.append(causes[0])
            continue
        yield from _with_count(context, kept, alike)
        kept, alike = causes, []
    yield from _with_count(context, kept, alike)


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


def _with_count(context: Context, causes: list[Cause], alike: list[Cause]) -> list[Cause]:
    """Return the causes; the first one says how many more it stands for."""
    if not alike:
        return causes
    until = alike[-1].facts["at"]
    what = "1 more" if len(alike) == 1 else f"{len(alike):,} more, up to"
    more = f"; the same holds for {what} {context.time(until)}"
    facts = {**causes[0].facts, "more": len(alike), "until": until}
    return [replace(causes[0], text=causes[0].text + more, facts=facts), *causes[1:]]


# Without a time ---------------------------------------------------------------------------------------


def _lately(context: Context) -> list[Cause]:
    """Explain how the task did last, what it does now, and when it runs next."""
    happened = [*recorded.incidents(context), *recorded.overlong_leases(context)]
    # A cause of one time is not repeated for another time, or for all.
    first: dict[str, Cause] = {}
    for cause in (*_last(context), *_now(context), *_next(context), *_alerts(context), *happened):
        first.setdefault(cause.text, cause)
    return list(first.values())


def _alerts(context: Context) -> list[Cause]:
    """Explain what is wrong with the task, and what changed before it began."""
    found = alert_list.of_tasks(context.connection, [context.task_id]).get(context.task_id, [])
    return [_alert(context, facts) for facts in alert_causes.read(context.connection, found, context.now)]


def _alert(context: Context, found: AlertFacts) -> Cause:
    alert = found.alert
    text = f"{context.name} is {alerts.word(alert.kind)} since {context.time(alert.opened_at)}"
    if found.blame:
        text += f"; it {found.blame.sentence}"
    if alert.acknowledged_by and alerts.is_acknowledged(alert, context.now):
        note = f": {alert.acknowledged_note}" if alert.acknowledged_note else ""
        text += f" (acknowledged by {alert.acknowledged_by}{note})"
    facts: dict[str, Any] = {"at": None, "alert": alert.id, "kind": alert.kind, "since": alert.opened_at}
    if found.blame:
        facts |= {"began": found.blame.text, "difference": list(found.blame.difference)}
    return Cause("alert", text, facts)


def _last(context: Context) -> list[Cause]:
    """Explain the task's last occurrence, and its latest run if that is another one."""
    at = _last_occurrence(context)
    latest = history.latest(context.connection, context.task_id, 1)
    found: list[Cause] = []
    if at and (not latest or latest[0].scheduled_for <= at):
        rows = _rows_between(context, at, at + INSTANT)
        # What a waiting run holds up is explained with that run.
        causes = chain.from_iterable(_explained(context, [at], rows))
        found += (cause for cause in causes if not cause.facts.get("held_by"))
    elif not latest and not context.unfinished:
        found.append(Cause("never", f"{context.name} has not run yet"))
    explained = {cause.facts.get("run") for cause in found}
    others = (run for run in latest if run.id not in explained)
    return [*(cause for run in others for cause in recorded.of_run(context, run)), *found]


def _last_occurrence(context: Context) -> datetime | None:
    removal = context.past.removal()
    until = removal.at if removal else context.now
    try:
        if context.latest and schedule_of(context.latest).timed:
            return previous_occurrence(context.latest, until + INSTANT)
    except UsageError:
        return None
    return None


def _now(context: Context) -> Iterator[Cause]:
    """Explain what is running, or waits beside the next occurrence."""
    for run in context.unfinished[:MOST_TIMES]:
        is_next = run.trigger is Trigger.SCHEDULE and run.state is RunState.WAITING
        if not is_next or run.blocked or run.due_at <= context.now:
            yield from pending.of_run(context, run)


def _next(context: Context) -> list[Cause]:
    """Explain when the task runs next, or why it does not."""
    task = context.task
    if task is None:
        return [context.removed()]
    if problem := task.error or context.problem(task):
        return [context.suspended(problem)]
    if not task.enabled:
        return [context.paused()]
    frozen = context.frozen(context.now)
    by_clock = policy.is_timed(task) or policy.delay_of(task)
    following = pending.waits_for(context, task) + (_next_occurrence(context) if by_clock else [])
    return [*([frozen] if frozen else []), *following]


def _next_occurrence(context: Context) -> list[Cause]:
    task = context.task
    assert task
    scheduled = next((run for run in context.unfinished if run.trigger is Trigger.SCHEDULE), None)
    if scheduled is None and task.planned_version != task.version:
        return [pending.unplanned(context)]
    if policy.delay_of(task):
        return pending.of_run(context, scheduled) if scheduled else []
    following = policy.next_occurrence(task, context.now)
    if following is None:
        text = f"{task.name} has no further times: its schedule is {task.schedule}"
        return [context.cause(None, "no-more-times", text, {"schedule": task.schedule})]
    # The next occurrence, and the next one that no calendar excludes.
    allowed = policy.next_not_excluded(task, context.now)
    times = [following] if allowed in (None, following) else [following, allowed]
    rows = [run for run in context.unfinished if run.scheduled_for in times]
    return list(chain.from_iterable(_explained(context, [each for each in times if each], rows)))
