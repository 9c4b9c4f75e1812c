"""Read the output of a run while it grows, and find the runs before and after it. For the log viewer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.errors import NotFound
from dcron.model import Run, RunState
from dcron.policy.starting.freezes import NEVER, FrozenTime
from dcron.services.runs.runs import Runs
from dcron.store import freezes
from dcron.store.runs import output
from dcron.store.runs.output import HEAD_BYTES, TAIL_BYTES
from dcron.values.lists import Chunk
from dcron.values.safe_text import NAME_CELLS, safe

Which = int | str
"""The id of a run, or the name of a task: its running run, else its latest."""
PAGE_BYTES = 2 * 1024 * 1024
"""Bytes of one read, about: the screen takes them without a pause, also if each is a line."""
_FIRST_CHUNKS = 32
"""Chunks of the first query of a read; a chunk has at most about 64 KiB."""


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
    dropped: tuple[int, int] | None
    """Between these two bytes nothing is kept; chunks that begin there are to be forgotten."""


class RunLog(Runs):
    """Runs and their output. Every method may raise DatabaseError."""

    def run_id(self, which: Which) -> int:
        """Return the id of the run. Raises NotFound if the task has no run yet."""
        return which if isinstance(which, int) else self.run_to_follow(which).id

    def neighbour(self, run: Run, *, later: bool) -> int:
        """Return the id of the started run of the same task before or after this one. Raises NotFound."""
        with self.database.read() as connection:
            found = output.neighbour(connection, run.task_id, run.id, later=later)
        if found is None:
            which = "later" if later else "earlier"
            raise NotFound(f"{safe(run.task, NAME_CELLS)} has no {which} run that was started")
        return found

    def news(self, run_id: int, end: int, *, with_run: bool) -> News:
        """Read a page of the output from the byte `end` on. Raises NotFound for the run."""
        # The run first: then no output of a finished run is missed.
        run, now = (self.find_run(run_id), self.now()) if with_run else (None, None)
        chunks: list[Chunk] = []
        size, limit, has_more = 0, _FIRST_CHUNKS, True
        with self.database.read() as connection:
            while has_more and size < PAGE_BYTES:
                found = output.read(connection, run_id, end, limit)
                chunks += found
                size += sum(len(chunk.data) for chunk in found)
                has_more, end, limit = len(found) == limit, chunks[-1].end if chunks else end, 2 * limit
            is_long = chunks and end > HEAD_BYTES + TAIL_BYTES
            kept = output.first_after_head(connection, run_id) if is_long else None
            waits = run and run.state is RunState.WAITING
            frozen = freezes.recent(connection, now) if now and waits else NEVER
        dropped = None if kept is None else (HEAD_BYTES, kept)
        return News(run_id, run, now, chunks, has_more, frozen, dropped)
