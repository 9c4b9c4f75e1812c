"""Figures of the fleet for the screen: queues, due and late runs, and the tasks that start next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, case, false, func, select, text

from dcron.schema.conditions import DUE, NO_TRIAL
from dcron.schema.tables import runs
from dcron.store.lateness import Lateness
from dcron.store.planning import planning

MOST_COUNTED = 10_000
"""Most due runs of a lane that are counted."""


@dataclass(frozen=True)
class DueRuns:
    """The waiting runs that are due and not blocked."""

    by_queue: Mapping[str, int]
    """Their number in each queue that has any."""
    late: int
    """How many of them are late, as `policy.conditions.lateness` defines it."""
    frozen: int = 0
    """How many of them a freeze holds back."""

    @property
    def number(self) -> int:
        """Return how many there are."""
        return sum(self.by_queue.values())


def due_runs(connection: Connection, now: datetime) -> DueRuns:
    """Count the due runs; in each lane at most MOST_COUNTED."""
    by_queue: dict[str, int] = {}
    late, frozen = 0, 0
    lateness = Lateness(connection, now)
    for head in _heads(connection, now):
        queue = head.lane.queue
        due_of_lane, late_of_lane = _count(connection, head, lateness)
        by_queue[queue] = by_queue.get(queue, 0) + due_of_lane
        late += late_of_lane
        frozen += due_of_lane if lateness.frozen_for(head.lane).at(now) else 0
    return DueRuns(by_queue, late, frozen)


def starting_tasks(connection: Connection, until: datetime, limit: int) -> Sequence[int]:
    """Return the ids of tasks whose first waiting run is due before `until`, up to about `limit`."""
    found: dict[int, None] = {}
    for head in _heads(connection, until):
        of_lane = (text(DUE), text(NO_TRIAL), runs.c.lane == str(head.lane), runs.c.due_at < until)
        query = select(runs.c.task_id).where(*of_lane).order_by(runs.c.due_at).limit(limit)
        found |= dict.fromkeys(connection.scalars(query))
        if len(found) >= limit:
            break
    return list(found)


def _heads(connection: Connection, until: datetime) -> Iterator[planning.LaneHead]:
    """Return the lanes whose first run is due before `until`."""
    return (head for head in planning.all_heads(connection) if head.due_at <= until)


def _count(connection: Connection, head: planning.LaneHead, late: Lateness) -> tuple[int, int]:
    """Return how many runs of a lane are due, and how many of them are late."""
    of_lane = (text(DUE), runs.c.lane == str(head.lane), runs.c.due_at <= late.now)
    found = select(runs.c.due_at).where(*of_lane).order_by(runs.c.due_at).limit(MOST_COUNTED).subquery()
    before = late.of_lane(head.lane)
    is_late = false() if before is None else found.c.due_at < before
    due, number_late = connection.execute(select(func.count(), func.count(case((is_late, 1))))).one()
    return due, number_late
