"""What the log viewer reads from the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.errors import NotFound
from dcron.model import Run, RunState
from dcron.policy.freezes import NEVER, FrozenTime
from dcron.safetext import NAME_CELLS, safe
from dcron.services.crontab import Crontab
from dcron.store import freezes, output
from dcron.store.output import HEAD_BYTES, TAIL_BYTES, Chunk

Which = int | str
"""The id of a run, or the name of a task: its running run, else its latest."""
FIRST_CHUNKS = 16
"""Chunks of the first read; a chunk has at most about 64 KiB."""


@dataclass(frozen=True)
class News:
    """New output of a run, and the run if it was read, too."""

    run_id: int
    run: Run | None
    now: datetime | None
    """The database's time when the run was read."""
    chunks: Sequence[Chunk]
    has_more: bool
    frozen: FrozenTime
    """When the crontab is and will be frozen, if the run waits; else empty."""
    kept: int | None
    """The first byte after the head that is kept, if output was dropped from the middle."""


class RunLog:
    """Runs and their output. Every method may raise DatabaseError."""

    def __init__(self, crontab: Crontab) -> None:
        self._crontab = crontab

    def find_run(self, run_id: int) -> tuple[Run, datetime]:
        """Return the run and the database's time. Raises NotFound."""
        return self._crontab.find_run(run_id), self._crontab.now()

    def run_id(self, which: Which) -> int:
        """Return the id of the run. Raises NotFound if the task has no run yet."""
        return which if isinstance(which, int) else self._crontab.run_to_follow(which).id

    def neighbour(self, run: Run, *, later: bool) -> int:
        """Return the id of the started run of the same task before or after this one. Raises NotFound."""
        with self._crontab.database.read() as connection:
            found = output.neighbour(connection, run.task_id, run.id, later=later)
        if found is None:
            which = "later" if later else "earlier"
            raise NotFound(f"{safe(run.task, NAME_CELLS)} has no {which} run that was started")
        return found

    def news(self, run_id: int, end: int, limit: int = FIRST_CHUNKS, *, with_run: bool) -> News:
        """Read at most `limit` chunks from the byte `end` on."""
        # The run first: then no output of a finished run is missed.
        run, now = self.find_run(run_id) if with_run else (None, None)
        with self._crontab.database.read() as connection:
            chunks = output.read(connection, run_id, end, limit)
            has_dropped = chunks and chunks[-1].end > HEAD_BYTES + TAIL_BYTES
            kept = output.first_after_head(connection, run_id) if has_dropped else None
            waits = run and run.state is RunState.WAITING
            frozen = freezes.recent(connection, now) if now and waits else NEVER
        return News(run_id, run, now, chunks, len(chunks) == limit, frozen, kept)
