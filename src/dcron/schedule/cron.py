"""A cron line of five or six fields."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dcron.errors import ScheduleError
from dcron.schedule import fields
from dcron.schedule.croniter_walk import Enumerator, enumerator
from dcron.schedule.fields import LAST, CronField, Values, read_field

WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""The words of crontab(5) and what they stand for."""

_FIVE = (fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)
_SIX = (fields.SECOND, *_FIVE)


@dataclass(frozen=True)
class Cron:
    """What a cron line allows, field by field."""

    text: str
    minute: Values
    hour: Values
    day: Values
    month: Values
    weekday: Values
    second: Values | None = None
    """None for five fields: the minute's first second."""

    @property
    def is_interval(self) -> bool:
        """Every so often, rather than at fixed times: minute, hour or second begins with `*`.

        Debian decides so too, on the text as typed; it matters at clock changes only.
        """
        seconds = self.second is not None and self.second.starred
        return self.minute.starred or self.hour.starred or seconds

    @property
    def either_day(self) -> bool:
        """Day of month OR weekday, as crontab(5) has it when neither begins with `*`; else both must fit."""
        return not (self.day.starred or self.weekday.starred)

    def columns(self) -> list[tuple[CronField, Values]]:
        """The fields as typed, from left to right."""
        values = (self.minute, self.hour, self.day, self.month, self.weekday)
        if self.second is None:
            return list(zip(_FIVE, values, strict=True))
        return list(zip(_SIX, (self.second, *values), strict=True))

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """The same faces as expressions of numbers, in which day of month AND weekday must fit."""
        second = () if self.second is None else (_numbers(fields.SECOND, self.second),)
        clock = (*second, _numbers(fields.MINUTE, self.minute), _numbers(fields.HOUR, self.hour))
        month = _numbers(fields.MONTH, self.month)
        return tuple(" ".join((*clock, day, month, weekday)) for day, weekday in self._day_pairs())

    def _day_pairs(self) -> list[tuple[str, str]]:
        days, weekdays = _days(self.day), _weekdays(self.weekday)
        if self.either_day:
            return [(day, "*") for day in days] + [("*", weekday) for weekday in weekdays]
        return [(day, weekday) for day in days for weekday in weekdays]

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """The first face this line names after `face`; None when there is none for 50 years."""
        return self._enumerator.next_local_time(local_time)

    @cached_property
    def _enumerator(self) -> Enumerator:
        return enumerator(self.expressions)


def read_cron(text: str, column: int, key: str) -> Cron:
    """Read a line of five or six fields that begins at `column`; `key` is what `H` hashes."""
    words = list(re.finditer(r"[^ \t]+", text))
    if len(words) not in (len(_FIVE), len(_SIX)):
        raise ScheduleError(_wrong_count(len(words)))
    columns = _FIVE if len(words) == len(_FIVE) else _SIX
    *seconds, minute, hour, day, month, weekday = (
        read_field(which, word[0], column + word.start(), key)
        for which, word in zip(columns, words, strict=True)
    )
    return Cron(text, minute, hour, day, month, weekday, *seconds)


def _wrong_count(count: int) -> str:
    message = (
        f"{count} field{'s' * (count != 1)} where cron has five (minute hour day month weekday), "
        "or six with the second first"
    )
    return message + ("; a year is not supported" if count == 7 else "")


def _numbers(which: CronField, values: Values) -> str:
    """A list of numbers, or `*` for all of them."""
    if values.numbers >= which.full:
        return "*"
    return ",".join(map(str, sorted(values.numbers)))


def _days(values: Values) -> list[str]:
    """The day of month as terms that croniter takes singly: numbers and L, then each W."""
    terms = [_numbers(fields.DAY, values)] if values.numbers else []
    if values.last and terms != ["*"]:
        terms = [",".join([*terms, "l"])]
    return terms + [f"{day}w" for day in sorted(values.workdays)]


def _weekdays(values: Values) -> list[str]:
    """The weekday likewise: numbers, then everything that counts within the month."""
    terms = [_numbers(fields.WEEKDAY, values)] if values.numbers else []
    counted = [f"l{day}" if nth == LAST else f"{day}#{nth}" for day, nth in sorted(values.nth)]
    return terms + ([",".join(counted)] if counted else [])
