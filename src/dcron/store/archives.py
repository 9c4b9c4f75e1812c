"""The maintenance job that writes the runs of a day, with their output, to the archive.

Runs are pruned only after their day is archived, if the crontab has an archive. The name of an object has the
hash of its content. So a node that was killed after it had written an object, and before the database knew of
it, leaves nothing behind: the node that continues writes the same object.
"""

import gzip
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from io import BytesIO
from typing import Any

from sqlalchemy import Connection, and_, func, insert, or_, select, text, update

from dcron.archive import ArchivedChunk, open_storage, part_name, run_line
from dcron.archive.storage import Storage
from dcron.database import Database
from dcron.model import LAST_RUN, Run
from dcron.policy.statistics import DAY, Span, start_of
from dcron.schema import FINISHED, archives, output, runs, summed_days
from dcron.settings import ARCHIVE_URL
from dcron.store import maintenance, settings
from dcron.store.daily_statistics import ARCHIVE_JOB
from dcron.store.finished_runs import Place
from dcron.store.maintenance import Hold, Step
from dcron.store.runs import COLUMNS, run_from
from dcron.unreadable import Unreadable, UnreadableTime

PAGE = 500
"""Runs in one step."""
PART = 16 * 1024 * 1024
"""Bytes of lines in one object, before they are compressed."""
OUTPUT_AT_ONCE = 8 * 1024 * 1024
"""Bytes of output that one query reads, if several runs have less."""
_REST = 0.1
_CHANGES_LATER = ("id", "dead_at", "blocked")
"""What the line of a run leaves out of its facts: dismissing a dead letter must not change the archive."""


@dataclass(frozen=True)
class Part:
    """An object that was written."""

    name: str
    first_run: int
    last_run: int
    runs: int
    bytes: int
    sha256: str
    """Of the lines, before they were compressed."""


class _Lines:
    """Lines that become an object."""

    def __init__(self) -> None:
        self._compressed = BytesIO()
        self._gzip = gzip.GzipFile(fileobj=self._compressed, mode="wb", mtime=0)
        self._digest = hashlib.sha256()
        self.size = 0
        self._ids: list[int] = []

    def add(self, run_id: int, line: bytes) -> None:
        """Append the line of a run."""
        self._gzip.write(line)
        self._digest.update(line)
        self.size += len(line)
        self._ids.append(run_id)

    def write(self, storage: Storage, day: str, number: int) -> Part:
        """Write the object. Raises ArchiveError."""
        self._gzip.close()
        data, digest = self._compressed.getvalue(), self._digest.hexdigest()
        name = part_name(day, number, digest)
        storage.put(name, data)
        return Part(name, min(self._ids), max(self._ids), len(self._ids), len(data), digest)


@dataclass
class _Day:
    """The day under way, as far as it is written."""

    day: str
    url: str
    due_at: datetime | None
    """When the job was due. A late end makes it due again."""
    after: Place | None = None
    lines: _Lines = field(default_factory=_Lines)
    parts: list[Part] = field(default_factory=list)
    is_complete: bool = False

    @property
    def position(self) -> Mapping[str, Any]:
        """The position of the job."""
        return {"day": self.day}

    def end_part(self, storage: Storage) -> None:
        """Write the lines that there are as an object."""
        if self.lines.size:
            self.parts.append(self.lines.write(storage, self.day, len(self.parts)))
            self.lines = _Lines()


class ArchiveDays:
    """Archives one day after the other, each after it is summed up. One page of runs is a step."""

    name = ARCHIVE_JOB
    interval = 3600.0

    def __init__(self) -> None:
        """Begin without a day."""
        self._day: _Day | None = None
        self._done = {"days": 0, "objects": 0}

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Write a page of the day's runs, or record the day when all are written. Raises ArchiveError.

        The lines of the object under way are in memory: a node that takes the job over begins the day again.
        """
        day = self._day
        if day is None or position != day.position:
            return self._begin_day(database, hold, is_new_round=not position)
        if not day.is_complete:
            _write_page(database, day)
        else:
            if _record(database, hold, day):
                self._done["days"] += 1
                self._done["objects"] += len(day.parts)
            self._day = None
        return Step(day.position, rest=_REST)

    def _begin_day(self, database: Database, hold: Hold, *, is_new_round: bool) -> Step:
        if is_new_round:
            self._done = {"days": 0, "objects": 0}
        with database.write() as connection:
            hold.renew(connection, database.now(connection), {})
            url = archive_url(connection)
            day = _first_day_to_do(connection) if url else None
            self._day = _Day(day, url, maintenance.due_at(connection, ARCHIVE_JOB)) if day and url else None
        if self._day is None:
            return Step(None, self._done)
        return Step(self._day.position)


def archive_url(connection: Connection) -> str | None:
    """Return the URL of the crontab's archive; None without one. Raises UsageError for an unreadable one."""
    stored = settings.by_name(connection, ARCHIVE_URL.name)
    return ARCHIVE_URL.read(stored.value) if stored else None


def parts_with(connection: Connection, run_id: int, day: date | None = None) -> list[str]:
    """Return the URLs of the objects that may have the run, the most likely first.

    That is the first day whose runs reach this number, and of a day that was archived twice the newer object.
    """
    if run_id > LAST_RUN:
        return []
    query = select(archives.c.day, archives.c.url, archives.c.last_run, archives.c.id)
    query = query.where(archives.c.first_run <= run_id, archives.c.last_run >= run_id)
    if day:
        query = query.where(archives.c.day == day.isoformat())
    rows = connection.execute(query.order_by(archives.c.last_run, archives.c.id).limit(MOST_PARTS)).all()
    days = list(dict.fromkeys(row.day for row in rows))
    return [row.url for row in sorted(rows, key=lambda row: (days.index(row.day), -row.id))]


MOST_PARTS = 100
"""Objects in which one run is searched."""


def _first_day_to_do(connection: Connection) -> str | None:
    summed = select(summed_days.c.day).where(summed_days.c.archived_at.is_(None))
    return connection.scalar(summed.order_by(summed_days.c.day).limit(1))


def _write_page(database: Database, day: _Day) -> None:
    storage = open_storage(day.url)
    with database.read() as connection:
        found, place = _page(connection, day)
        sizes = _output_sizes(connection, found)
    for some in _in_portions(found, sizes):
        with database.read() as connection:
            chunks = _output(connection, [run.id for run in some if run.id in sizes])
        for run in some:
            day.lines.add(run.id, run_line(run.id, _facts(run), chunks.get(run.id, [])))
        if day.lines.size >= PART:
            day.end_part(storage)
    if place is None:
        day.end_part(storage)
        day.is_complete = True
    day.after = place


def _page(connection: Connection, day: _Day) -> tuple[list[Run], Place | None]:
    """Return the next runs that ended on the day, and the place of the last one if more may follow."""
    first = date.fromisoformat(day.day)
    span = Span(start_of(first), start_of(first + DAY))
    ended = runs.c.finished_at
    query = select(*COLUMNS).where(text(FINISHED), ended >= span.start, ended < span.end)
    if day.after:
        behind = or_(
            ended > day.after.finished_at, and_(ended == day.after.finished_at, runs.c.id > day.after.id)
        )
        query = query.where(ended >= day.after.finished_at, behind)
    rows = connection.execute(query.order_by(ended, runs.c.id).limit(PAGE)).all()
    found = [run_from(row) for row in rows if not isinstance(row.finished_at, UnreadableTime)]
    last = found[-1] if found and len(rows) == PAGE else None
    return found, Place(last.finished_at, last.id) if last and last.finished_at else None


def _output_sizes(connection: Connection, found: Sequence[Run]) -> dict[int, int]:
    """Return how many bytes of output these runs have; those without any are left out."""
    size = func.sum(func.length(output.c.data))
    query = select(output.c.run_id, size).where(output.c.run_id.in_([run.id for run in found]))
    return {row[0]: int(row[1]) for row in connection.execute(query.group_by(output.c.run_id))}


def _in_portions(found: Sequence[Run], sizes: Mapping[int, int]) -> Iterator[list[Run]]:
    """Yield the runs in portions whose output fits in memory; a run is never divided."""
    portion: list[Run] = []
    size = 0
    for run in found:
        size += sizes.get(run.id, 0)
        if portion and size > OUTPUT_AT_ONCE:
            yield portion
            portion, size = [], sizes.get(run.id, 0)
        portion.append(run)
    if portion:
        yield portion


def _output(connection: Connection, run_ids: Sequence[int]) -> dict[int, list[ArchivedChunk]]:
    found: dict[int, list[ArchivedChunk]] = {}
    columns = (output.c.run_id, output.c.byte_offset, output.c.stream, output.c.at, output.c.data)
    query = select(*columns).where(output.c.run_id.in_(run_ids))
    for row in connection.execute(query.order_by(output.c.run_id, output.c.byte_offset)):
        chunk = ArchivedChunk(row.byte_offset, row.stream, row.at, bytes(row.data))
        found.setdefault(row.run_id, []).append(chunk)
    return found


def _facts(run: Run) -> dict[str, Any]:
    """Return what the archive keeps of a run besides its id and output."""
    facts = {name: value for name, value in vars(run).items() if name not in _CHANGES_LATER}
    facts["node"] = run.node
    return {name: value.text if isinstance(value, Unreadable) else value for name, value in facts.items()}


def _record(database: Database, hold: Hold, day: _Day) -> bool:
    """Record the objects, and that the day is archived.

    Return False if a run of a day was recorded late meanwhile: the day has to be written again.
    """
    with database.write() as connection:
        now = database.now(connection)
        hold.renew(connection, now, day.position)  # from here on, late ends wait
        if maintenance.due_at(connection, ARCHIVE_JOB) != day.due_at:
            return False
        urls = [f"{day.url}/{part.name}" for part in day.parts]
        known = set(connection.scalars(select(archives.c.url).where(archives.c.url.in_(urls))))
        rows = [
            {**vars(part), "day": day.day, "url": url, "created_at": now}
            for part, url in zip(day.parts, urls, strict=True)
            if url not in known
        ]
        for row in rows:
            row.pop("name")
        if rows:
            connection.execute(insert(archives), rows)
        archived = update(summed_days).where(summed_days.c.day == day.day)
        connection.execute(archived.values(archived_at=now))
    return True
