"""The recorder: write output to the database while commands run, and their results when they end."""

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from dcron.agent.dispatcher import Dispatcher
from dcron.agent.execution import outcome, output_mail
from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.agent.receiver import LONGEST_WAIT, Receiver
from dcron.errors import DatabaseError, OutcomeUnknown
from dcron.fields.expectations import RUNTIME
from dcron.model import RunState
from dcron.schedule.effort import unlocked
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.runs import output
from dcron.store.tasks import rows as tasks
from dcron.values.lists import Chunk
from dcron.warden.client import WardenGone
from dcron.warden.journal import Frame, JournalError, JournalReader, Result

FLUSH_BYTES = 1024 * 1024
"""Most bytes of one run's output per transaction."""
BATCH = 100
"""Most results recorded per transaction."""
LONGEST_DELAY = 0.5
"""Seconds for which an end waits while the dispatcher is busy: starts come first."""
_DELAY_STEP = 0.02
"""Seconds after which a recorder that waits for the dispatcher looks again."""
_BETWEEN_LOOKS = 0.2
"""Seconds to wait for news while some output waits for its next flush."""


class Recorder:
    """Writes what one node's warden reports to the database, in batches, everything once."""

    def __init__(self, node: NodeContext, receiver: Receiver, dispatcher: Dispatcher) -> None:
        """Ends wait for a while if the dispatcher has runs to start."""
        self._node = node
        self._receiver = receiver
        self._dispatcher = dispatcher
        self._readers: dict[int, JournalReader] = {}
        self._written: dict[int, int] = {}
        self._flushed_at: dict[int, float] = {}
        self._with_new_output: set[int] = set()
        self._unreadable: set[int] = set()
        """Runs whose journals are damaged."""
        self._finished: dict[int, Result] = {}
        self._in_doubt: set[int] = set()
        """Runs whose end may be recorded: the answer to a COMMIT did not arrive."""
        self.gone: WardenGone | None = None

    @property
    def is_settled(self) -> bool:
        """Whether everything received so far is recorded."""
        return not self._finished and not self._with_new_output

    def step(self) -> float:
        """Wait for news and record it; return the seconds until the next step.

        Raises DatabaseError; the next step then tries again.
        """
        if self._dispatcher.is_busy and 0 < self._node.active_runs.unrecorded_for() < LONGEST_DELAY:
            return _DELAY_STEP
        self._take_reports(self._patience())
        self.flush()
        return 0.0

    def _patience(self) -> float:
        """Return the seconds to wait for news. News already received must not wait."""
        if self._finished:
            return 0.0
        return _BETWEEN_LOOKS if self._with_new_output else LONGEST_WAIT

    def _take_reports(self, timeout: float) -> None:
        """Take what the receiver has, waiting up to `timeout` seconds for news."""
        reports = self._receiver.take(timeout)
        self._with_new_output |= reports.with_new_output
        self._finished |= reports.finished
        self.gone = reports.gone

    def leave_to_spool(self) -> None:
        """Forget runs that ended, without a record: the next agent of this host records them."""
        self._take_reports(0.0)
        self._node.active_runs.remove(self._finished)

    def flush(self) -> None:
        """Write what is not written yet. Raises DatabaseError."""
        ending = list(self._finished)[:BATCH]
        for run_id in {*ending, *filter(self._may_flush, self._with_new_output)}:
            self._flush_output(run_id, to_the_end=run_id in self._finished)
        if ending:
            results = [self._finished[run_id] for run_id in ending]
            unlocked(lambda: self._record(results))

    def _flush_output(self, run_id: int, *, to_the_end: bool) -> None:
        if run_id in self._unreadable:
            self._with_new_output.discard(run_id)
            return
        try:
            while frames := self._reader(run_id).read(FLUSH_BYTES):
                chunks = chunks_of(run_id, frames)
                with self._node.database.write() as connection:
                    output.append(connection, self._node.database, chunks)
                self._written[run_id] = chunks[-1].end
                self._node.pings.printed(run_id, chunks)
                if not to_the_end:
                    break
        except DatabaseError:
            self._close_reader(run_id)  # the chunks are not written: read them again
            raise
        except (JournalError, OSError) as error:  # the result does not need the journal
            log.error(
                "run %d: the rest of its output cannot be read: %s",
                *(run_id, error),
                event="journal-unreadable",
                run=run_id,
            )
            self._close_reader(run_id)
            self._unreadable.add(run_id)
        self._flushed_at[run_id] = time.monotonic()
        self._with_new_output.discard(run_id)

    def _may_flush(self, run_id: int) -> bool:
        """Return whether to flush now: once per second beyond the head, whose end is dropped anyway."""
        in_head = self._written.get(run_id, 0) < output.HEAD_BYTES
        return in_head or time.monotonic() - self._flushed_at.get(run_id, 0.0) >= 1.0

    def _reader(self, run_id: int) -> JournalReader:
        if run_id not in self._readers:
            self._readers[run_id] = self._node.warden.journal(run_id, self._written.get(run_id, 0))
        return self._readers[run_id]

    def _close_reader(self, run_id: int) -> None:
        if reader := self._readers.pop(run_id, None):
            reader.close()

    def _record(self, results: list[Result]) -> None:
        try:
            with self._node.counters.finish, self._node.database.write() as connection:
                now = self._node.database.now(connection)
                ended = [self._judge(result, now) for result in results]
                doubtful = [each for each in ended if each.id in self._in_doubt]
                known = finishing.recorded(connection, self._node.id, doubtful) if doubtful else set()
                written = finishing.send_ends(connection, self._node.database, self._node.id, ended, now)
        except OutcomeUnknown:
            self._in_doubt |= {result.run_id for result in results}
            raise
        recorded = written() | known
        active = [run for each in ended if (run := self._node.active_runs.get(each.id))]
        claimed = {each.run.id: each.run for each in active}
        for each, result in zip(ended, results, strict=True):
            claim = claimed.get(each.id)
            if claim and each.id in recorded:
                self._node.pings.ended(claim, each)
            self._node.pings.forget(each.id)
            self._settle(each, claim.task.name if claim else None, recorded=each.id in recorded)
            self._node.counters.finished[each.state] += each.id in recorded
            if result.started_at:
                self._node.counters.duration.add(result.finished_at - result.started_at)
        self._node.active_runs.remove(each.id for each in ended)
        self._node.wake_dispatcher.set()
        if once := [each.run.task.id for each in active if each.run.task.once]:
            with self._node.database.write() as connection:  # a new transaction: tasks are locked before runs
                tasks.retire_once(connection, self._node.database.now(connection), len(once), once)

    def _judge(self, result: Result, now: datetime) -> RunResult:
        active = self._node.active_runs.get(result.run_id)
        started_at, cancelled_by = (active.started_at, active.cancelled_by) if active else (now, None)
        ended = outcome(result, started_at, now, cancelled_by)
        if active is None:
            return ended
        task = active.run.task
        return ended._replace(checks_runtime=RUNTIME in task.expect, mail=output_mail(task, result))

    def _settle(self, ended: RunResult, task: str | None, *, recorded: bool) -> None:
        if not recorded:
            log.warning(
                "run %d: its end (%s) is not recorded, it is no longer ours",
                *(ended.id, ended.state),
                event="run-not-ours",
                run=ended.id,
            )
        else:
            level = logging.INFO if ended.state is RunState.SUCCEEDED else logging.WARNING
            reason = f" ({ended.reason})" if ended.reason else ""
            name = f" of {task}" if task else ""
            values = ended.id, name, ended.state, reason
            log.log(level, "run %d%s: %s%s", *values, event="run-ended", run=ended.id, task=task)
        self._close_reader(ended.id)
        self._node.warden.forget(ended.id)
        self._unreadable.discard(ended.id)
        self._in_doubt.discard(ended.id)
        for known in (self._finished, self._written, self._flushed_at):
            known.pop(ended.id, None)


def chunks_of(run_id: int, frames: Iterable[Frame]) -> list[Chunk]:
    """Return frames of a journal as chunks of output; join neighbours of one stream and one second."""
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
