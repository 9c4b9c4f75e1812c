"""The kinds of schedule, called forms, and a schedule made of them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TypeAlias

from dcron.schedule.cron_expression import Cron
from dcron.schedule.dst_rules import next_fixed, next_interval
from dcron.schedule.recurrence import Recurrence
from dcron.schedule.rules import Rules
from dcron.schedule.transitions import ZoneClock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Every:
    """`@every 90s`: a fixed period of elapsed time, counted from 1970-01-01T00:00Z on every node."""

    period: timedelta


@dataclass(frozen=True)
class At:
    """`@at 2027-01-01T09:00`: once. A naive time is a local time of the task's zone."""

    time: datetime

    @property
    def is_local(self) -> bool:
        """Whether the task's zone decides which instant is meant."""
        return self.time.tzinfo is None

    def next_local_time(self, local_time: datetime) -> datetime | None:
        """Return the time if it is after `local_time`: it is the only one."""
        return self.time if self.time > local_time else None


@dataclass(frozen=True)
class Reboot:
    """`@reboot`: once when a node starts."""


@dataclass(frozen=True)
class Delay:
    """`@delay 5m`: this many seconds after the previous run has ended."""

    seconds: float


@dataclass(frozen=True)
class OnEvent:
    """`@on EVENT`: whenever the event is sent."""

    event: str


@dataclass(frozen=True)
class After:
    """`@after A,B`: when all of these tasks have succeeded."""

    tasks: tuple[str, ...]


Timed: TypeAlias = Cron | Every | At | Recurrence
"""Forms whose instants follow from the clock alone."""

Form: TypeAlias = Timed | Reboot | Delay | OnEvent | After


@dataclass(frozen=True)
class Schedule:
    """When a task runs: one form, or the union of several."""

    text: str
    """As typed."""
    forms: tuple[Form, ...]

    @cached_property
    def timed_forms(self) -> tuple[Timed, ...]:
        """The forms whose instants follow from the clock."""
        return tuple(form for form in self.forms if isinstance(form, Timed))

    @property
    def timed(self) -> bool:
        """Whether any form follows from the clock."""
        return bool(self.timed_forms)

    @property
    def reboot(self) -> bool:
        """Whether it runs when a node starts."""
        return any(isinstance(form, Reboot) for form in self.forms)

    @cached_property
    def delay(self) -> float | None:
        """Seconds from the end of one run to the next; None without `@delay`."""
        return next((form.seconds for form in self.forms if isinstance(form, Delay)), None)

    @cached_property
    def event(self) -> str | None:
        """The event that starts it; None without `@on`."""
        return next((form.event for form in self.forms if isinstance(form, OnEvent)), None)

    @cached_property
    def after(self) -> tuple[str, ...]:
        """Names of the upstream tasks."""
        return next((form.tasks for form in self.forms if isinstance(form, After)), ())

    @property
    def once(self) -> bool:
        """Whether it consists of `@at` times only, so that it is over after the last."""
        return all(isinstance(form, At) for form in self.forms)


def next_instant(form: Timed, clock: ZoneClock, after: datetime, rules: Rules) -> datetime | None:
    """Return the first instant of one form strictly after `after`, ignoring window and calendars."""
    match form:
        case Every(period):
            return _EPOCH + ((after - _EPOCH) // period + 1) * period
        case At(time) if form.is_local:
            return next_fixed(form, clock, after, rules.gap, "first")
        case At(time):
            return time.astimezone(UTC) if time > after else None
        case Cron() if form.is_interval:
            return next_interval(form, clock, after)
        case Cron():
            return next_fixed(form, clock, after, rules.gap, rules.fold)
        case Recurrence():
            instant = next_fixed(form, clock, after, rules.gap, rules.fold)
            return instant if form.until is None or instant is None or instant <= form.until else None
