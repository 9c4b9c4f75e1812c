"""Recurrence rules in plain words."""

from itertools import product

from dcron.schedule import words
from dcron.schedule.rrule import Recurrence

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_WEEKDAYS = (*words.WEEKDAYS[1:], words.WEEKDAYS[0])
_FEW = 6


def explain_recurrence(rule: Recurrence) -> str:
    """The rule in words: how often, on which days, at which times, from when and how long."""
    phrases = (_often(rule), *_days(rule), _times(rule), _picked(rule))
    return ", ".join((" ".join(filter(None, phrases)), *_bounds(rule)))


def _often(rule: Recurrence) -> str:
    return words.every(rule.interval, _UNITS[rule.frequency])


def _days(rule: Recurrence) -> list[str]:
    """What names the days, from the coarse to the fine."""
    numbers, weekdays = rule.days_in_effect()
    phrases = []
    if "BYMONTH" in numbers:
        phrases.append(f"in {words.join(words.stretches(numbers['BYMONTH'], ('', *words.MONTHS)))}")
    if "BYWEEKNO" in numbers:
        phrases.append(f"in {_counted(numbers['BYWEEKNO'], 'week')} of the year")
    if "BYYEARDAY" in numbers:
        phrases.append(f"on {_counted(numbers['BYYEARDAY'], 'day')} of the year")
    if "BYMONTHDAY" in numbers:
        phrases.append(f"on {_counted(numbers['BYMONTHDAY'], 'day')} of the month")
    if weekdays:
        phrases.append(f"on {words.join([_weekday(day, nth) for day, nth in weekdays])}")
    return phrases


def _counted(numbers: tuple[int, ...], unit: str) -> str:
    """`day 15`, `days 1 and 15`, `the last day`."""
    forward = [number for number in numbers if number > 0]
    phrases = [f"the {words.nth(number)} {unit}" for number in sorted(numbers) if number < 0]
    if forward:
        plural = "s" if len(forward) > 1 else ""
        phrases.insert(0, f"{unit}{plural} {words.join(words.stretches(forward))}")
    return words.join(phrases)


def _weekday(day: int, nth: int) -> str:
    return f"the {words.nth(nth)} {_WEEKDAYS[day]}" if nth else _WEEKDAYS[day]


def _times(rule: Recurrence) -> str:
    """The times of day, where the rule has any of its own."""
    numbers = rule.times_in_effect()
    if set(numbers) == {"BYHOUR", "BYMINUTE", "BYSECOND"}:
        times = list(product(*(sorted(set(numbers[name])) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))))
        if len(times) <= _FEW:
            return f"at {words.join([_time(*time) for time in times])}"
    phrases = []
    for name, unit in (("BYHOUR", "hour"), ("BYMINUTE", "minute"), ("BYSECOND", "second")):
        if name in numbers and (name != "BYSECOND" or numbers[name] != (0,)):
            plural = "s" if len(numbers[name]) > 1 else ""
            phrases.append(f"{unit}{plural} {words.join(words.stretches(set(numbers[name])))}")
    return f"at {', '.join(phrases)}" if phrases else ""


def _time(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _picked(rule: Recurrence) -> str:
    if "BYSETPOS" not in rule.numbers:
        return ""
    positions = words.join([words.nth(number) for number in rule.numbers["BYSETPOS"]])
    return f"(only the {positions} of these in each {_UNITS[rule.frequency]})"


def _bounds(rule: Recurrence) -> list[str]:
    phrases = []
    if rule.has_own_start:
        phrases.append(f"from {rule.start:%Y-%m-%d %H:%M}")
    if rule.count is not None:
        phrases.append(f"{rule.count} times" if rule.count > 1 else "once")
    if rule.last_face is not None:
        phrases.append(f"until {rule.last_face:%Y-%m-%d %H:%M}")
    if rule.until is not None:
        phrases.append(f"until {rule.until:%Y-%m-%d %H:%M} UTC")
    return phrases
