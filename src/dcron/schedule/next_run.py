"""The next run of a schedule, and its coming occurrences with what happens to each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import NeverFires
from dcron.schedule.croniter_walk import HORIZON_YEARS
from dcron.schedule.dst_notes import effect, is_about, note
from dcron.schedule.effort import bounded, spend
from dcron.schedule.kinds import Schedule, next_instant
from dcron.schedule.rules import DEFAULT, Rules
from dcron.schedule.transitions import DAY, EARLIEST, LATEST, SECOND, ZoneClock, clock

_TICK = timedelta(microseconds=1)
_CALL = 20
"""Steps (see `effort`) of one call."""
_MOST_SKIPPED = 100
"""Most skipped occurrences that a preview lists in a row."""
_HORIZON = timedelta(days=HORIZON_YEARS * 366)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One time that a schedule names."""

    at: datetime
    """The instant, in UTC."""
    local: datetime
    """The same instant in the task's zone, aware."""
    note: str | None = None
    """What a clock change does to it."""
    reason: str | None = None
    """Why it does not run: a calendar or the window. None if it runs."""

    @property
    def offset(self) -> timedelta:
        """Offset of the zone from UTC at this instant."""
        return self.local.utcoffset() or timedelta(0)


def next_run(schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules = DEFAULT) -> datetime | None:
    """Return the first instant, in UTC, strictly after `after` at which the schedule runs; None if none.

    The result depends only on the arguments and the tzdata version. `after` must be aware. Occurrences that
    the window or a calendar excludes are left out; `until_next_run` returns them.

    Raises: ScheduleError if the computation takes too long; ValueError if `after` is naive.
    """
    with bounded():
        return _next_run(schedule, zone, after, rules)


def _next_run(schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules) -> datetime | None:
    zone_clock = clock(zone)
    after = _not_before_window(_aware(after), rules)
    give_up = _horizon(after)
    while (instant := _next(schedule, zone_clock, after, rules)) is not None:
        spend(_CALL)
        if rules.not_after is not None and instant > rules.not_after:
            return None
        if not rules.has_calendars:
            return instant
        day = zone_clock.local_time(instant).date()
        if rules.excluded_by(day) is None:
            return instant
        following = rules.next_date(day, give_up.date())
        if following is None:
            return None
        after = max(instant, _before_date(zone_clock, following))
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
    """Yield the occurrences strictly after `after`, in order, including skipped ones with the reason.

    End after `count` occurrences that run, after the instant `until`, or with the schedule. Outside the
    window, yield one occurrence on either side: it shows what the window cuts off. After 100 skipped
    occurrences in a row, continue with the next one that runs.
    """
    ran = 0
    for occurrence in _occurrences(schedule, clock(zone), _aware(after), rules, most_skipped=_MOST_SKIPPED):
        if until is not None and occurrence.at > until:
            return
        yield occurrence
        ran += occurrence.reason is None
        if count is not None and ran >= count:
            return


def until_next_run(
    schedule: Schedule, zone: ZoneInfo, after: datetime, rules: Rules = DEFAULT
) -> Iterator[Occurrence]:
    """Yield the occurrences that calendars exclude, each with its reason, and then the one that runs.

    The last item is the result of `next_run`; the items before it are recorded as skipped. If nothing runs
    within 50 years, there is no last item. Read it lazily: a task that runs every minute has 1440
    occurrences on an excluded day.
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
    """A clock change that affects a schedule."""

    at: datetime
    """First instant of the new offset, in UTC."""
    local: datetime
    """The same instant in the task's zone, aware."""
    text: str
    """What it does to the schedule, in English."""


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
    """Return the next clock changes that affect the schedule, at most `count` within `years`.

    If occurrences are `shown`, count from the last of them, and include every earlier change that no note
    on an occurrence mentions.
    """
    zone_clock = clock(zone)
    after = max(after.astimezone(UTC), EARLIEST)
    last = shown[-1].at if shown else after
    until = min(last, LATEST - years * 366 * DAY) + years * 366 * DAY
    noted = [each.at for each in shown if each.note]
    found: list[ClockTransition] = []
    for transition in zone_clock.transitions(after, until):
        if any(is_about(at, transition) for at in noted):
            continue
        effects = [effect(form, zone_clock, transition, rules) for form in schedule.timed_forms]
        texts = dict.fromkeys(text for text in effects if text is not None)
        if texts:
            found.append(ClockTransition(transition.at, transition.at.astimezone(zone), "; ".join(texts)))
            count -= transition.at > last
        if count <= 0:
            break
    return found


def require_fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules = DEFAULT) -> None:
    """Raise NeverFires if a timed schedule has nothing to run within 50 years."""
    if not schedule.timed or schedule.reboot:
        return
    if not _fires(schedule, zone, now, rules):
        raise NeverFires(f"{schedule.text!r} never fires: {_cause(schedule, zone, now, rules)}")


def _fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> bool:
    instant = next_run(schedule, zone, now, rules)
    return instant is not None and instant <= _horizon(now)


def _cause(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> str:
    """Return why there is nothing to run, as the end of a sentence."""
    bare = Rules(gap=rules.gap, fold=rules.fold)
    if _fires(schedule, zone, now, bare):
        return "its window or its calendars leave nothing"
    if _fires(schedule, zone, datetime(1970, 1, 1, tzinfo=UTC), bare):
        return "it is past"
    return f"nothing matches within {HORIZON_YEARS} years"


def _occurrences(
    schedule: Schedule,
    zone_clock: ZoneClock,
    after: datetime,
    rules: Rules,
    *,
    most_skipped: int | None = None,
) -> Iterator[Occurrence]:
    """Yield all occurrences; outside the window only the first on either side."""
    skipped = 0
    while (instant := _next(schedule, zone_clock, after, rules)) is not None:
        occurrence = _occurrence(schedule, zone_clock, instant, rules)
        yield occurrence
        if rules.not_after is not None and instant > rules.not_after:
            return
        after = _not_before_window(instant, rules)
        skipped = 0 if occurrence.reason is None else skipped + 1
        if skipped == most_skipped:
            following = next_run(schedule, zone_clock.zone, after, rules)
            if following is None:
                return
            after = following - _TICK


def _occurrence(schedule: Schedule, zone_clock: ZoneClock, instant: datetime, rules: Rules) -> Occurrence:
    local = instant.astimezone(zone_clock.zone)
    reason = _outside(instant, rules) or rules.excluded_by(local.date())
    return Occurrence(instant, local, note(schedule, zone_clock, instant, rules), reason)


def _outside(instant: datetime, rules: Rules) -> str | None:
    if rules.not_before is not None and instant < rules.not_before:
        return "before --not-before"
    if rules.not_after is not None and instant > rules.not_after:
        return "after --not-after"
    return None


def _next(schedule: Schedule, zone_clock: ZoneClock, after: datetime, rules: Rules) -> datetime | None:
    """Return the earliest instant of any form. Forms that name the same instant are one run."""
    after = max(after.astimezone(UTC), EARLIEST)
    if after >= LATEST:
        return None
    found = [next_instant(form, zone_clock, after, rules) for form in schedule.timed_forms]
    instant = min((instant for instant in found if instant is not None), default=None)
    return instant if instant is not None and instant < LATEST else None


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError("an instant must be aware: a naive one would be read on this machine's own clock")
    return instant


def _horizon(after: datetime) -> datetime:
    """Return the instant beyond which a time counts as never."""
    return min(after, LATEST - _HORIZON) + _HORIZON


def _not_before_window(after: datetime, rules: Rules) -> datetime:
    if rules.not_before is None:
        return after
    return max(after, rules.not_before - _TICK)


def _before_date(zone_clock: ZoneClock, day: date) -> datetime:
    """Return the last second before a local date."""
    return zone_clock.instant(datetime.combine(day, time())) - SECOND
