"""Explain recurrence rules in plain English."""

from datetime import datetime
from itertools import product

from dcron.schedule import english
from dcron.schedule.recurrence import Recurrence

_UNITS = ("year", "month", "week", "day")
_WEEKDAYS = (*english.WEEKDAYS[1:], english.WEEKDAYS[0])
_FEW = 6


def explain_recurrence(rule: Recurrence) -> str:
    """Return the rule in words: how often, on which days, at which times, from when, until when."""
    often = english.every(rule.interval, _UNITS[rule.frequency])
    phrases = (often, *_days(rule), _times(rule), _picked(rule))
    return ", ".join((" ".join(filter(None, phrases)), *_bounds(rule)))


def _days(rule: Recurrence) -> list[str]:
    """Return the phrases that name the days, from the coarse to the fine."""
    numbers, weekdays = rule.days_in_effect()
    phrases = []
    if "BYMONTH" in numbers:
        phrases.append(f"in {english.join(english.stretches(numbers['BYMONTH'], ('', *english.MONTHS)))}")
    if "BYWEEKNO" in numbers:
        phrases.append(f"in {_counted(numbers['BYWEEKNO'], 'week')} of the year")
    if "BYYEARDAY" in numbers:
        phrases.append(f"on {_counted(numbers['BYYEARDAY'], 'day')} of the year")
    if "BYMONTHDAY" in numbers:
        phrases.append(f"on {_counted(numbers['BYMONTHDAY'], 'day')} of the month")
    if weekdays:
        phrases.append(f"on {english.join([_weekday(day, nth) for day, nth in weekdays])}")
    return phrases


def _counted(numbers: tuple[int, ...], unit: str) -> str:
    """Return `day 15`, `days 1 and 15`, `the last day`."""
    forward = [number for number in numbers if number > 0]
    phrases = [f"the {english.nth(number)} {unit}" for number in sorted(numbers) if number < 0]
    if forward:
        plural = "s" if len(forward) > 1 else ""
        phrases.insert(0, f"{unit}{plural} {english.join(english.stretches(forward))}")
    return english.join(phrases)


def _weekday(day: int, nth: int) -> str:
    return f"the {english.nth(nth)} {_WEEKDAYS[day]}" if nth else _WEEKDAYS[day]


def _times(rule: Recurrence) -> str:
    """Return the times of day."""
    hours, minutes, seconds = rule.times_in_effect()
    local_times = list(product(hours, minutes, seconds))
    if len(local_times) <= _FEW:
        return f"at {english.join([_time(*local_time) for local_time in local_times])}"
    times = [_named("hour", hours), _named("minute", minutes)]
    return f"at {', '.join(times if seconds == [0] else [*times, _named('second', seconds)])}"


def _named(unit: str, numbers: list[int]) -> str:
    """Return `hours 9 and 10`."""
    return f"{unit}{'s' * (len(numbers) > 1)} {english.join(english.stretches(numbers))}"


def _time(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _picked(rule: Recurrence) -> str:
    if "BYSETPOS" not in rule.numbers:
        return ""
    positions = english.join([english.nth(number) for number in rule.numbers["BYSETPOS"]])
    return f"(only the {positions} of these in each {_UNITS[rule.frequency]})"


def _bounds(rule: Recurrence) -> list[str]:
    phrases = []
    if rule.has_own_start:
        phrases.append(f"from {_date_and_time(rule.start)}")
    if rule.count is not None:
        phrases.append(f"{rule.count} times" if rule.count > 1 else "once")
    if rule.last_local_time is not None:
        phrases.append(f"until {_date_and_time(rule.last_local_time)}")
    if rule.until is not None:
        phrases.append(f"until {_date_and_time(rule.until)} UTC")
    return phrases


def _date_and_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d} {_time(at.hour, at.minute, at.second)}"
