"""The thread that reads what is being typed. Typing never waits for it, and what is stale is dropped."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from textual.message import Message

from dcron.errors import UsageError
from dcron.model import Definition
from dcron.presentation import next_runs
from dcron.tui.forms.reading import Reading, Texts, place_of, read_texts
from dcron.tui.forms.schedule_preview import Calendars, SchedulePreview, outlook, rules_of

Moved = Sequence[tuple[str, str | list[str] | None]]


@dataclass(frozen=True)
class Typed:
    """The texts of a form at a moment."""

    number: int
    """Grows with every change."""
    base: Definition
    texts: Texts
    is_new: bool
    now: datetime
    """The database's time."""
    calendars: Calendars = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Of calendars that could not be read: why."""


@dataclass(frozen=True)
class CheckResult:
    """What there is to say of them."""

    typed: Typed
    reading: Reading
    outlook: SchedulePreview | None
    """None where the schedule cannot be read."""
    moved: Moved = ()
    """The next runs before and after, for a line that could be saved."""


class Checked(Message):
    """Something that was typed has been read."""

    def __init__(self, found: CheckResult) -> None:
        """With this result."""
        super().__init__()
        self.found = found


class Checker:
    """Reads the latest of what was typed. A daemon thread, so leaving waits for nothing."""

    def __init__(self, tell: Callable[[Message], object]) -> None:
        """`tell` must be safe to call from any thread."""
        self._tell = tell
        self._wake = threading.Condition()
        self._latest: Typed | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Read nothing more."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def check(self, typed: Typed) -> None:
        """Have this read; it takes the place of what waits."""
        with self._wake:
            self._latest = typed
            self._wake.notify()

    def _run(self) -> None:
        while typed := self._next():
            found = check(typed)
            if self._latest is None and not self._stopped:
                self._tell(Checked(found))

    def _next(self) -> Typed | None:
        with self._wake:
            self._wake.wait_for(lambda: self._latest or self._stopped)
            typed, self._latest = self._latest, None
            return None if self._stopped else typed


def check(typed: Typed) -> CheckResult:
    """Read the texts, and look ahead as far as they let."""
    reading = read_texts(typed.base, typed.texts, typed.now)
    errors = dict(reading.errors)
    for name in ("except_calendar", "only_calendar"):
        if (calendar := getattr(reading.line, name)) in typed.missing:
            errors.setdefault(name, typed.missing[calendar])
    seen = None
    if not {"schedule", "timezone"} & errors.keys():
        try:
            seen = outlook(reading.line, typed.calendars, typed.now)
        except UsageError as error:
            errors.setdefault(place_of(error), str(error))
    reading = Reading(reading.line, errors, reading.named)
    return CheckResult(typed, reading, seen, _moved(typed, reading) if not errors else ())


def _moved(typed: Typed, reading: Reading) -> Moved:
    before = None if typed.is_new else typed.base
    rules = rules_of(reading.line, typed.calendars)
    return list(next_runs.moved_runs(before, reading.line, typed.now, rules))
