"""The instants of a schedule: the next one, and those to come with what happens to each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import ScheduleError
from dcron.schedule.croniter_walk import HORIZON_YEARS
from dcron.schedule.dst_notes import effect, is_about, note
from dcron.schedule.effort import bounded, spend
from dcron.schedule.kinds import Schedule, next_instant
from dcron.schedule.rules import DEFAULT, Rules
from dcron.schedule.transitions import DAY, EARLIEST, LATEST, SECOND, ZoneClock, clock

_INSTANT = timedelta(microseconds=1)
_CALL = 20
"""Steps (see `effort`) of a question."""
_STRUCK = 100
"""Skipped occurrences that a preview shows in a row."""
_HORIZON = timedelta(days=HORIZON_YEARS * 366)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One turn of a schedule."""

    at: datetime
    """The instant, in UTC."""
    local: datetime
    """The same on the clock of the task's zone."""
    note: str | None = None
    """What a clock change does to it."""
    reason: str | None = None
    """Why it will not run: a calendar or the window."""

    @property
    def offset(self) -> timedelta:
        """What the zone is ahead of UTC at this instant."""
        return self.local.utcoffset() or timedelta(0)


def next_run(schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules = DEFAULT) -> datetime | None:
    """The first instant, in UTC, strictly after `after` at which the schedule runs; None when there is none.

    A pure function of its arguments and of the tzdata version. `after` is aware. Occurrences that the
    window or a calendar excludes are passed over; until_next_run() tells them. Raises ScheduleError when it
    takes too long to compute.
    """
    with bounded():
        return _next_run(schedule, zone, after, rules)


def _next_run(schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules) -> datetime | None:
    here = clock(zone)
    after = _not_before_window(_aware(after), rules)
    give_up = _horizon(after)
    while (instant := _next(schedule, here, after, rules)) is not None:
        spend(_CALL)
        if rules.not_after is not None and instant > rules.not_after:
            return None
        if not rules.has_calendars:
            return instant
        day = here.local_time(instant).date()
        if rules.excluded_by(day) is None:
            return instant
        following = rules.next_date(day, give_up.date())
        if following is None:
            return None
        after = max(instant, _before_date(here, following))
    return None


def upcoming(
    schedule: Schedule,
    zone: ZoneInfo,
    after: datetime,
    rules: Rules = DEFAULT,
    *,
    count: int | None = None,
    until: datetime | None = None,
) -> Iterator[Occurrence]:
    """The occurrences strictly after `after`, in order, also those that will be skipped, with the reason.

    It ends after `count` occurrences that run, after the instant `until`, or with the schedule.
    Of those outside the window there is one on either side: it shows what the window cuts off.
    After 100 that a calendar skips, one after the other, it goes on with the next that runs.
    """
    ran = 0
    for occurrence in _occurrences(schedule, clock(zone), _aware(after), rules, most_skipped=_STRUCK):
        if until is not None and occurrence.at > until:
            return
        yield occurrence
        ran += occurrence.reason is None
        if count is not None and ran >= count:
            return


def until_next_run(
    schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules = DEFAULT
) -> Iterator[Occurrence]:
    """The occurrences that calendars exclude, each with its reason, and last the one that runs.

    The last item is what next_run() returns; the items before it are the rows to record as skipped.
    Ends without a run when there is none within 50 years. Read it lazily: a task of every minute passes
    1440 of them on an excluded day.
    """
    first = _not_before_window(_aware(after), rules)
    give_up = _horizon(first)
    for occurrence in _occurrences(schedule, clock(zone), first, rules):
        if occurrence.at > give_up or _outside(occurrence.at, rules):
            return
        yield occurrence
        if occurrence.reason is None:
            return


@dataclass(frozen=True, slots=True)
class ClockTransition:
    """A clock change that touches a schedule."""

    at: datetime
    """The first instant of the new offset, in UTC."""
    local: datetime
    """The same on the clock of the zone."""
    text: str
    """What it does to the schedule."""


def clock_transitions(
    schedule: Schedule,
    zone: ZoneInfo,
    after: datetime,
    rules: Rules = DEFAULT,
    *,
    shown: Sequence[Occurrence] = (),
    count: int = 2,
    years: int = 5,
) -> list[ClockTransition]:
    """The next changes whose faces the schedule names, at most `count` within `years`.

    With occurrences that are `shown` these count from the last one; before it there are also all changes
    that no note on an occurrence tells of.
    """
    here = clock(zone)
    after = max(after.astimezone(UTC), EARLIEST)
    last = shown[-1].at if shown else after
    until = min(last, LATEST - years * 366 * DAY) + years * 366 * DAY
    told = [each.at for each in shown if each.note]
    found: list[ClockTransition] = []
    for transition in here.transitions(after, until):
        if any(is_about(at, transition) for at in told):
            continue
        effects = [effect(form, here, transition, rules) for form in schedule.timed_forms]
        texts = dict.fromkeys(text for text in effects if text is not None)
        if texts:
            found.append(ClockTransition(transition.at, transition.at.astimezone(zone), "; ".join(texts)))
            count -= transition.at > last
        if count <= 0:
            break
    return found


def require_fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules = DEFAULT) -> None:
    """Raise ScheduleError for a schedule of the clock that has nothing to run within 50 years."""
    if not schedule.timed or schedule.reboot:
        return
    if not _fires(schedule, zone, now, rules):
        raise ScheduleError(f"{schedule.text!r} never fires: {_cause(schedule, zone, now, rules)}")


def _fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> bool:
    instant = next_run(schedule, zone, now, rules)
    return instant is not None and instant <= _horizon(now)


def _cause(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> str:
    """Why there is nothing to run, as the end of a sentence."""
    bare = Rules(gap=rules.gap, fold=rules.fold)
    if _fires(schedule, zone, now, bare):
        return "its window or its calendars leave nothing"
    if _fires(schedule, zone, datetime(1970, 1, 1, tzinfo=UTC), bare):
        return "it is past"
    return f"nothing matches within {HORIZON_YEARS} years"


def _occurrences(
    schedule: Schedule, here: ZoneClock, after: datetime, rules: Rules, *, most_skipped: int | None = None
) -> Iterator[Occurrence]:
    """All occurrences, but outside the window only the first on either side."""
    skipped = 0
    while (instant := _next(schedule, here, after, rules)) is not None:
        occurrence = _occurrence(schedule, here, instant, rules)
        yield occurrence
        if rules.not_after is not None and instant > rules.not_after:
            return
        after = _not_before_window(instant, rules)
        skipped = 0 if occurrence.reason is None else skipped + 1
        if skipped == most_skipped:
            following = next_run(schedule, here.zone, after, rules)
            if following is None:
                return
            after = following - _INSTANT


def _occurrence(schedule: Schedule, here: ZoneClock, instant: datetime, rules: Rules) -> Occurrence:
    local = instant.astimezone(here.zone)
    reason = _outside(instant, rules) or rules.excluded_by(local.date())
    return Occurrence(instant, local, note(schedule, here, instant, rules), reason)


def _outside(instant: datetime, rules: Rules) -> str | None:
    if rules.not_before is not None and instant < rules.not_before:
        return "before --not-before"
    if rules.not_after is not None and instant > rules.not_after:
        return "after --not-after"
    return None


def _next(schedule: Schedule, here: ZoneClock, after: datetime, rules: Rules) -> datetime | None:
    """The earliest instant of any form; forms that fall on one instant are one run."""
    after = max(after.astimezone(UTC), EARLIEST)
    if after >= LATEST:
        return None
    found = [next_instant(form, here, after, rules) for form in schedule.timed_forms]
    instant = min((instant for instant in found if instant is not None), default=None)
    return instant if instant is not None and instant < LATEST else None


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError("an instant must be aware: a naive one would be read on this machine's own clock")
    return instant


def _horizon(after: datetime) -> datetime:
    """What lies beyond this counts as never."""
    return min(after, LATEST - _HORIZON) + _HORIZON


def _not_before_window(after: datetime, rules: Rules) -> datetime:
    if rules.not_before is None:
        return after
    return max(after, rules.not_before - _INSTANT)


def _before_date(here: ZoneClock, day: date) -> datetime:
    """The last second before a local date."""
    return here.instant(datetime.combine(day, time())) - SECOND
