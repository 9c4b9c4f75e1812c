"""The loop that records: output while commands run, and how they ended."""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from dcron.agent.execution import outcome
from dcron.agent.running import ActiveRuns
from dcron.database import Database
from dcron.errors import DatabaseError
from dcron.model import RunState
from dcron.schedule import unlocked
from dcron.store import finishing, output, tasks
from dcron.store.finishing import RunResult
from dcron.store.output import Chunk
from dcron.warden.client import Finished, OutputChunk, Warden, WardenGone
from dcron.warden.journal import Frame, JournalError, JournalReader, Result

log = logging.getLogger("dcron.agent")

FLUSH_BYTES = 1024 * 1024
"""Of one run's output in one transaction."""
BATCH = 100
"""Ends recorded in one transaction."""
_BETWEEN_LOOKS = 0.2
"""Seconds to wait for news while a run's output waits for its next second."""


class Recorder:
    """Brings what one node's warden reports into the database, in batches, each thing once."""

    def __init__(
        self, database: Database, node_id: str, live: ActiveRuns, warden: Warden, on_free: Callable[[], None]
    ) -> None:
        """`on_free` is called when slots have become free."""
        self._database = database
        self._node_id = node_id
        self._live = live
        self._warden = warden
        self._on_free = on_free
        self._readers: dict[int, JournalReader] = {}
        self._written: dict[int, int] = {}
        self._flushed_at: dict[int, float] = {}
        self._chatty: set[int] = set()
        self._unreadable: set[int] = set()
        """Runs whose journals are not what the warden writes."""
        self._finished: dict[int, Result] = {}
        self.gone: WardenGone | None = None

    @property
    def is_settled(self) -> bool:
        """Whether everything heard so far is recorded."""
        return not self._finished and not self._chatty

    def step(self) -> float:
        """Wait for news, and record it. Raises DatabaseError; a later step then records the same."""
        self.hear(self._patience())
        self.flush()
        return 0.0

    def _patience(self) -> float | None:
        """How long to wait for news: what is known already must not wait for it."""
        if self._finished:
            return 0.0
        return _BETWEEN_LOOKS if self._chatty else None

    def hear(self, timeout: float | None) -> None:
        """Take in what the warden reports, waiting up to `timeout` seconds for it."""
        for event in self._warden.events(timeout):
            match event:
                case OutputChunk(run_id):
                    self._chatty.add(run_id)
                case Finished(run_id, result):
                    self._finished[run_id] = result
                case WardenGone():
                    self.gone = event

    def leave_to_spool(self) -> None:
        """Free the slots of runs that have ended, unrecorded: the next agent of this host records them."""
        self.hear(_BETWEEN_LOOKS)
        self._live.remove(self._finished)

    def flush(self) -> None:
        """Write what is not written yet. Raises DatabaseError."""
        ending = list(self._finished)[:BATCH]
        for run_id in {*ending, *filter(self._may_flush, self._chatty)}:
            self._flush_output(run_id, to_the_end=run_id in self._finished)
        if ending:
            results = [self._finished[run_id] for run_id in ending]
            unlocked(lambda: self._record(results))

    def _flush_output(self, run_id: int, *, to_the_end: bool) -> None:
        if run_id in self._unreadable:
            self._chatty.discard(run_id)
            return
        try:
            while frames := self._reader(run_id).read(FLUSH_BYTES):
                chunks = chunks_of(run_id, frames)
                with self._database.write() as connection:
                    output.append(connection, self._database, chunks)
                self._written[run_id] = chunks[-1].end
                if not to_the_end:
                    break
        except DatabaseError:
            self._close_reader(run_id)  # what was read is not written: read it again
            raise
        except (JournalError, OSError) as error:  # its end is known without it
            log.error("run %d: the rest of its output cannot be read: %s", run_id, error)
            self._close_reader(run_id)
            self._unreadable.add(run_id)
        self._flushed_at[run_id] = time.monotonic()
        self._chatty.discard(run_id)

    def _may_flush(self, run_id: int) -> bool:
        """Beyond the head, of which the middle is dropped anyway, once a second will do."""
        in_head = self._written.get(run_id, 0) < output.HEAD_BYTES
        return in_head or time.monotonic() - self._flushed_at.get(run_id, 0.0) >= 1.0

    def _reader(self, run_id: int) -> JournalReader:
        if run_id not in self._readers:
            self._readers[run_id] = self._warden.journal(run_id, self._written.get(run_id, 0))
        return self._readers[run_id]

    def _close_reader(self, run_id: int) -> None:
        if reader := self._readers.pop(run_id, None):
            reader.close()

    def _record(self, results: list[Result]) -> None:
        with self._database.write() as connection:
            now = self._database.now(connection)
            ended = [self._judge(result, now) for result in results]
            recorded = finishing.finish(connection, self._database, self._node_id, ended, now)
        lives = [live for each in ended if (live := self._live.get(each.id))]
        for each in ended:
            self._settle(each, recorded=each.id in recorded)
        self._live.remove(each.id for each in ended)
        self._on_free()
        if once := [live.run.task.id for live in lives if live.run.task.once]:
            with self._database.write() as connection:  # of its own: lines are locked before runs
                tasks.retire_once(connection, len(once), once)

    def _judge(self, result: Result, now: datetime) -> RunResult:
        live = self._live.get(result.run_id)
        started_at, cancelled_by = (live.started_at, live.cancelled_by) if live else (now, None)
        return outcome(result, started_at, now, cancelled_by)

    def _settle(self, ended: RunResult, *, recorded: bool) -> None:
        if not recorded:
            log.warning("run %d: its end (%s) is not recorded, it is no longer ours", ended.id, ended.state)
        else:
            level = logging.INFO if ended.state is RunState.SUCCEEDED else logging.WARNING
            told = f" ({ended.reason})" if ended.reason else ""
            log.log(level, "run %d: %s%s", ended.id, ended.state, told)
        self._close_reader(ended.id)
        self._warden.forget(ended.id)
        self._unreadable.discard(ended.id)
        for known in (self._finished, self._written, self._flushed_at):
            known.pop(ended.id, None)


def chunks_of(run_id: int, frames: Iterable[Frame]) -> list[Chunk]:
    """Frames of a journal as the database keeps them; neighbours of one stream and second become one."""
    chunks: list[Chunk] = []
    for frame in frames:
        chunk = Chunk(run_id, frame.offset, frame.stream, datetime.fromtimestamp(frame.time, UTC), frame.data)
        last = chunks[-1] if chunks else None
        if last and last.end == chunk.byte_offset and last.stream == chunk.stream and _close(last, chunk):
            chunks[-1] = Chunk(run_id, last.byte_offset, last.stream, last.at, last.data + chunk.data)
        else:
            chunks.append(chunk)
    return chunks


def _close(one: Chunk, other: Chunk) -> bool:
    return (other.at - one.at).total_seconds() < 1 and len(one.data) < 64 * 1024
