"""Advice on schedules that are valid but may not do what was meant. docs/schedules.md lists the codes."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import ScheduleError
from dcron.schedule import english, fields
from dcron.schedule.cron_expression import Cron
from dcron.schedule.dst_notes import effect, in_window, touched
from dcron.schedule.fields import CronField, Values, read_field
from dcron.schedule.kinds import Schedule, Timed, next_instant
from dcron.schedule.next_run import next_run, require_fires
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rules import DEFAULT, Rules
from dcron.schedule.transitions import DAY, SECOND, Transition, ZoneClock, clock

_YEARS = 5 * 366 * DAY
"""How far ahead clock changes are examined."""
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_BURST = 59
"""If this many further runs follow a run within fewer minutes, they are more than one a minute."""
_OFTEN = 48
"""A task with more runs per day does not count for busy minutes."""
_MANY = 10
"""A minute in which this many tasks start is busy."""


@dataclass(frozen=True)
class Advice:
    """One doubtful property of a schedule."""

    code: str
    """Stable code, for filters; docs/schedules.md lists them."""
    message: str


def advise(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules = DEFAULT) -> list[Advice]:
    """Return what is doubtful about one task's schedule; empty for nearly all."""
    advice = list(_never_fires(schedule, zone, now, rules))
    advice += _sub_minute(schedule, zone, now, rules)
    for form in schedule.timed_forms:
        advice += _about(form, clock(zone), now, rules)
    return list(dict.fromkeys(advice))


def _never_fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> Iterator[Advice]:
    try:
        require_fires(schedule, zone, now, rules)
    except ScheduleError as error:
        yield Advice("never-fires", str(error))
    else:
        if len(schedule.forms) > 1:
            for part in _parts(schedule):
                yield from _never_fires(part, zone, now, rules)


def _parts(schedule: Schedule) -> list[Schedule]:
    """Return each form of a union as a schedule."""
    texts = schedule.text.split("|")
    return [Schedule(text.strip(), (form,)) for text, form in zip(texts, schedule.forms, strict=True)]


def _about(form: Timed, zone_clock: ZoneClock, now: datetime, rules: Rules) -> Iterator[Advice]:
    if isinstance(form, Recurrence):
        days, _ = form.days_in_effect()
        yield from _leap_day(days.get("BYMONTH", ()), days.get("BYMONTHDAY", ()))
    if isinstance(form, Cron):
        yield from _days(form)
        yield from _fields(form)
        yield from _clock_times(form)
        yield from _changes(form, zone_clock, now, rules)


def _days(cron: Cron) -> Iterator[Advice]:
    day, weekday = cron.day, cron.weekday
    if cron.either_day and not (_is_full(fields.DAY, day) or _is_full(fields.WEEKDAY, weekday)):
        yield Advice(
            "day-or-weekday",
            f"day of month {day.text} OR weekday {weekday.text}: it runs when either fits; "
            "for both begin one with * (as */1), for the first Monday write 1#1",
        )
    if day.plain and not cron.either_day:
        yield from _leap_day(cron.month.numbers, day.numbers)


def _leap_day(months: Collection[int], days: Collection[int]) -> Iterator[Advice]:
    if set(months) == {2} and 29 in days and min(days) == 29:
        yield Advice("leap-day-only", "runs only on 29 February, so in leap years alone")


def _fields(cron: Cron) -> Iterator[Advice]:
    for which, values in cron.columns():
        yield from _uneven_step(which, values)
        if not values.starred and _is_full(which, values):
            yield Advice(
                "covers-everything", f"{which.name} {values.text} is every {which.name}; {_instead(which)}"
            )


def _instead(which: CronField) -> str:
    """Return what `*` would change; it is never a mere matter of taste."""
    if which in _CLOCK_FIELDS:
        return "with * it would also count as an interval at clock changes"
    if which is fields.MONTH:
        return "* says the same"
    return "if the other day field is set too, it runs every day; with * that one alone would decide"


_CLOCK_FIELDS = (fields.SECOND, fields.MINUTE, fields.HOUR)


def _uneven_step(which: CronField, values: Values) -> Iterator[Advice]:
    size = len(which.full)
    for match in re.finditer(r"(?:\*|H|\b\w+-\w+)/(\d+)", values.text, re.ASCII | re.IGNORECASE):
        step = int(match[1])
        if step > size:
            yield Advice("uneven-step", f"{which.name} {match[0]}: the step is longer than the {size} values")
        elif size % step and _goes_round(which, match[0], step):
            yield Advice(
                "uneven-step",
                f"{which.name} {match[0]} does not divide {size}: it starts again every "
                f"{_AROUND[which.name]}, so the last step is shorter" + _every_instead(which, step),
            )


def _goes_round(which: CronField, term: str, step: int) -> bool:
    """Return whether a term with a step covers its whole field, not only a part such as 9-17/3."""
    if "-" not in term:
        return True
    numbers = read_field(which, term, 1, "").numbers
    return min(numbers) < which.low + step and max(numbers) + step > max(which.full)


_AROUND = {
    "second": "minute",
    "minute": "hour",
    "hour": "day",
    "day of month": "month",
    "month": "year",
    "weekday": "week",
}
"""The unit after which each field starts again."""


def _every_instead(which: CronField, step: int) -> str:
    letters = {"second": "s", "minute": "m", "hour": "h", "day of month": "d"}
    return f"; @every {step}{letters[which.name]} is even" if which.name in letters else ""


def _clock_times(cron: Cron) -> Iterator[Advice]:
    every_minute = cron.minute.starred and _is_full(fields.MINUTE, cron.minute)
    once_a_minute = cron.second is None or len(cron.second.numbers) == 1
    if every_minute and once_a_minute and len(cron.hour.numbers) == 1:
        hour = min(cron.hour.numbers)
        yield Advice(
            "every-minute-of-hour",
            f"runs every minute from {hour:02}:00 to {hour:02}:59; for once a day write 0 {hour}",
        )


def _sub_minute(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> Iterator[Advice]:
    """Advise if the next runs come faster than one a minute for longer than a short burst."""
    if all(isinstance(form, Cron) and form.second is None for form in schedule.timed_forms):
        return
    first = instant = next_run(schedule, zone, now, rules)
    for _ in range(_BURST):
        if first is None or instant is None or instant - first >= _BURST * _MINUTE:
            return
        instant = next_run(schedule, zone, instant, rules)
    if first is not None and instant is not None and instant - first < _BURST * _MINUTE:
        yield Advice(
            "sub-minute",
            f"runs about {_BURST * _MINUTE / (instant - first):.2g} times a minute, so the history grows"
            f" fast; {_minutes_meant(schedule)}a program that runs all the time and waits by itself is"
            " cheaper",
        )


def _minutes_meant(schedule: Schedule) -> str:
    """Return the schedule in minutes if six fields begin like one: `*/5 * * * * *`."""
    match = re.fullmatch(r"(\*/(\d+)) \* (\* \* \* \*)", " ".join(schedule.text.split()))
    if match is None:
        return ""
    return f"the first of six fields is the second: every {match[2]} minutes is '{match[1]} {match[3]}'; "


def _changes(cron: Cron, zone_clock: ZoneClock, now: datetime, rules: Rules) -> Iterator[Advice]:
    """Advise on what the next gap and the next fold do to an interval."""
    if not cron.is_interval:
        return
    coming = list(zone_clock.transitions(now, now + _YEARS))
    touching = [transition for transition in coming if any(touched(cron, transition, rules))]
    if match := re.match(r"(?:\*|H)/(\d+)", cron.hour.text, re.IGNORECASE):
        step = timedelta(hours=int(match[1]))
        uneven = [
            each for each in coming if each in touching or _crosses(cron, zone_clock, each, rules, step)
        ]
        for transition in _first_of_each_kind(uneven) if step > _HOUR else ():
            what = effect(cron, zone_clock, transition, rules) or _moved(transition)
            yield Advice("hours-at-change", f"{what}; hours are uneven that day")
    lost = next((transition for transition in touching if _loses_the_date(cron, transition)), None)
    if lost is not None:
        starred = [
            f"{which.name} {values.text}"
            for which, values in cron.columns()
            if which in _CLOCK_FIELDS and values.starred
        ]
        yield Advice(
            "lost-in-gap",
            f"on {lost.local_before:%Y-%m-%d} the clock leaves out all its times, so it does not run that"
            f" day; with a list in place of {english.join(starred)} it would, when the gap ends",
        )


def _crosses(
    cron: Cron, zone_clock: ZoneClock, transition: Transition, rules: Rules, step: timedelta
) -> bool:
    """Return whether runs shortly before and after the transition are one step of the hour field apart."""
    if (
        step >= DAY
        or not in_window(cron, transition, rules)
        or rules.excluded_by(transition.local_after.date())
    ):
        return False
    before = next_instant(cron, zone_clock, transition.at - step - SECOND, rules)
    after = next_instant(cron, zone_clock, transition.at - SECOND, rules)
    return (
        before is not None and before < transition.at and after is not None and after < transition.at + step
    )


def _moved(transition: Transition) -> str:
    size = english.duration(abs(transition.new - transition.old).total_seconds())
    way = "forward" if transition.is_gap else "back"
    return f"clocks go {way} by {size} on {transition.local_before:%Y-%m-%d}"


def _first_of_each_kind(transitions: list[Transition]) -> Iterator[Transition]:
    for is_gap in (True, False):
        yield from [transition for transition in transitions if transition.is_gap is is_gap][:1]


def _loses_the_date(cron: Cron, transition: Transition) -> bool:
    """Return whether every local time of a date on which a gap begins lies in the gap."""
    if not transition.is_gap:
        return False
    midnight = transition.local_before.replace(hour=0, minute=0, second=0)
    local_time = cron.next_local_time(midnight - SECOND)
    if local_time is None or not transition.removes(local_time):
        return False
    rest = cron.next_local_time(transition.local_after - SECOND)
    return rest is None or rest >= midnight + DAY


def _is_full(which: CronField, values: Values) -> bool:
    return values.numbers >= which.full


def advise_all(
    tasks: Iterable[tuple[str, Schedule, ZoneInfo, Callable[[datetime], datetime]]],
    now: datetime,
    *,
    many: int = _MANY,
) -> list[Advice]:
    """Return advice on a whole crontab: the five busiest minutes of the coming day, from `many` starts on.

    `tasks` are tuples of name, schedule, zone, and a function from an occurrence to its start time. Tasks
    that run more often than 48 times a day are ignored.
    """
    at_minute: dict[datetime, list[str]] = defaultdict(list)
    for name, schedule, zone, starts in tasks:
        minutes = _minutes_of_a_day(schedule, zone, now, starts)
        for minute in minutes if len(minutes) <= _OFTEN else ():
            at_minute[minute].append(name)
    busy = [(len(names), minute, names) for minute, names in at_minute.items() if len(names) >= many]
    busy.sort(key=lambda each: (-each[0], each[1]))
    return [_same_minute(minute, names) for _, minute, names in busy[:5]]


def advise_minute(minute: datetime, names: list[str], *, more: bool = False) -> list[Advice]:
    """Return the same advice for one minute in which these tasks start; with `more`, others start, too."""
    return [_same_minute(minute, names, " or more" if more else "")] if len(names) >= _MANY else []


def runs_often(schedule: Schedule, zone: ZoneInfo, now: datetime) -> bool:
    """Return whether a task runs too often to count for busy minutes."""
    return len(_minutes_of_a_day(schedule, zone, now, lambda occurrence: occurrence)) > _OFTEN


def _minutes_of_a_day(
    schedule: Schedule, zone: ZoneInfo, now: datetime, starts: Callable[[datetime], datetime]
) -> set[datetime]:
    """Return the minutes of the coming day in which the task starts; if it runs often, only the first 49."""
    minutes: set[datetime] = set()
    instant = next_run(schedule, zone, now)
    while instant is not None and instant <= now + DAY and len(minutes) <= _OFTEN:
        minutes.add(starts(instant).replace(second=0, microsecond=0))
        instant = next_run(schedule, zone, instant)
    return minutes


def _same_minute(minute: datetime, names: list[str], or_more: str = "") -> Advice:
    shown = ", ".join(sorted(names)[:3])
    return Advice(
        "same-minute",
        f"{len(names)} tasks{or_more} start at {minute:%Y-%m-%d %H:%M} UTC ({shown}, …); "
        "H in place of the minute spreads them, the same way on every node",
    )
