"""Why a task did, did not, or will not run: a service beside the crontab's."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain

from sqlalchemy import Connection

from dcron.errors import ZoneError
from dcron.model import Run
from dcron.schedule import zone
from dcron.services.crontab import Crontab
from dcron.services.why import lately, waiting
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.lifetime import changed_fields
from dcron.services.why.meant import read_when
from dcron.services.why.stretch import Span, explained, line_then, moments_between, of_span, rows_between
from dcron.store import runs, tasks


class Why:
    """Explains the runs of a crontab's tasks. Every method is one transaction that only reads."""

    def __init__(self, crontab: Crontab) -> None:
        """Use the crontab's database."""
        self._crontab = crontab
        self._database = crontab.database

    def meant(self, task_name: str, text: str) -> datetime | Span:
        """The time or the day that somebody means, in the zone of the task. Raises NotFound or UsageError."""
        return read_when(text, self._timezone(task_name), self._crontab.now())

    def _timezone(self, task_name: str) -> str:
        """The zone in which people mean times of the task, also of one that was removed."""
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            line = self._inquiry(connection, task_name, task_id).line
        try:
            return zone(line.timezone).key if line else "UTC"
        except ZoneError:
            return "UTC"

    def explain(self, task_name: str, when: datetime | Span | None = None) -> list[Cause]:
        """Why the task did, did not, or will not run at a time, in a stretch of time, or lately and next.

        The time is an occurrence of the task, or a minute in which runs of it fall. Raises NotFound.
        """
        task_id = self._crontab.task_id(task_name)
        with self._database.read() as connection:
            inquiry = self._inquiry(connection, task_name, task_id)
            if when is None:
                return lately.explain(inquiry)
            if isinstance(when, Span):
                return [*of_span(inquiry, when), *_since(inquiry, when.end)]
            then = line_then(inquiry, when)
            return [*_moment(then, when), *_since(then, when)]

    def not_over(self, run: Run) -> list[Cause]:
        """Return what a run that is not over waits for, or that it runs; nothing once it is over."""
        with self._database.read() as connection:
            inquiry = self._inquiry(connection, run.task, run.task_id)
            current = runs.by_id(connection, run.id)
            return waiting.explain(inquiry, current) if current and not current.state.is_final else []

    def _inquiry(self, connection: Connection, name: str, task_id: int) -> Inquiry:
        task = tasks.by_id(connection, task_id)
        now = self._database.now(connection)
        return Inquiry(connection, now, task.name if task else name, task_id)


def _moment(inquiry: Inquiry, moment: datetime) -> list[Cause]:
    """An occurrence, or what falls into the minute that somebody typed."""
    is_minute = moment.second == 0 and moment.microsecond == 0
    end = moment + (timedelta(minutes=1) if is_minute else timedelta(seconds=1))
    rows = rows_between(inquiry, moment, end)
    moments = moments_between(inquiry, rows, moment, end)
    if moment in moments or not moments:
        moments = [moment]
    return list(chain.from_iterable(explained(inquiry, moments, rows)))


def _since(inquiry: Inquiry, moment: datetime) -> Iterator[Cause]:
    """What was done to the line since then, so that it is no longer what ran, or did not."""
    edits = inquiry.life.edits_since(moment)
    if edits:
        last = edits[-1]
        fields = sorted({field for edit in edits for field in changed_fields(edit)})
        times = f" {len(edits)} times, last" if len(edits) > 1 else ""
        sentence = f"{inquiry.name} was changed since,{times} {inquiry.by_whom(last)}: {', '.join(fields)}"
        facts = {"by": last.actor, "login": last.login, "since": last.at, "fields": fields}
        yield inquiry.told(None, "changed-since", sentence, facts)
    removal = inquiry.life.removal()
    if removal and removal.at > moment:
        yield inquiry.removed()
