"""What the log viewer asks of the database. Each answer is a short transaction of its own."""

from collections.abc import Sequence
from datetime import datetime

from dcron.errors import NotFound
from dcron.model import Run
from dcron.safetext import NAME_CELLS, safe
from dcron.services.crontab import Crontab
from dcron.store import output
from dcron.store.output import Chunk, ChunkFacts

FACTS_PAGE = 5_000


class RunLog:
    """Runs and their output, over the crontab's service. Every method raises DatabaseError."""

    def __init__(self, crontab: Crontab) -> None:
        """Read from this crontab; nothing is asked yet."""
        self._crontab = crontab

    def find_run(self, run_id: int) -> tuple[Run, datetime]:
        """The run, and what the database's clock says. Raises NotFound."""
        return self._crontab.find_run(run_id), self._crontab.now()

    def run_to_follow(self, task: str) -> Run:
        """The run of the task that people want to see: one that lives, else the latest. Raises NotFound."""
        return self._crontab.run_to_follow(task)

    def neighbour(self, run: Run, *, later: bool) -> int:
        """The run of the same task before or after this one that was started. Raises NotFound."""
        with self._crontab.database.read() as connection:
            found = output.neighbour(connection, run.task_id, run.id, later=later)
        if found is None:
            which = "later" if later else "earlier"
            raise NotFound(f"{safe(run.task, NAME_CELLS)} has no {which} run that was started")
        return found

    def facts(self, run_id: int, offset: int) -> list[ChunkFacts]:
        """A page of what is known of the chunks from the byte `offset` on, without their bytes."""
        with self._crontab.database.read() as connection:
            return output.facts(connection, run_id, offset, FACTS_PAGE)

    def chunks(self, run_id: int, start: int, end: int, stream: str | None, limit: int) -> Sequence[Chunk]:
        """The chunks that begin in these bytes, of one stream or of both."""
        with self._crontab.database.read() as connection:
            return output.between(connection, run_id, start, end, stream, limit)

    def first_after_head(self, run_id: int) -> int | None:
        """Where the first chunk behind the head begins that is still kept."""
        with self._crontab.database.read() as connection:
            return output.first_after_head(connection, run_id)
