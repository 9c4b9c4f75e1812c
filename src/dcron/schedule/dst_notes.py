"""Describe in English what clock changes do to a schedule."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta
from itertools import islice

from dcron.schedule.cron_expression import Cron
from dcron.schedule.dst_rules import LocalTimes
from dcron.schedule.fields import HOUR
from dcron.schedule.kinds import At, Every, Schedule, Timed, next_instant
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rules import Rules
from dcron.schedule.transitions import DAY, REACH, SECOND, Transition, ZoneClock

_SHOWN = 3
"""Most local times listed in a sentence; more are dots."""
_AFTERWARDS = timedelta(days=7)
"""How long after a gap a run still mentions what was lost: until a weekly run comes again."""


def note(schedule: Schedule, clock: ZoneClock, instant: datetime, rules: Rules) -> str | None:
    """Return what a clock change does to the occurrence at this instant; None nearly always."""
    notes = [
        _gap_note(form, clock, transition, instant, rules)
        or _fold_note(form, clock, transition, instant, rules)
        for transition in clock.transitions(instant - _AFTERWARDS, instant + REACH)
        for form in schedule.timed_forms
    ]
    return "; ".join(dict.fromkeys(filter(None, notes))) or None


def is_about(at: datetime, transition: Transition) -> bool:
    """Return whether a note on an occurrence at `at` mentions this transition."""
    return transition.at - REACH < at <= transition.at + _AFTERWARDS


def _gap_note(
    form: Timed, clock: ZoneClock, transition: Transition, instant: datetime, rules: Rules
) -> str | None:
    """Return the note on the run that replaces local times in a gap, or on the first run after lost ones."""
    if not transition.is_gap or instant < transition.at:
        return None
    if instant != transition.at and not _loses(form, transition, rules):
        return None
    if next_instant(form, clock, transition.at - SECOND, rules) != instant:
        return None
    return effect(form, clock, transition, rules)


def _fold_note(
    form: Timed, clock: ZoneClock, transition: Transition, instant: datetime, rules: Rules
) -> str | None:
    """Return the note on an occurrence whose local time comes twice."""
    at = clock.local_time(instant)
    if not transition.repeats(at) or next_instant(form, clock, instant - SECOND, rules) != instant:
        return None
    times = local_times_of(form)
    if times is None or times.next_local_time(at - SECOND) != at:
        return None
    zone_name = instant.astimezone(clock.zone).tzname()
    if _runs_once(form, rules):
        return f"{_twice([at])}: runs the first time only, {zone_name}"
    return f"{_twice([at])}: this is the {'first' if instant < transition.at else 'second'}, {zone_name}"


def effect(form: Timed, clock: ZoneClock, transition: Transition, rules: Rules) -> str | None:
    """Return what this transition does to a form; None if the form names no local time that it affects."""
    times = list(islice(touched(form, transition, rules), _SHOWN + 1))
    if not times:
        return None
    if not transition.is_gap:
        return (
            f"{_twice(times)}: {'only the first time runs' if _runs_once(form, rules) else 'both times run'}"
        )
    missing = f"{_some(times)} {'does' if len(times) == 1 else 'do'} not exist on {times[0]:%Y-%m-%d}"
    if _is_interval(form):
        return f"{missing}: left out"
    if _loses(form, transition, rules):
        return f"{missing}: no run"
    day = f"{transition.local_after:%Y-%m-%d} " if transition.local_after.date() != times[0].date() else ""
    once = "runs" if len(times) == 1 else "one run"
    zone_name = transition.at.astimezone(clock.zone).tzname()
    return f"{missing}: {once} at {day}{_time(transition.local_after)}, {zone_name}"


def touched(form: Timed, transition: Transition, rules: Rules) -> Iterator[datetime]:
    """Yield the local times of a form that this transition leaves out or repeats, and that would run."""
    times = local_times_of(form)
    if times is None or not in_window(form, transition, rules):
        return
    runs_late = transition.is_gap and not _loses(form, transition, rules)
    first, end = transition.local_times
    after = first - SECOND
    while (at := times.next_local_time(after)) is not None and at < end:
        day = (transition.local_after if runs_late else at).date()
        if rules.excluded_by(day) is None:
            yield at
            after = at
        else:
            after = datetime.combine(at, time.max)  # the rest of the date is excluded too


def in_window(form: Timed, transition: Transition, rules: Rules) -> bool:
    """Return whether the window allows a run at the transition."""
    ends = [rules.not_after, form.until if isinstance(form, Recurrence) else None]
    begun = rules.not_before is None or rules.not_before <= transition.at
    return begun and all(end is None or transition.at <= end for end in ends)


def _loses(form: Timed, transition: Transition, rules: Rules) -> bool:
    """Return whether the local times in this gap are lost, rather than run when it ends."""
    whole_date = transition.new - transition.old >= DAY
    return _is_interval(form) or rules.gap == "skip" or whole_date


def local_times_of(form: Timed) -> LocalTimes | None:
    """Return the form as local times; None if it counts elapsed time or names an instant."""
    if isinstance(form, Every) or (isinstance(form, At) and not form.is_local):
        return None
    return form


def is_steady(schedule: Schedule) -> bool:
    """Return whether it runs at all hours, whatever the clock shows (`*/5 * * * *`)."""
    return all(
        isinstance(form, Every)
        or (isinstance(form, Cron) and form.is_interval and form.hour.numbers >= HOUR.full)
        for form in schedule.timed_forms
    )


def _is_interval(form: Timed) -> bool:
    return isinstance(form, Cron) and form.is_interval


def _runs_once(form: Timed, rules: Rules) -> bool:
    """Return whether a local time in a fold runs in the first pass only."""
    return not _is_interval(form) and (rules.fold == "first" or isinstance(form, At))


def _twice(times: list[datetime]) -> str:
    return f"{_some(times)} {'comes' if len(times) == 1 else 'come'} twice on {times[0]:%Y-%m-%d}"


def _some(times: list[datetime]) -> str:
    shown = ", ".join(map(_time, times[:_SHOWN]))
    return f"{shown}, …" if len(times) > _SHOWN else shown


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"
