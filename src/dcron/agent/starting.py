"""Begin the commands of runs whose start is committed.

If a commit gets no reply, the database is first asked which of the runs are this node's.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from dcron.agent.execution import job_for
from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.errors import ROW_ERRORS, UsageError, unexpected
from dcron.model import RunState
from dcron.store.claims import claims, finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.runs.candidates import ClaimedRun
from dcron.warden.child import NOT_STARTED
from dcron.warden.client import Job

Prepared = list[tuple[ClaimedRun, Job]]
"""Runs whose start is recorded, each with the command to execute."""


class Starter:
    """Hands the commands of started runs to the warden."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self.in_doubt: list[ClaimedRun] | None = None
        """The runs of a commit without a reply; None once the database has said which of them are ours."""

    def settle_doubt(self) -> None:
        """After a lost reply: start the runs whose start was committed, and release all other claims."""
        node = self._node
        with node.database.write() as connection:
            now = node.database.now(connection)
            node.lease.renew(connection, now)
            owned = claims.owned(connection, node.id)
            claims.release(connection, [node.id])
        running = [run for run in self.in_doubt or () if owned.get(run.id) is RunState.RUNNING]
        self.start([run for run in running if not node.active_runs.get(run.id)], now)

    def start(self, started: Sequence[ClaimedRun], now: datetime) -> None:
        """Begin the commands of these runs.

        Fail a run that gives no command: its row was edited by hand. A run that the policy refuses goes to a
        node that accepts it.
        """
        node = self._node
        prepared, unfit = self._prepare(started, now)
        self._hand_over(prepared, now)
        if unfit:
            with node.database.write() as connection:
                finishing.finish(connection, node.database, node.id, unfit, now)
            runs = {run.id: run for run in started}
            for each in unfit:
                node.pings.ended(runs[each.id], each)
        log_ends(unfit, started)
        self.in_doubt = None

    def _prepare(self, started: Sequence[ClaimedRun], now: datetime) -> tuple[Prepared, list[RunResult]]:
        """Return these runs with their commands, and the results of those that must not or cannot begin."""
        prepared: Prepared = []
        unfit: list[RunResult] = []
        for run in started:
            try:
                job = job_for(run, self._node.id, self._node.settings.kill_grace)
                if refusal := self._node.admission.check(run):
                    unfit.append(_refused(run, now, refusal))
                else:
                    prepared.append((run, job))
            except (UsageError, *ROW_ERRORS) as error:
                reason = str(error) if isinstance(error, UsageError) else unexpected(error)
                unfit.append(RunResult(run.id, RunState.FAILED, now, f"cannot be prepared: {reason}"))
        return prepared, unfit

    def _hand_over(self, prepared: Prepared, now: datetime) -> None:
        if not prepared:
            return
        node = self._node
        node.active_runs.add((run for run, _ in prepared), now)
        node.rollback_detector.started(run.id for run, _ in prepared)
        for run, _ in prepared:
            node.pings.started(run)
        node.warden.start([job for _, job in prepared])
        for run, _ in prepared:
            node.counters.started[run.trigger] += 1
            node.counters.lateness.add((now - (run.due_at or now)).total_seconds())
            name = run.task.name
            values = run.id, name, run.trigger
            log.info("run %d of %s: started (%s)", *values, event="run-started", run=run.id, task=name)


def _refused(run: ClaimedRun, now: datetime, refusal: str) -> RunResult:
    """Return the result of a run that the policy refuses: its command has not begun."""
    return RunResult(run.id, RunState.FAILED, now, refusal, NOT_STARTED, never_begun=True)


def log_ends(ended: Iterable[RunResult], claimed: Iterable[ClaimedRun]) -> None:
    """Log the ends of claimed runs whose commands never began."""
    names = {run.id: run.task.name for run in claimed}
    for each in ended:
        log.warning(
            *("run %d of %s: %s (%s)", each.id, names[each.id], each.state, each.reason),
            event="run-ended",
            run=each.id,
            task=names[each.id],
        )
