"""Retry and dismiss dead letters: runs that failed or were lost and have no further attempt."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from dcron.errors import Refused
from dcron.model import Run, RunState
from dcron.policy.selectors import Selector
from dcron.policy.validation import require_runnable
from dcron.services.service import Service, find_run
from dcron.store import listings
from dcron.store.alerts import rows as alerts
from dcron.store.claims import finishing
from dcron.store.nodes import rows as nodes
from dcron.store.runs import new_runs
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.values.lists import RunFilter, Term

_AT_ONCE = 1000


class DeadLetters(Service):
    """The dead letters of a crontab. Every method is one transaction, except those that dismiss many."""

    def page(
        self,
        limit: int,
        before_id: int | None = None,
        task_id: int | None = None,
        selector: Selector | None = None,
    ) -> list[Run]:
        """Return the newest dead letters, of all tasks, of one, or of those that the selector chooses.

        With `before_id`, only lower ids.
        """
        chosen = RunFilter(task_id, dead=True, before_id=before_id, selector=selector)
        with self.database.read() as connection:
            return runs.newest(connection, chosen, limit)

    def dismiss_those(self, letters: Sequence[Run]) -> int:
        """Dismiss those of these runs that still are dead letters, a page at a time; return how many."""
        dismissed = 0
        for start in range(0, len(letters), _AT_ONCE):
            with self.database.write() as connection:
                page = letters[start : start + _AT_ONCE]
                found = [run for run in page if runs.dismiss(connection, [run.id])]
                self._note(connection, found)
                dismissed += len(found)
        return dismissed

    def retry(self, run_id: int) -> Run:
        """Make a run that is due now from a run that ended without success, with the task as it is now.

        If the run is part of a flow and the retry succeeds, the flow continues. Raises NotFound or Refused.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            run = find_run(connection, run_id)
            self._require_retryable(connection, run)
            finishing.lock_tasks(connection, {run.task_id: run.task})
            task = tasks.by_id(connection, run.task_id)
            if task is None:
                raise Refused(f"{run.task} was removed; add it again, then `dcron run` it")
            require_runnable(task)
            if other := runs.superseded_by(connection, run):
                raise Refused(_why_replaced(other, run))
            retried = runs.add(connection, new_runs.requested_retry_of(run, task, now))
            runs.dismiss(connection, [run_id])
            self._record_run(connection, "retry", task, {"run": retried.id, "retry_of": run_id})
            self.database.notify(connection)
        return retried

    def dismiss(self, run_id: int) -> Run:
        """Remove a run from the dead letters; its record stays. Raises NotFound, or Refused if it is none."""
        with self.database.write() as connection:
            run = find_run(connection, run_id)
            if not runs.dismiss(connection, [run_id]):
                raise _not_listed(run)
            self._note(connection, [run])
        return replace(run, dead_at=None)

    def require_listed(self, run_id: int) -> None:
        """Raise NotFound if the run does not exist, and Refused if it is no dead letter."""
        with self.database.read() as connection:
            run = find_run(connection, run_id)
        if run.dead_at is None:
            raise _not_listed(run)

    def dismiss_all(self, task_id: int | None = None) -> int:
        """Dismiss all dead letters, or all of one task, a page at a time; return how many."""
        dismissed = 0
        while True:
            with self.database.write() as connection:
                found = runs.newest(connection, RunFilter(task_id, dead=True), _AT_ONCE)
                dismissed += runs.dismiss(connection, [run.id for run in found])
                self._note(connection, found)
            if len(found) < _AT_ONCE:
                return dismissed

    def dismiss_found(self, terms: Sequence[Term], newest_id: int, task_id: int | None = None) -> int:
        """Dismiss the dead letters that match all terms, up to the id `newest_id`; return how many.

        With `task_id`, only those of this task.
        """
        dismissed, before_id = 0, newest_id + 1
        while True:
            with self.database.write() as connection:
                now = self.database.now(connection)
                page = listings.dead_letters(connection, terms, before_id, _AT_ONCE, now, task_id)
                dismissed += runs.dismiss(connection, [run.id for run in page.runs])
                self._note(connection, page.runs)
            if page.end is None:
                return dismissed
            before_id = page.end

    def _require_retryable(self, connection: Connection, run: Run) -> None:
        if run.is_trial:
            raise Refused(f"run {run.id} is a trial; `dcron run --like {run.id}` repeats it")
        if run.state is RunState.SUCCEEDED:
            raise Refused(f"run {run.id} succeeded; `dcron run {run.task}` runs the task once more")
        if not run.state.is_final:
            raise Refused(f"run {run.id} is not over: it is {run.state}")
        if run.for_node and not nodes.is_alive(connection, run.for_node):
            raise Refused(f"run {run.id} belongs to node {run.for_node}, which is gone")

    def _note(self, connection: Connection, dismissed: Sequence[Run]) -> None:
        now = self.database.now(connection)
        known = {task.id for task in tasks.by_ids(connection, {run.task_id for run in dismissed})}
        alerts.dismissed(connection, self.database, known, now)
        for run in dismissed:
            self._record_run(connection, "dismiss", run, {"run": run.id})


def _not_listed(run: Run) -> Refused:
    ending = _ENDINGS.get(run.state, f"is {run.state}")
    return Refused(f"run {run.id} of {run.task} is no dead letter: it {ending}")


def _why_replaced(other: Run, run: Run) -> str:
    """Return that another run replaces this one, so it is not retried, and what the user can do instead."""
    if other.retry_of == run.id:
        why = f"run {run.id} was retried already, as run {other.id}"
    else:
        why = (
            f"run {run.id} is {run.state}, but {run.task} has another run in flow {run.flow}, run {other.id}"
        )
    if not other.state.is_final:
        return f"{why}, which is {other.state}: `dcron logs -f {other.id}` follows it"
    if other.state is RunState.SUCCEEDED:
        return f"{why}, which succeeded: `dcron run {run.task}` runs the task once more"
    return f"{why}, which is {other.state}: `dcron retry {other.id}` retries that run"


_ENDINGS = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed, and was dismissed or retried",
    RunState.LOST: "was lost, and was dismissed or retried",
}
