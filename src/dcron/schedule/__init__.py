"""Schedules: from a schedule's text and a time zone to the times at which it runs.

The functions are pure. This package alone imports croniter, dateutil and zoneinfo. A *local time* is a
naive datetime: what a wall clock in the zone shows. An *instant* is an aware datetime in UTC.
"""

from dcron.schedule.calendars import (
    Calendar,
    calendar_from_ics,
    calendar_from_json,
    is_calendar_json,
    parse_calendar,
)
from dcron.schedule.effort import TooMuchEffort, affordable, is_short_of_time, repeatable, unlocked
from dcron.schedule.explain import explain
from dcron.schedule.kinds import Schedule
from dcron.schedule.lint import Advice, advise, advise_all, advise_minute, runs_often
from dcron.schedule.next_run import (
    ClockTransition,
    Occurrence,
    clock_transitions,
    next_run,
    require_fires,
    until_next_run,
    upcoming,
)
from dcron.schedule.parser import parse
from dcron.schedule.rules import Fold, Gap, Rules
from dcron.schedule.time_parser import parse_local_time, parse_time, resolve
from dcron.schedule.zones import (
    configured_zone,
    default_zone,
    machine_zone,
    tzdata_fingerprint,
    tzdata_version,
    zone,
    zone_names,
)

__all__ = [
    "Advice",
    "Calendar",
    "ClockTransition",
    "Fold",
    "Gap",
    "Occurrence",
    "Rules",
    "Schedule",
    "TooMuchEffort",
    "advise",
    "advise_all",
    "advise_minute",
    "affordable",
    "calendar_from_ics",
    "calendar_from_json",
    "clock_transitions",
    "configured_zone",
    "default_zone",
    "explain",
    "is_calendar_json",
    "is_short_of_time",
    "machine_zone",
    "next_run",
    "parse",
    "parse_calendar",
    "parse_local_time",
    "parse_time",
    "repeatable",
    "require_fires",
    "resolve",
    "runs_often",
    "tzdata_fingerprint",
    "tzdata_version",
    "unlocked",
    "until_next_run",
    "upcoming",
    "zone",
    "zone_names",
]
