"""The maintenance job that writes the runs of a day, with their output, to the archive.

Runs are pruned only after their day is archived, if the crontab has an archive. The name of an object has the
hash of its content. So a node that was killed after it had written an object, and before the database knew of
it, leaves nothing behind: the node that continues writes the same object.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update

from dcron.archive import ArchivedChunk, open_storage, part_name, run_line
from dcron.archive.storage import Storage
from dcron.database import Database
from dcron.model import LAST_RUN, Run
from dcron.policy.statistics import DAY, Span, start_of
from dcron.schema.conditions import FINISHED
from dcron.schema.tables import archives, output, runs, summed_days
from dcron.settings.registry import ARCHIVE_URL
from dcron.store import maintenance
from dcron.store.daily_jobs import DailyJob, DayUnderWay
from dcron.store.maintenance import Hold
from dcron.store.runs.rows import COLUMNS, run_from
from dcron.store.statistics.daily import ARCHIVE_JOB
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks import settings
from dcron.values.unreadable import Unreadable, UnreadableTime

PAGE = 500
"""Runs in one step."""
PART = 16 * 1024 * 1024
"""Bytes of lines in one object, before they are compressed."""
OUTPUT_AT_ONCE = 8 * 1024 * 1024
"""Bytes of output that one query reads, if several runs have less."""
_CHANGES_LATER = ("id", "dead_at", "blocked")
"""What the line of a run leaves out of its facts: dismissing a dead letter must not change the archive."""


_GZIP = 16 + zlib.MAX_WBITS
"""Let zlib write the header and the end of a gzip file, without a time."""


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
        # No GzipFile: one that is dropped before its end writes a traceback on Python 3.13.
        self._gzip = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
        self._compressed = bytearray()
        self._digest = hashlib.sha256()
        self.size = 0
        self._ids: list[int] = []

    def add(self, run_id: int, line: bytes) -> None:
        """Append the line of a run."""
        self._compressed += self._gzip.compress(line)
        self._digest.update(line)
        self.size += len(line)
        self._ids.append(run_id)

    def write(self, storage: Storage, day: str, number: int) -> Part:
        """Write the object. Raises ArchiveError."""
        self._compressed += self._gzip.flush()
        data, digest = bytes(self._compressed), self._digest.hexdigest()
        name = part_name(day, number, digest)
        storage.put(name, data)
        return Part(name, min(self._ids), max(self._ids), len(self._ids), len(data), digest)


class _Day(DayUnderWay):
    """The day under way, as far as it is written. The lines of the next object are in memory."""

    def __init__(self, day: str, url: str, due_at: datetime | None) -> None:
        super().__init__(ARCHIVE_JOB, day, due_at)
        self._url = url
        self._after: Place | None = None
        self._lines = _Lines()
        self._parts: list[Part] = []

    def read_page(self, database: Database) -> None:
        """Write the next runs. Raises ArchiveError."""
        storage = open_storage(self._url)
        with database.read() as connection:
            found, self._after = _page(connection, self.day, self._after)
            sizes = _output_sizes(connection, found)
        for some in _in_portions(found, sizes):
            with database.read() as connection:
                chunks = _output(connection, [run.id for run in some if run.id in sizes])
            for run in some:
                self._lines.add(run.id, run_line(run.id, _facts(run), chunks.get(run.id, [])))
            if self._lines.size >= PART:
                self._end_part(storage)
        if self._after is None:
            self._end_part(storage)
            self.is_complete = True

    def _end_part(self, storage: Storage) -> None:
        """Write the lines that there are as an object."""
        if self._lines.size:
            self._parts.append(self._lines.write(storage, self.day, len(self._parts)))
            self._lines = _Lines()

    def record(self, database: Database, hold: Hold) -> Mapping[str, int] | None:
        """Record the objects, and that the day is archived."""
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, self.position)  # from here on, late ends wait
            if self.has_late_end(connection):
                return None
            self._insert_parts(connection, now)
            archived = update(summed_days).where(summed_days.c.day == self.day)
            connection.execute(archived.values(archived_at=now))
        return {"days": 1, "objects": len(self._parts)}

    def _insert_parts(self, connection: Connection, now: datetime) -> None:
        urls = [f"{self._url}/{part.name}" for part in self._parts]
        known = set(connection.scalars(select(archives.c.url).where(archives.c.url.in_(urls))))
        rows = [
            {**vars(part), "day": self.day, "url": url, "created_at": now}
            for part, url in zip(self._parts, urls, strict=True)
            if url not in known
        ]
        for row in rows:
            row.pop("name")
        if rows:
            connection.execute(insert(archives), rows)


class ArchiveDays(DailyJob):
    """Archives one day after the other, each after it is summed up. Its steps raise ArchiveError."""

    name = ARCHIVE_JOB
    kinds = ("days", "objects")

    def first_day(self, connection: Connection, now: datetime) -> _Day | None:
        """Return the first day that is summed up and not archived; None without an archive."""
        url = archive_url(connection)
        day = _first_day_to_do(connection) if url else None
        return _Day(day, url, maintenance.due_at(connection, ARCHIVE_JOB)) if day and url else None


def archive_url(connection: Connection) -> str | None:
    """Return the URL of the crontab's archive; None without one. Raises UsageError for an unreadable one."""
    stored = settings.by_name(connection, ARCHIVE_URL.name)
    return ARCHIVE_URL.read(stored.value) if stored else None


@dataclass(frozen=True)
class RecordedPart:
    """What the database says of an object that may have a run."""

    url: str
    bytes: int
    sha256: str


def parts_with(connection: Connection, run_id: int, day: date | None = None) -> list[RecordedPart]:
    """Return the objects that may have the run, the most likely first.

    That is the first day whose runs reach this number, and of a day that was archived twice the newer object.
    """
    if run_id > LAST_RUN:
        return []
    known = archives.c
    query = select(known.day, known.url, known.bytes, known.sha256, known.last_run, known.id)
    query = query.where(known.first_run <= run_id, known.last_run >= run_id)
    if day:
        query = query.where(known.day == day.isoformat())
    rows = connection.execute(query.order_by(known.last_run, known.id).limit(MOST_PARTS)).all()
    days = list(dict.fromkeys(row.day for row in rows))
    ordered = sorted(rows, key=lambda row: (days.index(row.day), -row.id))
    return [RecordedPart(row.url, row.bytes, row.sha256) for row in ordered]


MOST_PARTS = 100
"""Objects in which one run is searched."""


def _first_day_to_do(connection: Connection) -> str | None:
    summed = select(summed_days.c.day).where(summed_days.c.archived_at.is_(None))
    return connection.scalar(summed.order_by(summed_days.c.day).limit(1))


def _page(connection: Connection, day: str, after: Place | None) -> tuple[list[Run], Place | None]:
    """Return the next runs that ended on the day, and the place of the last one if more may follow."""
    first = date.fromisoformat(day)
    span = Span(start_of(first), start_of(first + DAY))
    ended = runs.c.finished_at
    query = select(*COLUMNS).where(text(FINISHED), ended >= span.start, ended < span.end)
    if after:
        query = query.where(*after.is_before_run())
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
