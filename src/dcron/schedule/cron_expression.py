"""Cron expressions of five or six fields."""

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
"""The words of crontab(5) and the expressions they mean."""

_FIVE = (fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)
_SIX = (fields.SECOND, *_FIVE)


@dataclass(frozen=True)
class Cron:
    """The values that a cron expression allows, field by field."""

    text: str
    minute: Values
    hour: Values
    day: Values
    month: Values
    weekday: Values
    second: Values | None = None
    """None for five fields: the first second of the minute."""

    @property
    def is_interval(self) -> bool:
        """Whether it is an interval rather than fixed times: minute, hour or second begins with `*`.

        Debian cron decides so, too, on the text as typed. It matters at clock changes only.
        """
        seconds = self.second is not None and self.second.starred
        return self.minute.starred or self.hour.starred or seconds

    @property
    def either_day(self) -> bool:
        """Whether day of month OR weekday must match: crontab(5), if neither begins with `*`. Else
        both must.
        """
        return not (self.day.starred or self.weekday.starred)

    def columns(self) -> list[tuple[CronField, Values]]:
        """Return the fields as typed, from left to right."""
        values = (self.minute, self.hour, self.day, self.month, self.weekday)
        if self.second is None:
            return list(zip(_FIVE, values, strict=True))
        return list(zip(_SIX, (self.second, *values), strict=True))

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """The same local times as numeric expressions in which day of month AND weekday must match."""
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
        """Return the first local time it names after this one; None if there is none within 50 years."""
        return self._enumerator.next_local_time(local_time)

    @cached_property
    def _enumerator(self) -> Enumerator:
        return enumerator(self.expressions)


def read_cron(text: str, column: int, key: str) -> Cron:
    """Parse five or six fields that begin at `column`. `key` is what `H` hashes. Raises ScheduleError."""
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
    """Return a list of numbers, or `*` for all."""
    if values.numbers >= which.full:
        return "*"
    return ",".join(map(str, sorted(values.numbers)))


def _days(values: Values) -> list[str]:
    """Return the day of month as terms that croniter accepts one at a time: numbers and L, then each W."""
    terms = [_numbers(fields.DAY, values)] if values.numbers else []
    if values.last and terms != ["*"]:
        terms = [",".join([*terms, "l"])]
    return terms + [f"{day}w" for day in sorted(values.workdays)]


def _weekdays(values: Values) -> list[str]:
    """Return the weekday as such terms: numbers, then everything counted within the month."""
    terms = [_numbers(fields.WEEKDAY, values)] if values.numbers else []
    counted = [f"l{day}" if nth == LAST else f"{day}#{nth}" for day, nth in sorted(values.nth)]
    return terms + ([",".join(counted)] if counted else [])
