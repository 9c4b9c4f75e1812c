"""Check the texts of a form and preview its schedule, in a thread of the form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dcron.errors import UsageError
from dcron.model import Definition
from dcron.policy.forecast.start_load import OtherStarts, start_load
from dcron.presentation import next_runs
from dcron.schedule.zones import zone
from dcron.tui.forms.fields import Texts
from dcron.tui.forms.reading import GENERAL, Reading, read_texts
from dcron.tui.forms.schedule_preview import Calendars, SchedulePreview, load_lines, preview, rules_of

Moved = Sequence[tuple[str, str | list[str] | None]]


@dataclass(frozen=True)
class Typed:
    """The texts of a form at one time."""

    number: int
    """Grows with every change."""
    base: Definition
    texts: Texts
    is_new: bool
    now: datetime
    """The database's time."""
    calendars: Calendars = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Calendars that could not be read, with the reason."""
    others: OtherStarts | None = None
    """The starts of the other tasks; None until they are counted."""


@dataclass(frozen=True)
class CheckResult:
    """The errors of the texts, and what their schedule does."""

    typed: Typed
    reading: Reading
    preview: SchedulePreview | None
    """None if the schedule cannot be read."""
    moved: Moved = ()
    """The next runs before and after, if the task can be saved."""
    load: Sequence[tuple[str, str]] = ()
    """What the starts meet, in words and styles."""


def check(typed: Typed) -> CheckResult:
    """Read the texts, and preview the schedule if it can be read."""
    reading = read_texts(typed.base, typed.texts, typed.now)
    errors = dict(reading.errors)
    for name in ("except_calendar", "only_calendar"):
        if (calendar := getattr(reading.task, name)) in typed.missing:
            errors.setdefault(name, typed.missing[calendar])
    found: SchedulePreview | None = None
    load: Sequence[tuple[str, str]] = ()
    if not {"schedule", "timezone"} & errors.keys():
        try:
            found = preview(reading.task, typed.calendars, typed.now)
            load = _load(typed, reading)
        except UsageError as error:
            errors.setdefault(error.field or GENERAL, str(error))
    reading = Reading(reading.task, errors, reading.named)
    return CheckResult(typed, reading, found, _moved(typed, reading) if not errors else (), load)


def _load(typed: Typed, reading: Reading) -> Sequence[tuple[str, str]]:
    if typed.others is None or not next_runs.schedule_of(reading.task).timed:
        return ()
    return load_lines(start_load(reading.task, typed.others), zone(reading.task.timezone))


def _moved(typed: Typed, reading: Reading) -> Moved:
    before = None if typed.is_new else typed.base
    rules = rules_of(reading.task, typed.calendars)
    return list(next_runs.moved_runs(before, reading.task, typed.now, rules))
