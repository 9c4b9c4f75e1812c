"""Why a task did, did not, or will not run: `dcron why`, and the same question in the TUI."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from sqlalchemy import Connection

from dcron.errors import UsageError, ZoneError
from dcron.model import Run
from dcron.presentation.why import Cause
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone
from dcron.services.crontab import Crontab
from dcron.services.why import answers
from dcron.services.why.answers import Span
from dcron.services.why.facts import Facts
from dcron.services.why.runs import of_run
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.values.quantities import is_duration

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


class Why:
    """Explains the runs of a crontab's tasks. Every method is one transaction that only reads."""

    def __init__(self, crontab: Crontab, here: tzinfo | None = None) -> None:
        """Use the crontab's database. Sentences have times in the zone `here`, or in the task's."""
        self._crontab = crontab
        self._here = here
        self._database = crontab.database

    def meant(self, task_name: str, text: str) -> datetime | Span:
        """Return the time or the day that a text means in the task's zone. Raises NotFound or UsageError."""
        return read_when(text, self._timezone(task_name), self._crontab.now())

    def _timezone(self, task_name: str) -> str:
        """Return the task's zone, also that of a removed task."""
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            task = self._facts(connection, task_name, task_id).latest
        try:
            return zone(task.timezone).key if task else "UTC"
        except ZoneError:
            return "UTC"

    def explain(self, task_name: str, when: datetime | Span | None = None) -> list[Cause]:
        """Return why the task did, did not, or will not run: at a time, in a span, or lately and next.

        The time is an occurrence of the task, or a minute that contains some. Raises NotFound.
        """
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            facts = self._facts(connection, task_name, task_id)
            if when is None:
                return answers.lately(facts)
            return answers.of_span(facts, when) if isinstance(when, Span) else answers.of_time(facts, when)

    def not_over(self, run: Run) -> list[Cause]:
        """Return what an unfinished run waits for, or that it runs; nothing once it is over."""
        with self._database.read() as connection:
            facts = self._facts(connection, run.task, run.about_task)
            current = runs.by_id(connection, run.id)
            return of_run(facts, current) if current and not current.state.is_final else []

    def _facts(self, connection: Connection, name: str, task_id: int) -> Facts:
        task = tasks.by_id(connection, task_id)
        now = self._database.now(connection)
        return Facts(connection, now, task.name if task else name, task_id, self._here)


def read_when(text: str, timezone: str, now: datetime) -> datetime | Span:
    """Return the time that a text means: a clock time alone is today's, a date alone is all of that day."""
    if is_duration(text):
        raise UsageError(f"{text} is a duration; write +{text} for the time in {text}, or a date and a time")
    here = zone(timezone)
    words = _with_date(text.split(), here, now)
    first = parse_time(" ".join(words), here, now)
    if len(words) == 1 and _DATE.fullmatch(words[0]):
        following = datetime.fromisoformat(words[0]).date() + timedelta(days=1)
        return Span(first, parse_time(following.isoformat(), here, now))
    return first


def _with_date(words: Sequence[str], here: tzinfo, now: datetime) -> list[str]:
    """Return `yesterday 9:00` as `2027-06-01 09:00`."""
    words = [f"0{word}" if word[1:2] == ":" else word for word in words]
    if words and _CLOCK.fullmatch(words[0]):
        words = ["today", *words]
    if not words or words[0].lower() not in _DAYS:
        return words
    day = now.astimezone(here).date() + timedelta(days=_DAYS[words[0].lower()])
    return [day.isoformat(), *words[1:]]
