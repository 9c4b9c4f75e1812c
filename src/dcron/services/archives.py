"""Read runs that were pruned, and their output, from the archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.archive import ArchivedRun, find_run, open_storage, require_url
from dcron.errors import ArchiveError
from dcron.model import Run, RunState, Trigger
from dcron.policy.statistics import day_of
from dcron.services.service import Service
from dcron.store import archives
from dcron.store.output import Chunk

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
        with self.database.read() as connection:
            urls = archives.parts_with(connection, run_id)
        return _search(urls, run_id)

    def output(self, run: Run) -> Sequence[Chunk]:
        """Return the archived output of a run that has ended; none if there is none. Raises ArchiveError."""
        if run.finished_at is None:
            return []
        with self.database.read() as connection:
            urls = archives.parts_with(connection, run.id, day_of(run.finished_at))
        found = _search(urls, run.id)
        return found.output if found else []


def _search(urls: Sequence[str], run_id: int) -> PrunedRun | None:
    for url in urls:
        base, *name = url.rsplit("/", 2)
        if found := find_run(open_storage(require_url(base)).get("/".join(name)), run_id):
            return _pruned(run_id, found, url)
    return None


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
