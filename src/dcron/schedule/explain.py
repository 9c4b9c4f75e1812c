"""Explain schedules in plain English."""

from collections.abc import Iterator
from datetime import datetime
from itertools import product
from zoneinfo import ZoneInfo

from dcron.schedule import english, fields
from dcron.schedule.cron_expression import Cron
from dcron.schedule.explain_rrule import explain_recurrence
from dcron.schedule.fields import CronField, Values
from dcron.schedule.kinds import After, At, Delay, Every, Form, OnEvent, Reboot, Schedule
from dcron.schedule.recurrence import Recurrence

_FEW = 6
"""Most times of day that are listed."""


def explain(schedule: Schedule, zone: ZoneInfo | None = None) -> str:
    """Return the schedule in words, such as `at 09:00 on weekdays`; with the zone if given and relevant."""
    text = "; and ".join(_form(form) for form in schedule.forms)
    local = any(isinstance(form, Cron | Recurrence) or _is_local(form) for form in schedule.forms)
    return f"{text} ({zone.key})" if zone is not None and local else text


def _is_local(form: Form) -> bool:
    return isinstance(form, At) and form.is_local


def _form(form: Form) -> str:
    match form:
        case Cron():
            return _cron(form)
        case Every(period):
            return f"every {_without_one(english.duration(period.total_seconds()))}"
        case At(time):
            return f"once, on {time:%Y-%m-%d at %H:%M}{_seconds(time)}{_offset(form)}"
        case Recurrence():
            return explain_recurrence(form)
        case Reboot():
            return "when a node starts"
        case Delay(seconds):
            return f"{english.duration(seconds)} after the run before has ended"
        case OnEvent(event):
            return f"when the event {event} is sent"
        case After(tasks):
            return f"after {english.join(tasks)} {'has' if len(tasks) == 1 else 'have'} succeeded"


def _without_one(duration: str) -> str:
    """Return `hour` for `1 hour`, and `1 hour 30 minutes` unchanged."""
    number, _, unit = duration.partition(" ")
    return unit if number == "1" and " " not in unit else duration


def _seconds(time: datetime) -> str:
    return f":{time:%S}" if time.second else ""


def _offset(form: At) -> str:
    return "" if form.is_local else f" {form.time.tzname()}"


def _cron(cron: Cron) -> str:
    times, days, months = _times(cron), _days(cron), _months(cron.month)
    if not days and _written_out(cron):
        days = "every day"
    if months and (", or " in days or ", if " in days):  # the month binds both
        return f"{months}: {times} {days}"
    return " ".join(filter(None, (times, days, months)))


def _times(cron: Cron) -> str:
    """Explain second, minute and hour, from the fine to the coarse."""
    written_out = _written_out(cron)
    if written_out:
        return f"at {english.join(written_out)}"
    columns = [(fields.MINUTE, cron.minute), (fields.HOUR, cron.hour)]
    if cron.second is not None and cron.second.numbers != {0}:
        columns.insert(0, (fields.SECOND, cron.second))
    (finest, values), (which, wider), *rest = columns
    text = _of_field(values, finest)
    if text == "at minute 0" and _is_full(which, wider):
        return "every hour, on the hour"
    stepped = not _is_full(which, wider) and _even_step(wider, which)
    if text.startswith("at ") and stepped and all(_is_full(*each) for each in rest):
        return f"{_of_field(wider, which)}, {text}"
    return text + "".join(_within(text, columns[1:]))


def _within(text: str, coarser: list[tuple[CronField, Values]]) -> Iterator[str]:
    """Yield the units in which the phrase for the finest field is counted."""
    counted = text.startswith("every")
    for which, values in coarser:
        if not _is_full(which, values):
            yield f" of {_named(values, which)}"
        elif not counted:
            yield f" of every {which.name}"
        counted = _is_full(which, values)


def _is_full(which: CronField, values: Values) -> bool:
    return values.numbers >= which.full


def _written_out(cron: Cron) -> list[str]:
    """Return all times of day if they are few: `09:00`, `17:30:15`."""
    seconds = sorted(cron.second.numbers) if cron.second else [0]
    if len(cron.minute.numbers) * len(cron.hour.numbers) * len(seconds) > _FEW:
        return []
    times = product(sorted(cron.hour.numbers), sorted(cron.minute.numbers), seconds)
    return [f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "") for hour, minute, second in times]


def _of_field(values: Values, which: CronField) -> str:
    """Return `every minute`, `every 5 minutes`, `at minutes 0, 20 and 30`."""
    step = _even_step(values, which)
    return f"at {_named(values, which)}" if step is None else english.every(step, which.name)


def _named(values: Values, which: CronField) -> str:
    """Return `minute 5`, `minutes 0, 20 and 30`, `hours 0, 2, 4, … and 22`."""
    plural = "s" if len(values.numbers) > 1 else ""
    names = english.stretches(values.numbers)
    if len(names) > _FEW and _even_step(values, which):
        names = [*names[:3], "…", names[-1]]
    return f"{which.name}{plural} {english.join(names)}"


def _even_step(values: Values, which: CronField) -> int | None:
    """Return the step if the values come evenly from the first value on: 5 for 0, 5 … 55."""
    size = which.high + 1
    numbers = sorted(values.numbers)
    step = size // len(numbers)
    return step if step < size and numbers == list(range(0, size, step)) and size % step == 0 else None


def _days(cron: Cron) -> str:
    """Explain day of month and weekday, and how they combine."""
    all_days = cron.day.numbers >= fields.DAY.full
    all_weekdays = cron.weekday.numbers >= fields.WEEKDAY.full
    if all_days and all_weekdays:
        return ""
    if cron.either_day:
        return (
            "every day"
            if all_days or all_weekdays
            else f"on {_day_of_month(cron.day)}, or on {_weekday(cron.weekday)}"
        )
    if all_days:
        return _on_weekday(cron.weekday)
    if all_weekdays:
        return f"on {_day_of_month(cron.day)}"
    return f"on {_day_of_month(cron.day)}, if it is {_weekday(cron.weekday, 'or')}"


def _day_of_month(values: Values) -> str:
    """Return `day 1 of the month`, `the last day of the month`, `the weekday nearest to day 15`."""
    phrases = []
    if values.numbers:
        plural = "s" if len(values.numbers) > 1 else ""
        phrases.append(f"day{plural} {english.join(english.stretches(values.numbers))} of the month")
    if values.last:
        phrases.append("the last day of the month")
    phrases += [
        "the last weekday of the month"
        if day == fields.DAY.high
        else f"the weekday nearest to day {day} of the month"
        for day in sorted(values.workdays)
    ]
    return english.join(phrases)


def _on_weekday(values: Values) -> str:
    if values.plain and values.numbers == {1, 2, 3, 4, 5}:
        return "on weekdays"
    if values.plain and values.numbers == {0, 6}:
        return "at weekends"
    return f"on {_weekday(values)}"


def _weekday(values: Values, last: str = "and") -> str:
    """Return `Monday to Thursday`, `the second Monday of the month`."""
    monday_first = sorted((day - 1) % 7 for day in values.numbers)
    phrases = english.stretches(monday_first, (*english.WEEKDAYS[1:], english.WEEKDAYS[0]))
    phrases += [
        f"the {english.nth(nth)} {english.WEEKDAYS[day]} of the month" for day, nth in sorted(values.nth)
    ]
    return english.join(phrases, last)


def _months(values: Values) -> str:
    if values.numbers >= fields.MONTH.full:
        return ""
    return f"in {english.join(english.stretches(values.numbers, ('', *english.MONTHS)))}"
