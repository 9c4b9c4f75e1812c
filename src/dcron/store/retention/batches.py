"""A batch of pruning: its transaction, its position, and how large the next one is."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import datetime
from time import monotonic
from typing import Any

from sqlalchemy import Connection

from dcron.database import Database
from dcron.policy.retention import next_size
from dcron.store.maintenance import Hold
from dcron.store.statistics.finished_runs import Place

BATCH_SECONDS = 0.025
"""How long a transaction should take."""
HURRIED_SECONDS = 0.25
"""The same while nothing waits for it."""

Position = dict[str, Any]


class Work:
    """One step of a round: its position, and its transaction."""

    def __init__(
        self, database: Database, hold: Hold, position: Position, target: float = BATCH_SECONDS
    ) -> None:
        """`target` is how long its transaction should take, in seconds."""
        self.database = database
        self._target = target
        self.position = deepcopy(position)
        self._hold = hold

    @property
    def stages(self) -> list[str]:
        """The stages that are left, the first of which is under way."""
        return list(self.position["stages"])

    @property
    def after(self) -> Any:
        """Where the stage goes on: a stored place or an id; None where it begins."""
        return self.position["after"]

    @property
    def size(self) -> int:
        """How many rows a transaction deletes."""
        return int(self.position["size"])

    def go_on(self, place: Place | int | None) -> None:
        """Go on behind this place; None ends the stage."""
        if place is None:
            self.position["stages"] = self.stages[1:]
        self.position["after"] = stored_place(place) if isinstance(place, Place) else place

    @contextmanager
    def transaction(self) -> Iterator[tuple[Connection, datetime]]:
        """Open a transaction that renews the hold, and size the next batch by its time. Raises HoldLost."""
        began = monotonic()
        with self.database.write() as connection:
            now = self.database.now(connection)
            self._hold.renew(connection, now, self.position)
            yield connection, now
        self.position["size"] = next_size(self.size, monotonic() - began, self._target)

    def count(self, **rows: int) -> None:
        """Add to the rows that the round has handled."""
        done = self.position["done"]
        for kind, number in rows.items():
            if number:
                done[kind] = done.get(kind, 0) + number


def stored_place(place: Place) -> list[Any]:
    return [place.finished_at.isoformat(), place.id]


def read_place(stored: Any) -> Place | None:
    """Return the place of a stored position; None where the walk begins."""
    if not isinstance(stored, list) or len(stored) != 2:
        return None
    at = read_time(stored[0])
    return Place(at, int(stored[1])) if at else None


def read_time(stored: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(stored)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else None
