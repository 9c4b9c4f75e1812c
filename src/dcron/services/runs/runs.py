"""Read the runs of a crontab, make new ones, and cancel them."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcron.errors import DcronError, NotFound, Refused, UsageError
from dcron.model import Node, Run, RunState, Task, Trigger
from dcron.policy.validation import require_runnable, require_text
from dcron.schedule.effort import repeatable
from dcron.services import task_names
from dcron.services.changes.task_writer import TaskWriter
from dcron.services.changes.transactions import CHOSEN, rest
from dcron.services.service import Service, find_run
from dcron.store.claims import finishing, unheard
from dcron.store.nodes import rows as nodes
from dcron.store.planning import dependencies, planning
from dcron.store.runs import output, skipping
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.values.lists import Chunk, RunFilter, WaitingRuns

ENDED_NODES_SHOWN = timedelta(hours=24)
MOST_WAITING = 500
"""Waiting runs of a task among which `run_to_follow` looks for one that is due."""
_AT_ONCE = 500
"""Waiting runs that are cancelled in one transaction."""
_STARTED = [RunState.RUNNING, RunState.SUCCEEDED, RunState.FAILED, RunState.LOST, RunState.CANCELLED]


class Runs(Service):
    """The runs of a crontab, and the nodes that take them."""

    # Make and cancel --------------------------------------------------------------------------------

    def run(self, task: Task, payload: str | None = None) -> Run:
        """Make a run of the task that is due now, paused or not. Raises UsageError."""
        (run,) = self.run_all([task], payload)
        return run

    def run_all(self, chosen: Sequence[Task], payload: str | None = None) -> list[Run]:
        """Make a run of each of these tasks that is due now, paused or not. Raises UsageError."""
        for task in chosen:
            require_runnable(task)
        if payload is not None:
            require_text("payload", payload)
        with self.database.write() as connection:
            return self._run(connection, chosen, payload)

    def run_chosen(
        self, chosen: Sequence[Task], payload: str | None = None
    ) -> tuple[list[Run], dict[str, DcronError]]:
        """Do the same for those that are as they were read, a page at a time.

        Return the runs, and by name why other tasks were left alone. Raises UsageError.
        """
        if payload is not None:
            require_text("payload", payload)
        made: list[Run] = []
        left: dict[str, DcronError] = {}
        for start in range(0, len(chosen), CHOSEN):
            with self.database.write() as connection:
                found = list(self._unchanged(connection, chosen[start : start + CHOSEN], left))
                made += self._run(connection, found, payload)
        return made, left

    def _unchanged(
        self, connection: Connection, page: Sequence[Task], left: dict[str, DcronError]
    ) -> Iterator[Task]:
        """Lock and yield the tasks that can run and are as they were read; add why to `left` for others."""
        writer, ids = TaskWriter(connection, self.database, self.author), [task.id for task in page]
        tasks.lock(connection, ids)
        versions = {task.id: task.version for task in tasks.by_ids(connection, ids)}
        for task in page:
            if versions.get(task.id) != task.version:
                left[task.name] = writer.conflict(task)
                continue
            try:
                require_runnable(task)
                yield task
            except UsageError as error:
                left[task.name] = error

    def _run(self, connection: Connection, chosen: Sequence[Task], payload: str | None) -> list[Run]:
        now = self.database.now(connection)
        made = []
        for task in chosen:
            run_id = planning.run_now(connection, task, now, payload)
            self._record_run(connection, "run", task, {"run": run_id})
            made.append(run_id)
        self.database.notify(connection)
        return list(filter(None, (runs.by_id(connection, run_id) for run_id in made)))

    @repeatable
    def cancel(self, run_id: int) -> Run:
        """End a waiting run, or ask the node of a living one to stop it.

        Raises NotFound, or Refused when the run is over.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            run = find_run(connection, run_id)
            finishing.lock_tasks(connection, {run.task_id: run.task})
            waiting = self._cancel_waiting(connection, run, now)
            if not waiting and not runs.request_cancel(connection, run_id, self.actor):
                raise Refused(f"run {run_id} of {run.task} is over: {run.state}")
            self._record_run(connection, "cancel", run, {"run": run_id})
            self.database.notify(connection)
            cancelled = runs.by_id(connection, run_id)
        assert cancelled
        return cancelled

    def cancel_waiting(self, task: Task, which: WaitingRuns) -> Iterator[list[Run]]:
        """Cancel these runs, a page in each transaction. Yield those of each page that still waited."""
        while True:
            with self.database.write() as connection:
                now = self.database.now(connection)
                finishing.lock_tasks(connection, {task.id: task.name})
                found = runs.waiting(connection, which, _AT_ONCE)
                alone = [run for run in found if _continues(run)]
                together = [run.id for run in found if not _continues(run)]
                cancelled = skipping.cancel_all(connection, together, now, self.actor) if together else []
                ended = [run.id for run in alone if self._cancel_waiting(connection, run, now)]
                cancelled += filter(None, (runs.by_id(connection, run_id) for run_id in ended))
                if cancelled:
                    self._record_run(connection, "cancel", task, {"runs": len(cancelled)})
                    self.database.notify(connection)
            yield cancelled
            if len(found) < _AT_ONCE or not cancelled:
                return
            rest()

    @repeatable
    def give_up(self, run_id: int) -> Run:
        """Declare an unheard run lost: the caller knows that its node, or its command, is dead.

        Its place becomes free. Like a cancelled run it is neither tried again nor a dead letter. Raises
        NotFound, or Refused for a run that is heard of.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            run = find_run(connection, run_id)
            reason = f"given up by {self.actor}: no node had heard of it"
            if not unheard.declare_lost(connection, self.database, now, run_id, reason, self.actor):
                raise Refused(f"run {run.id} of {run.task} is not unheard: {run.state}")
            self._record_run(connection, "cancel", run, {"run": run_id, "lost": True})
            lost = runs.by_id(connection, run_id)
        assert lost
        return lost

    # Read -------------------------------------------------------------------------------------------

    def find_run(self, run_id: int) -> Run:
        """Return the run of this id. Raises NotFound."""
        with self.database.read() as connection:
            return find_run(connection, run_id)

    def runs(self, criteria: RunFilter, limit: int) -> list[Run]:
        """Return the runs that pass the filter, the newest first."""
        with self.database.read() as connection:
            return runs.newest(connection, criteria, limit)

    def count_waiting(self, which: WaitingRuns) -> int:
        """Return how many of these runs there are."""
        with self.database.read() as connection:
            return runs.count_waiting(connection, which)

    def count_active(self, task_ids: Sequence[int]) -> int:
        """Return how many runs of these tasks are active: claimed or running."""
        with self.database.read() as connection:
            return runs.count_alive(connection, task_ids)

    def unheard_of(self, task_ids: Sequence[int]) -> list[Run]:
        """Return the runs of these tasks that no node has heard of."""
        with self.database.read() as connection:
            return unheard.runs_of(connection, task_ids)

    def fan_out(self, run_id: int) -> list[Run]:
        """Return the run, and for a task of every node the runs of all nodes with it. Raises NotFound."""
        run = self.find_run(run_id)
        if run.for_node is None or run.is_trial:
            return [run]
        with self.database.read() as connection:
            return runs.shares(connection, run)

    def retry_of(self, run: Run) -> Run | None:
        """Return the attempt that follows this run, if there is one."""
        with self.database.read() as connection:
            return runs.retry_of(connection, run.id)

    def require_flow(self, flow: int) -> None:
        """Raise NotFound unless there are runs of this flow, or a run that may yet begin it."""
        with self.database.read() as connection:
            known = runs.newest(connection, RunFilter(flow=flow), 1) or runs.by_id(connection, flow)
        if not known:
            raise NotFound(f"there is no flow {flow}; `dcron runs` shows flows under TRIGGER")

    def last_run(self, name: str) -> Run:
        """Return the latest run of the task that was started. Raises NotFound or UsageError."""
        with self.database.read() as connection:
            return self._last_run(connection, name, task_names.id_of(connection, name))

    def run_to_follow(self, name: str) -> Run:
        """Return the run to watch: a living one, else one that is due, else the latest.

        Raises NotFound or UsageError.
        """
        with self.database.read() as connection:
            task_id = task_names.id_of(connection, name)
            now = self.database.now(connection)
            living = RunFilter(task_id, [RunState.RUNNING, RunState.CLAIMED])
            if found := runs.newest(connection, living, 1):
                return found[0]
            waiting = runs.newest(connection, RunFilter(task_id, [RunState.WAITING]), MOST_WAITING)
            due = (run for run in waiting if run.due_at <= now)
            return next(due, None) or self._last_run(connection, name, task_id)

    def output(self, run_id: int, offset: int) -> list[Chunk]:
        """Return a page of the run's stored output, from byte `offset` on."""
        with self.database.read() as connection:
            return output.read(connection, run_id, offset)

    def output_size(self, run_id: int) -> int:
        """Return how many bytes the run wrote, stored or dropped."""
        with self.database.read() as connection:
            return output.size(connection, run_id)

    def nodes(self) -> list[Node]:
        """Return the living nodes, and those that ended within ENDED_NODES_SHOWN."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            return nodes.listing(connection, now, ended_since=now - ENDED_NODES_SHOWN)

    # ------------------------------------------------------------------------------------------------

    def _last_run(self, connection: Connection, name: str, task_id: int) -> Run:
        for run in runs.newest(connection, RunFilter(task_id, _STARTED), limit=20):
            if run.started_at:
                return run
        raise NotFound(f"{name} has not run yet")

    def _cancel_waiting(self, connection: Connection, run: Run, now: datetime) -> bool:
        """Cancel a run that waits, and plan what comes after it. Return whether it still waited."""
        waited = skipping.cancel(connection, run, now, self.actor)
        if waited:
            self._continue_without(connection, run, now)
        return waited

    def _continue_without(self, connection: Connection, run: Run, now: datetime) -> None:
        """Plan the run after a cancelled scheduled run, and skip the downstream tasks of its flow."""
        task = tasks.by_id(connection, run.task_id)
        if run.trigger is Trigger.SCHEDULE and task and task.planned_version == task.version:
            planning.add_successor(connection, task, max(now, run.scheduled_for))
        if run.flow is not None or run.trigger is Trigger.RETRY:
            step = dependencies.Step(run.id, run.task, run.flow, run.scheduled_for)
            dependencies.step_ended(connection, self.database, step, RunState.CANCELLED, now)


def _continues(run: Run) -> bool:
    """Return whether something comes after this run if it is cancelled."""
    return run.flow is not None or run.trigger in (Trigger.SCHEDULE, Trigger.RETRY)
