"""Advice on schedules that are valid but may not do what was meant."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from dcron.errors import ScheduleError
from dcron.schedule import fields, words
from dcron.schedule.changes import DAY, SECOND, Change, Clock, clock
from dcron.schedule.cron import Cron
from dcron.schedule.fields import Field, Values
from dcron.schedule.forms import Every, Schedule, Timed
from dcron.schedule.notes import effect, touched
from dcron.schedule.preview import next_run, require_fires
from dcron.schedule.rules import DEFAULT, Rules

_YEARS = 5 * 366 * DAY
"""How far clock changes are looked at."""
_MINUTE = timedelta(minutes=1)
_OFTEN = 48
"""A task with more runs a day is no reason to move others."""
_MANY = 10
"""Tasks that start in one minute, and had better not."""


@dataclass(frozen=True)
class Advice:
    """One thing to look at."""

    code: str
    """Stable, for filters; docs/schedules.md lists them."""
    message: str


def advise(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules = DEFAULT) -> list[Advice]:
    """What is doubtful about one task's schedule; empty for nearly all."""
    advice = list(_never_fires(schedule, zone, now, rules))
    for form in schedule.timed_forms:
        advice += _about(form, clock(zone), now, rules)
    return list(dict.fromkeys(advice))


def _never_fires(schedule: Schedule, zone: ZoneInfo, now: datetime, rules: Rules) -> Iterator[Advice]:
    try:
        require_fires(schedule, zone, now, rules)
    except ScheduleError as error:
        yield Advice("never-fires", str(error))


def _about(form: Timed, here: Clock, now: datetime, rules: Rules) -> Iterator[Advice]:
    if isinstance(form, Every) and form.period < _MINUTE:
        yield _sub_minute(form.period)
    if isinstance(form, Cron):
        yield from _days(form)
        yield from _fields(form)
        yield from _clock_times(form)
        yield from _changes(form, here, now, rules)


def _days(line: Cron) -> Iterator[Advice]:
    day, weekday = line.day, line.weekday
    if line.either_day and not (_is_full(fields.DAY, day) or _is_full(fields.WEEKDAY, weekday)):
        yield Advice(
            "day-or-weekday",
            f"day of month {day.text} OR weekday {weekday.text}: it runs when either fits; "
            "for both begin one with * (as */1), for the first Monday write 1#1",
        )
    only_leap_days = day.plain and day.numbers == {29} and line.month.numbers == {2}
    if only_leap_days and not line.either_day:
        yield Advice("leap-day-only", "runs only on 29 February, so in leap years alone")


def _fields(line: Cron) -> Iterator[Advice]:
    for which, values in line.columns():
        yield from _uneven_step(which, values)
        if not values.starred and _is_full(which, values):
            yield Advice(
                "covers-everything", f"{which.name} {values.text} is every {which.name}; {_instead(which)}"
            )


def _instead(which: Field) -> str:
    """What writing `*` would change; it is never only a matter of taste."""
    if which in _CLOCK_FIELDS:
        return "with * it would also count as an interval at clock changes"
    if which is fields.MONTH:
        return "* says the same"
    return "if the other day field is set too, it runs every day; with * that one alone would decide"


_CLOCK_FIELDS = (fields.SECOND, fields.MINUTE, fields.HOUR)


def _uneven_step(which: Field, values: Values) -> Iterator[Advice]:
    size = len(which.full)
    for match in re.finditer(r"(?:\*|H)/(\d+)", values.text, re.ASCII | re.IGNORECASE):
        step = int(match[1])
        if step > size:
            yield Advice("uneven-step", f"{which.name} {match[0]}: the step is longer than the {size} values")
        elif size % step:
            yield Advice(
                "uneven-step",
                f"{which.name} {match[0]} does not divide {size}: it starts anew at {which.low}, "
                "so the last step is shorter" + _every_instead(which, step),
            )


def _every_instead(which: Field, step: int) -> str:
    letters = {"second": "s", "minute": "m", "hour": "h", "day of month": "d"}
    return f"; @every {step}{letters[which.name]} is even" if which.name in letters else ""


def _clock_times(line: Cron) -> Iterator[Advice]:
    if line.minute.text == "*" and len(line.hour.numbers) == 1 and line.second is None:
        hour = min(line.hour.numbers)
        yield Advice(
            "every-minute-of-hour",
            f"runs every minute from {hour:02}:00 to {hour:02}:59; for once a day write 0 {hour}",
        )
    if line.second is not None and len(line.second.numbers) > 1:
        yield _sub_minute(_MINUTE / len(line.second.numbers))


def _sub_minute(period: timedelta) -> Advice:
    return Advice(
        "sub-minute",
        f"runs about every {words.duration(round(period.total_seconds(), 1))}; each run is a row in the "
        "database, and how punctual it is depends on the agents' poll interval",
    )


def _changes(line: Cron, here: Clock, now: datetime, rules: Rules) -> Iterator[Advice]:
    """What the next gap and the next fold do to an interval."""
    if not line.is_interval:
        return
    touching = [change for change in here.changes(now, now + _YEARS) if any(touched(line, change, rules))]
    if re.match(r"\*/(?!1\b)", line.hour.text):
        for change in _first_of_each_kind(touching):
            yield Advice("hours-at-change", f"{effect(line, here, change, rules)}; hours are uneven that day")
    lost = next((change for change in touching if _loses_the_date(line, change)), None)
    if lost is not None:
        yield Advice(
            "lost-in-gap",
            f"on {lost.reached:%Y-%m-%d} the clock leaves out all its times, so it does not run that day; "
            f"with a list in place of {line.minute.text} it would, when the gap ends",
        )


def _first_of_each_kind(changes: list[Change]) -> Iterator[Change]:
    for is_gap in (True, False):
        yield from [change for change in changes if change.is_gap is is_gap][:1]


def _loses_the_date(line: Cron, change: Change) -> bool:
    """Whether every face of one date that a gap begins on lies in the gap."""
    if not change.is_gap:
        return False
    midnight = change.reached.replace(hour=0, minute=0, second=0)
    face = line.next_face(midnight - SECOND)
    if face is None or not change.removes(face):
        return False
    rest = line.next_face(change.resumed - SECOND)
    return rest is None or rest >= midnight + DAY


def _is_full(which: Field, values: Values) -> bool:
    return values.numbers >= which.full


def advise_all(
    tasks: Iterable[tuple[str, Schedule, ZoneInfo]], now: datetime, *, many: int = _MANY
) -> list[Advice]:
    """What is doubtful about a whole crontab: minutes of the coming day at which `many` tasks start.

    `tasks` are (name, schedule, zone). The five busiest minutes are named. A task that runs more often
    than 48 times a day is left out.
    """
    at_minute: dict[datetime, list[str]] = defaultdict(list)
    for name, schedule, zone in tasks:
        minutes = _minutes_of_a_day(schedule, zone, now)
        for minute in minutes if len(minutes) <= _OFTEN else ():
            at_minute[minute].append(name)
    busy = [(len(names), minute, names) for minute, names in at_minute.items() if len(names) >= many]
    busy.sort(key=lambda each: (-each[0], each[1]))
    return [_same_minute(minute, names) for _, minute, names in busy[:5]]


def advise_minute(minute: datetime, names: list[str], *, more: bool = False) -> list[Advice]:
    """The same of one minute, at which these tasks start, and with `more` others that nobody has counted."""
    return [_same_minute(minute, names, " or more" if more else "")] if len(names) >= _MANY else []


def runs_often(schedule: Schedule, zone: ZoneInfo, now: datetime) -> bool:
    """Whether a task runs so often that it is no reason to move others."""
    return len(_minutes_of_a_day(schedule, zone, now)) > _OFTEN


def _minutes_of_a_day(schedule: Schedule, zone: ZoneInfo, now: datetime) -> set[datetime]:
    """The minutes of the coming day at which it runs; of a task that runs often the first, just too many."""
    minutes: set[datetime] = set()
    instant = next_run(schedule, zone, now)
    while instant is not None and instant <= now + DAY and len(minutes) <= _OFTEN:
        minutes.add(instant.replace(second=0, microsecond=0))
        instant = next_run(schedule, zone, instant)
    return minutes


def _same_minute(minute: datetime, names: list[str], or_more: str = "") -> Advice:
    shown = ", ".join(sorted(names)[:3])
    return Advice(
        "same-minute",
        f"{len(names)} tasks{or_more} start at {minute:%Y-%m-%d %H:%M} UTC ({shown}, …); "
        "H in place of the minute spreads them, the same way on every node",
    )
