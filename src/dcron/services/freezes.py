"""Freeze the crontab: nothing starts by itself until it is thawed."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from dcron.errors import NotFound, Refused, ScheduleError, UsageError
from dcron.model import LAST_RUN, Freeze, RunState, Task
from dcron.policy.starting import freezes as policy
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.freezes import FrozenTime
from dcron.policy.starting.occurrences import is_timed, next_not_excluded
from dcron.policy.validation import require_text
from dcron.services import recorded_values
from dcron.services.runs.runs import Runs
from dcron.services.service import Service
from dcron.store import audit_log, freezes
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.values.lists import RunFilter

_ACTIVE = [RunState.RUNNING, RunState.CLAIMED]
MOST_STARTS = 1_000
"""Starts that are counted before the user is asked."""
_MOST_TASKS = 2_000
"""Tasks whose starts are counted."""
_MOST_ACTIVE = 100_000


@dataclass(frozen=True)
class Reach:
    """What a freeze would stop."""

    now: datetime
    tasks: int
    """Tasks that are not paused."""
    starts: int | None
    """Their starts within the freeze, up to MOST_STARTS. None: it has no end, or there are too many tasks."""
    active: int


class Freezes(Service):
    """The freezes of a crontab. It is frozen while at least one of them holds."""

    # Read -------------------------------------------------------------------------------------------

    def active(self) -> Freeze | None:
        """Return the freeze that holds now; of several the one that ends last."""
        with self.database.read() as connection:
            return freezes.active(connection, self.database.now(connection))

    def listing(self, limit: int) -> list[Freeze]:
        """Return the latest freezes, over or not, the newest first."""
        with self.database.read() as connection:
            return freezes.newest(connection, limit)

    def frozen_time(self) -> FrozenTime:
        """Return when the crontab is and will be frozen."""
        with self.database.read() as connection:
            return freezes.frozen_time(connection, self.database.now(connection))

    def active_runs(self) -> list[int]:
        """Return the ids of the runs that a node has claimed or started."""
        with self.database.read() as connection:
            return [run.id for run in runs.newest(connection, RunFilter(states=_ACTIVE), _MOST_ACTIVE)]

    def reach(self, begin: datetime, end: datetime | None) -> Reach:
        """Return what a freeze from `begin` to `end` would stop."""
        with self.database.read() as connection:
            now = self.database.now(connection)
            active = len(runs.newest(connection, RunFilter(states=_ACTIVE), _MOST_ACTIVE))
            count = tasks.count(connection)
            found = [] if count > _MOST_TASKS else [task for task in tasks.every(connection) if task.enabled]
        if count > _MOST_TASKS or end is None:
            return Reach(now, len(found) or count, None, active)
        starts = 0
        for task in found:
            starts += sum(1 for _ in islice(_starts(task, begin, end), MOST_STARTS - starts))
        return Reach(now, len(found), starts, active)

    # Freeze -----------------------------------------------------------------------------------------

    def freeze(
        self,
        *,
        from_at: datetime | None = None,
        until_at: datetime | None = None,
        reason: str | None = None,
    ) -> Freeze:
        """Freeze the crontab, from now or a later time, until a time or until it is thawed.

        After the commit no run starts by itself. Active runs continue. Raises UsageError.
        """
        if reason is not None:
            require_text("--reason", reason)
        with self.database.write() as connection:
            self.database.lock_out_starts(connection)
            now = self.database.read_clock(connection)
            begin = now if from_at is None else from_at
            if begin < now:
                raise UsageError("--from is in the past; without it the freeze begins now")
            if until_at is not None and until_at <= begin:
                raise UsageError(f"--until is {'in the past' if until_at <= now else 'not after --from'}")
            freeze_id = freezes.add(
                connection, now, self.actor, from_at=begin, until_at=until_at, reason=reason
            )
            added = freezes.by_id(connection, freeze_id)
            assert added
            audit_log.record_other(
                connection,
                now,
                self.author,
                "freeze",
                "freeze",
                freezes.name_of(freeze_id),
                after=freezes.values_of(added),
            )
            self.database.notify(connection)
        return added

    def cancel_active(self) -> list[int]:
        """Cancel all runs that a node has claimed or started, each in a transaction; return their ids."""
        cancelled: list[int] = []
        crontab_runs = Runs(self)
        for run_id in self.active_runs():
            try:
                crontab_runs.cancel(run_id)
            except Refused:  # it has ended meanwhile
                continue
            cancelled.append(run_id)
        return cancelled

    # Thaw -------------------------------------------------------------------------------------------

    def thaw(self, ids: Sequence[int] = ()) -> list[Freeze]:
        """End these freezes, or withdraw planned ones; without ids end the one that holds now.

        Raises NotFound, Refused for one that is over, and UsageError if several hold.
        """
        with self.database.write() as connection:
            now = self.database.now(connection)
            found = [self._open(connection, each, now) for each in ids] or [self._only(connection, now)]
            for each in found:
                recorded_values.change(connection, self, "freeze", freezes.name_of(each.id), None)
            self.database.notify(connection)
            return list(filter(None, (freezes.by_id(connection, each.id) for each in found)))

    def _open(self, connection: Connection, freeze_id: int, now: datetime) -> Freeze:
        found = freezes.by_id(connection, min(freeze_id, LAST_RUN))
        if found is None:
            raise NotFound(f"there is no freeze {freeze_id}; `dcron freeze list` lists them")
        if policy.state_of(found, now) == "over":
            raise Refused(f"freeze {freeze_id} is over already")
        return found

    def _only(self, connection: Connection, now: datetime) -> Freeze:
        found = freezes.open_ones(connection, now)
        holding = [each for each in found if policy.holds(each, now)]
        if len(holding) == 1:
            return holding[0]
        if holding:
            ids = ", ".join(str(each.id) for each in holding)
            raise UsageError(
                f"several freezes hold: {ids}; name those to end, as `dcron freeze list` lists them"
            )
        if found:
            ids = ", ".join(str(each.id) for each in found)
            raise NotFound(f"nothing is frozen now; name a planned freeze to withdraw it: {ids}")
        raise NotFound("nothing is frozen")


def _starts(task: Task, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the occurrences of the task from `begin` to before `end`."""
    with suppress(ScheduleError):  # nothing can start by a schedule that cannot be read
        at = next_not_excluded(task, begin - INSTANT) if is_timed(task) else None
        while at and at < end:
            yield at
            at = next_not_excluded(task, at)
