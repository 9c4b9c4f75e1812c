"""Read runs that were pruned, and their output, from the archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from dcron.archive import MOST_BYTES, ArchivedRun, find_run, is_part_name, open_storage
from dcron.errors import ArchiveError
from dcron.model import Run, RunState, Trigger
from dcron.policy.statistics import day_of
from dcron.services.service import Service
from dcron.store.retention import archives
from dcron.values.lists import Chunk

_TIMES = tuple(name for name, field in Run.__dataclass_fields__.items() if "datetime" in str(field.type))


@dataclass(frozen=True)
class PrunedRun:
    """A run of the archive."""

    run: Run
    output: Sequence[Chunk]
    url: str
    """Of the object that has it."""


class Archives(Service):
    """The archive of a crontab."""

    def find(self, run_id: int) -> PrunedRun | None:
        """Return a run that was pruned; None if the archive does not have it. Raises ArchiveError."""
        return self._search(run_id)

    def output(self, run: Run) -> Sequence[Chunk]:
        """Return the archived output of a run that has ended; none if there is none. Raises ArchiveError."""
        if run.finished_at is None:
            return []
        found = self._search(run.id, day_of(run.finished_at))
        return found.output if found else []

    def _search(self, run_id: int, day: date | None = None) -> PrunedRun | None:
        with self.database.read() as connection:
            parts = archives.parts_with(connection, run_id, day)
            base = archives.archive_url(connection) if parts else None
        for part in parts:
            if found := find_run(_content(part, base), run_id, part.sha256):
                return _pruned(run_id, found, part.url)
        return None


def _content(part: archives.RecordedPart, base: str | None) -> bytes:
    """Return the content of an object below this URL, that of the setting. Raises ArchiveError for another.

    Agents may write the table of objects: it must not make the account that reads open other files.
    """
    place, *name = part.url.rsplit("/", 2)
    if base is None or place != base or not is_part_name("/".join(name)):
        raise ArchiveError(
            f"the archive {part.url} is not below `archive.url` ({base or 'not set'}), and is not read: if it"
            " is the archive of this crontab, copy it there or set `archive.url` to where it is"
        )
    return open_storage(base).get("/".join(name), min(part.bytes, MOST_BYTES))


def _pruned(run_id: int, found: ArchivedRun, url: str) -> PrunedRun:
    output = [Chunk(run_id, each.offset, each.stream, each.at, each.data) for each in found.output]
    try:
        return PrunedRun(_run(found.facts), output, url)
    except (TypeError, ValueError) as error:
        raise ArchiveError(f"the archive of run {run_id} cannot be read: {error}") from error


def _run(facts: Mapping[str, Any]) -> Run:
    """Return the run of these facts. What the archive leaves out is None."""
    values: dict[str, Any] = {name: facts.get(name) for name in Run.__dataclass_fields__}
    values |= {name: datetime.fromisoformat(at) for name in _TIMES if (at := values[name])}
    values |= {"state": RunState(facts["state"]), "trigger": Trigger(facts["trigger"])}
    return Run(**values)
