"""Prune by hand, show what pruning would delete, and put history on hold."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from dcron.errors import Conflict, NotFound, Refused
from dcron.model import Task
from dcron.policy.retention import Fate, seconds_of
from dcron.policy.validation import require_text
from dcron.services.service import Service, find_run
from dcron.settings.registry import labels_of
from dcron.store import audit_log, maintenance
from dcron.store.maintenance import Hold, HoldLost, Step
from dcron.store.nodes import rows as nodes
from dcron.store.retention import history as past
from dcron.store.retention import holds
from dcron.store.retention.history import EARLIEST, History
from dcron.store.retention.holds import Held
from dcron.store.retention.tables import count_old
from dcron.store.retention.walk import JOB, ByHand, Prune
from dcron.store.runs import rows as runs
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks import rows as tasks

MOST_COUNTED = 100_000
_PAGE = 1000
_SHORTEST_REST = 0.01
"""Seconds between two batches while agents live: they get at a SQLite file in between."""
_SAFE_PART = 3
"""A file is compacted beside agents if that takes less than this part of the shortest lease."""


@dataclass
class Amount:
    """What goes, or has gone."""

    runs: int = 0
    outputs: int = 0
    """Runs of which only the output goes."""
    bytes: int = 0
    """Of output."""
    oldest: datetime | None = None
    """When the oldest of these runs ended."""
    others: Mapping[str, int] = field(default_factory=dict)
    """Rows of other kinds: dead letters that are dismissed, events, nodes, statistics, changes."""

    @property
    def is_nothing(self) -> bool:
        """Whether nothing goes."""
        return not (self.runs or self.outputs or self.others)


class Retention(Service):
    """The retention of a crontab. Pruning takes many transactions."""

    def preview(
        self,
        task: Task | None = None,
        given: Mapping[str, Any] | None = None,
        kept: Mapping[str, Any] | None = None,
        most: int | None = None,
    ) -> Amount:
        """Return what a round by hand would delete now, or at least `most` of the runs and output.

        `given` replaces the settings and what tasks keep, `kept` the settings only.
        """
        amount, after = Amount(), Place(EARLIEST, -(1 << 63))
        with self.database.read() as connection:
            history = self._history(connection, task, given, kept)
            whole, parts = past.durations(connection, history)
            if task is None:
                self.database.lift_limits(connection)
                amount.others = count_old(connection, history, self.database.now(connection))
        while after:
            with self.database.read() as connection:
                now = self.database.now(connection)
                before = past.shift(now, min(whole | parts, default=float("inf")))
                page = history.look(connection, after, before, now, _PAGE)
            for each in page.candidates:
                amount.runs += each.fate is Fate.ALL
                amount.outputs += each.fate is Fate.OUTPUT
                amount.bytes += each.bytes
                amount.oldest = min(amount.oldest or each.finished_at, each.finished_at)
            if page.end is None or (most and amount.runs + amount.outputs >= most):
                break
            after = page.end
        return amount

    def unready_since(
        self, task: Task | None = None, given: Mapping[str, Any] | None = None
    ) -> datetime | None:
        """Return since when runs stay, however old, because their days are not summed up, or not archived.

        None if no run is old enough to go that ended since then.
        """
        with self.database.read() as connection:
            history = self._history(connection, task, given, None)
            whole, _ = past.durations(connection, history)
            before = past.shift(self.database.now(connection), min(whole, default=inf))
            since = past.unready_since(connection)
            task_id = None if task is None else task.id
            is_kept = since < before and past.has_ended(connection, since, before, task_id)
            return since if is_kept else None

    def shortened(self, name: str, value: Any) -> Amount | None:
        """Return what goes in addition if `keep.NAME` gets this value; None if that is not shorter than now.

        It counts `MOST_COUNTED` at most.
        """
        with self.database.read() as connection:
            kept = past.settings_kept(connection)
        has_labels = bool(labels_of(name)[1])  # then it is shorter for some tasks, and longer for others
        if not has_labels and seconds_of({name: value}, name) >= seconds_of(kept, name):
            return None
        after, before = self.preview(kept={name: value}, most=MOST_COUNTED), self.preview(most=MOST_COUNTED)
        more = {kind: number - before.others.get(kind, 0) for kind, number in after.others.items()}
        return Amount(
            max(0, after.runs - before.runs),
            max(0, after.outputs - before.outputs),
            max(0, after.bytes - before.bytes),
            others={kind: number for kind, number in more.items() if number > 0},
        )

    def prune(
        self,
        task: Task | None = None,
        given: Mapping[str, Any] | None = None,
        on_progress: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> Amount:
        """Delete what retention does not keep: all of it, or the history of one task.

        `given` replaces the settings and what tasks keep, for this time. An agent that prunes just now stops.
        `on_progress` is called after each batch with the number of rows of each kind that are handled.
        If the process is killed, agents continue with their own round, as if it had not begun.
        Raises Conflict if another process goes on with it.
        """
        with self.database.read() as connection:
            pauses = bool(nodes.living(connection, self.database.now(connection)))
        job = Prune(by_hand=ByHand(given or {}, None if task is None else task.id, paces=pauses))
        began = monotonic()
        with self._holding() as (hold, before):
            position: Mapping[str, Any] = {name: value for name, value in before.items() if name != "stages"}
            while True:
                step = job.step(self.database, hold, position)
                if step.position is None:
                    break
                position = step.position
                on_progress(position.get("done", {}))
                self._renew(hold, position)
                sleep(max(step.rest, _SHORTEST_REST) if pauses else 0.0)
            is_whole = task is None and not given
            self._let_go(hold, step if is_whole else None, before, monotonic() - began)
        done = dict(step.done)
        return Amount(done.pop("runs", 0), done.pop("outputs", 0), done.pop("bytes", 0), None, done)

    def compact(self) -> int:
        """Rewrite a SQLite file without its free pages; return by how many bytes it shrank.

        Raises Refused for Postgres, or while agents live whose leases might end meanwhile.
        """
        with self.database.read() as connection:
            living = nodes.living(connection, self.database.now(connection))
        seconds = self.database.estimate_compaction()
        if seconds is None:
            raise Refused("--compact is for SQLite files; Postgres uses the space of deleted rows again")
        shortest = min((node.lease or 60.0 for node in living), default=None)
        if shortest is not None and seconds > shortest / _SAFE_PART:
            raise Refused(
                f"compacting takes about {seconds:.0f}s, and agents are running, whose leases last"
                f" {shortest:.0f}s: stop them first"
            )
        return self.database.compact()

    # Holds ------------------------------------------------------------------------------------------

    def holds(self) -> list[Held]:
        """Return what is on hold, the oldest first."""
        with self.database.read() as connection:
            return holds.listing(connection)

    def holds_on(self, *, task_id: int | None, run_id: int | None = None) -> list[Held]:
        """Return the holds that keep the runs of this task, or this run of it."""
        with self.database.read() as connection:
            found = [None if task_id is None else holds.find(connection, task_id=task_id)]
            found.append(None if run_id is None else holds.find(connection, run_id=run_id))
        return [each for each in found if each]

    def hold_task(self, task: Task, reason: str) -> Held:
        """Keep all runs of the task, until `unhold`. Raises Refused if it is on hold already."""
        return self._hold(task.name, task.id, None, reason)

    def hold_run(self, run_id: int, reason: str) -> Held:
        """Keep this run, until `unhold`. Raises NotFound, or Refused if it is on hold already."""
        with self.database.read() as connection:
            run = find_run(connection, run_id)
        return self._hold(run.task, None, run_id, reason)

    def unhold_task(self, name: str) -> list[Held]:
        """End the holds on the task of this name, which may be gone. Raises NotFound if there is none."""
        with self.database.write() as connection:
            task = tasks.by_name(connection, name)
            of_task = holds.find(connection, task_id=task.id) if task else None
            found = [of_task] if of_task else holds.of_task(connection, name)
            if not found:
                raise NotFound(f"{name} is not on hold; `dcron hold` lists what is")
            holds.remove(connection, [each.id for each in found])
            self._record(connection, "unhold", found[0])
        return found

    def unhold_run(self, run_id: int) -> Held:
        """End the hold on this run. Raises NotFound if it is not on hold itself."""
        with self.database.write() as connection:
            found = holds.find(connection, run_id=run_id)
            if found is None:
                raise NotFound(f"run {run_id} is not on hold; `dcron hold` lists what is")
            holds.remove(connection, [found.id])
            self._record(connection, "unhold", found)
        return found

    def _hold(self, name: str, task_id: int | None, run_id: int | None, reason: str) -> Held:
        require_text("reason", reason)
        what = f"run {run_id} of {name}" if run_id is not None else name
        with self.database.write() as connection:
            now = self.database.now(connection)
            holds.wait_for_pruning(connection)
            if run_id is not None and runs.by_id(connection, run_id) is None:
                raise NotFound(f"{what} has just been pruned")
            is_new = holds.add(
                connection,
                self.database,
                task=name,
                task_id=task_id,
                run_id=run_id,
                reason=reason,
                now=now,
                actor=self.actor,
            )
            found = holds.find(connection, task_id=task_id, run_id=run_id)
            assert found
            if not is_new:
                raise Refused(f"{what} is on hold already: {found.reason}")
            self._record(connection, "hold", found)
        return found

    def _record(self, connection: Any, action: str, held: Held) -> None:
        now = self.database.now(connection)
        detail = {"reason": held.reason} | ({} if held.run_id is None else {"run": held.run_id})
        audit_log.record_run(connection, now, self.author, action, held.task_id, held.task, detail)

    # Pruning ----------------------------------------------------------------------------------------

    def _history(
        self,
        connection: Any,
        task: Task | None,
        given: Mapping[str, Any] | None,
        kept: Mapping[str, Any] | None,
    ) -> History:
        return History(
            {**past.settings_kept(connection), **(kept or {})},
            given=given,
            task_id=None if task is None else task.id,
            needs_archive=past.needs_archive(connection),
        )

    @contextmanager
    def _holding(self) -> Iterator[tuple[Hold, Mapping[str, Any]]]:
        """Take the job from the process that holds it, so that only one prunes. Raises Conflict."""
        hold = Hold(JOB, f"{self.actor}-{token_hex(4)}")
        try:
            with self.database.write() as connection:
                now = self.database.now(connection)
                before = maintenance.seize(connection, self.database, JOB, hold.holder, now)
            hold.kept = before
            try:
                yield hold, before
            except BaseException:
                self._let_go(hold, None, before, 0.0)
                raise
        except HoldLost:
            raise Conflict("another process prunes now; repeat it") from None

    def _renew(self, hold: Hold, position: Mapping[str, Any]) -> None:
        if hold.is_old:
            with self.database.write() as connection:
                hold.renew(connection, self.database.now(connection), position)

    def _let_go(self, hold: Hold, end: Step | None, before: Mapping[str, Any], seconds: float) -> None:
        """Finish the round, or let an agent continue where the job was before."""
        with self.database.write() as connection:
            if end is None:
                hold.release(connection, before)
            else:
                hold.finish(connection, self.database.now(connection), Prune.interval, seconds, end)
