"""Runs that failed, or were lost, and are not tried again: a list that people work off."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from dcron.errors import NotFound, Refused
from dcron.model import Run, RunState
from dcron.services.service import Service
from dcron.store import audit_log, finishing, listings, new_runs, nodes, runs, tasks
from dcron.store.runs import RunFilter
from dcron.store.search_terms import Term
from dcron.validation import require_runnable

_AT_ONCE = 1000


class DeadLetters(Service):
    """The dead letters of a crontab. Every method is one transaction, but for those that dismiss many."""

    def page(self, limit: int, before_id: int | None = None, task_id: int | None = None) -> list[Run]:
        """The dead letters, of all tasks or of one, the newest first, older than the run `before_id`."""
        with self.database.read() as connection:
            return runs.newest(connection, RunFilter(task_id, dead=True, before_id=before_id), limit)

    def retry(self, run_id: int) -> Run:
        """Try a run that ended badly, or never ran, once more: as its line is now, due at once.

        Where it is part of a flow, the flow goes on when it succeeds. Raises NotFound or Refused.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            run = self._find(connection, run_id)
            self._require_retryable(connection, run)
            finishing.lock_tasks(connection, {run.task_id: run.task})
            line = tasks.by_id(connection, run.task_id)
            if line is None:
                raise Refused(f"{run.task} was removed; add it again, then `dcron run` it")
            require_runnable(line)
            if other := runs.instead_of(connection, run):
                raise Refused(_tell_of(other, run))
            retried = runs.add(connection, new_runs.retry_of(run, line, now))
            runs.dismiss(connection, [run_id])
            detail = {"run": retried.id, "retry_of": run_id}
            audit_log.record(connection, now, self.actor, "retry", after=line, detail=detail)
            self.database.notify(connection)
        return retried

    def dismiss(self, run_id: int) -> Run:
        """Take a run off the list; its record stays. Raises NotFound, or Refused when it is not on it."""
        with self.database.write() as connection:
            run = self._find(connection, run_id)
            if not runs.dismiss(connection, [run_id]):
                raise _not_listed(run)
            self._note(connection, [run])
        return replace(run, dead_at=None)

    def require_listed(self, run_id: int) -> None:
        """Raise NotFound where there is no such run, and Refused where it is no dead letter."""
        with self.database.read() as connection:
            run = self._find(connection, run_id)
        if run.dead_at is None:
            raise _not_listed(run)

    def dismiss_all(self, task_id: int | None = None) -> int:
        """Take all runs off the list, or all of one task, some at a time; how many."""
        dismissed = 0
        while True:
            with self.database.write() as connection:
                found = runs.newest(connection, RunFilter(task_id, dead=True), _AT_ONCE)
                dismissed += runs.dismiss(connection, [run.id for run in found])
                self._note(connection, found)
            if len(found) < _AT_ONCE:
                return dismissed

    def dismiss_found(self, terms: Sequence[Term], newest_id: int) -> int:
        """Take the runs that a filter finds off the list, those made after `newest_id` left out; how many."""
        dismissed, before_id = 0, newest_id + 1
        while True:
            with self.database.write() as connection:
                page = listings.dead_letters(
                    connection, terms, before_id, _AT_ONCE, self.database.now(connection)
                )
                dismissed += runs.dismiss(connection, [run.id for run in page.runs])
                self._note(connection, page.runs)
            if page.end is None:
                return dismissed
            before_id = page.end

    def _find(self, connection: Connection, run_id: int) -> Run:
        run = runs.by_id(connection, run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}")
        return run

    def _require_retryable(self, connection: Connection, run: Run) -> None:
        if run.state is RunState.SUCCEEDED:
            raise Refused(f"run {run.id} succeeded; `dcron run {run.task}` runs the task once more")
        if not run.state.is_final:
            raise Refused(f"run {run.id} is not over: it is {run.state}")
        if run.for_node and not nodes.is_alive(connection, run.for_node):
            raise Refused(f"run {run.id} belongs to node {run.for_node}, which is gone")

    def _note(self, connection: Connection, dismissed: Sequence[Run]) -> None:
        now = self.database.now(connection)
        lines = {task.id: task for task in tasks.by_ids(connection, {run.task_id for run in dismissed})}
        for run in dismissed:
            if line := lines.get(run.task_id):
                audit_log.record(connection, now, self.actor, "dismiss", after=line, detail={"run": run.id})


def _not_listed(run: Run) -> Refused:
    told = _TELL.get(run.state, f"is {run.state}")
    return Refused(f"run {run.id} of {run.task} is no dead letter: it {told}")


def _tell_of(other: Run, run: Run) -> str:
    """Why the run is not tried again, and what may be done instead."""
    if other.retry_of == run.id:
        told = f"run {run.id} was tried again already, as run {other.id}"
    else:
        told = (
            f"run {run.id} is {run.state}, but {run.task} has another run in flow {run.flow}, run {other.id}"
        )
    if not other.state.is_final:
        return f"{told}, which is {other.state}: `dcron logs -f {other.id}` follows it"
    if other.state is RunState.SUCCEEDED:
        return f"{told}, which succeeded: `dcron run {run.task}` runs the task once more"
    return f"{told}, which is {other.state}: `dcron retry {other.id}` tries that one again"


_TELL = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed, and was dismissed or tried again",
    RunState.LOST: "was lost, and was dismissed or tried again",
}
