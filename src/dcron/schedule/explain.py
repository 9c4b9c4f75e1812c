"""Schedules in plain words."""

from datetime import datetime
from itertools import product
from zoneinfo import ZoneInfo

from dcron.schedule import fields, words
from dcron.schedule.cron import Cron
from dcron.schedule.explain_rrule import explain_recurrence
from dcron.schedule.fields import Field, Values
from dcron.schedule.forms import After, At, Delay, Every, Form, OnEvent, Reboot, Schedule
from dcron.schedule.rrule import Recurrence

_FEW = 6
"""Times of day that are written out."""


def explain(schedule: Schedule, zone: ZoneInfo | None = None) -> str:
    """The schedule in words, such as `at 09:00 on weekdays`; with the zone if one is given and it matters."""
    text = "; and ".join(_form(form) for form in schedule.forms)
    local = any(isinstance(form, Cron | Recurrence) or _is_local(form) for form in schedule.forms)
    return f"{text} ({zone.key})" if zone is not None and local else text


def _is_local(form: Form) -> bool:
    return isinstance(form, At) and form.is_face


def _form(form: Form) -> str:
    match form:
        case Cron():
            return _cron(form)
        case Every(period):
            return f"every {_without_one(words.duration(period.total_seconds()))}"
        case At(moment):
            return f"once, on {moment:%Y-%m-%d at %H:%M}{_seconds(moment)}{_offset(form)}"
        case Recurrence():
            return explain_recurrence(form)
        case Reboot():
            return "when a node starts"
        case Delay(seconds):
            return f"{words.duration(seconds)} after the run before has ended"
        case OnEvent(event):
            return f"when the event {event} is sent"
        case After(tasks):
            return f"after {words.join(tasks)} {'has' if len(tasks) == 1 else 'have'} succeeded"


def _without_one(duration: str) -> str:
    """`hour` for `1 hour`, but `1 hour 30 minutes` as it is."""
    number, _, unit = duration.partition(" ")
    return unit if number == "1" and " " not in unit else duration


def _seconds(moment: datetime) -> str:
    return f":{moment:%S}" if moment.second else ""


def _offset(form: At) -> str:
    return "" if form.is_face else f" {form.moment.tzname()}"


def _cron(line: Cron) -> str:
    times, days, months = _times(line), _days(line), _months(line.month)
    if not days and _written_out(line):
        days = "every day"
    return " ".join(filter(None, (times, days, months)))


def _times(line: Cron) -> str:
    """The second, minute and hour fields."""
    written_out = _written_out(line)
    if written_out:
        return f"at {words.join(written_out)}"
    minutes = _minutes(line)
    if line.second is None or line.second.numbers == {0}:
        return minutes
    seconds = _of_field(line.second, fields.SECOND)
    return seconds if minutes == "every minute" else f"{seconds} {_during(minutes)}"


def _during(minutes: str) -> str:
    """A phrase for minutes, as the time within which seconds are counted."""
    return f"of {minutes}" if minutes.startswith("every") else minutes.replace("at ", "of ", 1)


def _written_out(line: Cron) -> list[str]:
    """All times of day if they are few: `09:00`, `17:30:15`."""
    seconds = sorted(line.second.numbers) if line.second else [0]
    if len(line.minute.numbers) * len(line.hour.numbers) * len(seconds) > _FEW:
        return []
    times = product(sorted(line.hour.numbers), sorted(line.minute.numbers), seconds)
    return [f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "") for hour, minute, second in times]


def _minutes(line: Cron) -> str:
    """Minute and hour, when they are too many to write out."""
    minutes, hours = _of_field(line.minute, fields.MINUTE), _of_field(line.hour, fields.HOUR)
    if hours == "every hour":
        if line.minute.numbers == {0}:
            return "every hour, on the hour"
        return minutes if minutes.startswith("every") else f"{minutes} of every hour"
    if not hours.startswith("every"):
        hours = f"of {hours.removeprefix('at ')}"
        return f"{minutes} {hours}"
    return f"{hours}, {minutes}" if minutes.startswith("at") else f"{minutes} of {hours}"


def _of_field(values: Values, which: Field) -> str:
    """`every minute`, `every 5 minutes`, `at minutes 0, 20 and 30`."""
    step = _even_step(values, which)
    if step is not None:
        return words.every(step, which.name)
    names = words.stretches(values.numbers)
    plural = "s" if len(values.numbers) > 1 else ""
    return f"at {which.name}{plural} {words.join(names)}"


def _even_step(values: Values, which: Field) -> int | None:
    """The step, if the field comes round evenly from its first value: 5 for 0, 5 … 55."""
    size = which.high + 1
    numbers = sorted(values.numbers)
    step = size // len(numbers)
    return step if step < size and numbers == list(range(0, size, step)) and size % step == 0 else None


def _days(line: Cron) -> str:
    """Day of month and weekday, and how they go together."""
    all_days = line.day.numbers >= fields.DAY.full
    all_weekdays = line.weekday.numbers >= fields.WEEKDAY.full
    if all_days and all_weekdays:
        return ""
    if line.either_day:
        return (
            "every day"
            if all_days or all_weekdays
            else f"on {_day_of_month(line.day)}, or on {_weekday(line.weekday)}"
        )
    if all_days:
        return _on_weekday(line.weekday)
    if all_weekdays:
        return f"on {_day_of_month(line.day)}"
    return f"on {_day_of_month(line.day)}, if it is {_weekday(line.weekday, 'or')}"


def _day_of_month(values: Values) -> str:
    """`day 1 of the month`, `the last day of the month`, `the weekday nearest to day 15`."""
    phrases = []
    if values.numbers:
        plural = "s" if len(values.numbers) > 1 else ""
        phrases.append(f"day{plural} {words.join(words.stretches(values.numbers))} of the month")
    if values.last:
        phrases.append("the last day of the month")
    phrases += [
        "the last weekday of the month"
        if day == fields.DAY.high
        else f"the weekday nearest to day {day} of the month"
        for day in sorted(values.workdays)
    ]
    return words.join(phrases)


def _on_weekday(values: Values) -> str:
    if values.plain and values.numbers == {1, 2, 3, 4, 5}:
        return "on weekdays"
    if values.plain and values.numbers == {0, 6}:
        return "at weekends"
    return f"on {_weekday(values)}"


def _weekday(values: Values, last: str = "and") -> str:
    """`Monday to Thursday`, `the second Monday of the month`."""
    monday_first = sorted((day - 1) % 7 for day in values.numbers)
    phrases = words.stretches(monday_first, (*words.WEEKDAYS[1:], words.WEEKDAYS[0]))
    phrases += [f"the {words.nth(nth)} {words.WEEKDAYS[day]} of the month" for day, nth in sorted(values.nth)]
    return words.join(phrases, last)


def _months(values: Values) -> str:
    if values.numbers >= fields.MONTH.full:
        return ""
    return f"in {words.join(words.stretches(values.numbers, ('', *words.MONTHS)))}"
