"""What the maintenance jobs have in common that do one UTC day of runs after the other."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from dcron.database import Database
from dcron.store import maintenance
from dcron.store.maintenance import Hold, Step

_REST = 0.1
"""Seconds between two pages: other transactions go first."""


class DayUnderWay(ABC):
    """A day as far as its runs are read. It is in memory: a node that takes the job over begins it again."""

    def __init__(self, job: str, day: str, due_at: datetime | None) -> None:
        """`due_at` is when the job was due. A late end makes it due again."""
        self.job, self.day = job, day
        self.is_complete = False
        """Whether all runs of the day are read."""
        self._due_at = due_at

    @property
    def position(self) -> Mapping[str, Any]:
        """The position of the job."""
        return {"day": self.day}

    def has_late_end(self, connection: Connection) -> bool:
        """Return whether a run of a day was recorded late meanwhile: the day has to be read again."""
        return maintenance.due_at(connection, self.job) != self._due_at

    @abstractmethod
    def read_page(self, database: Database) -> None:
        """Read the next runs of the day; the last ones make it complete."""

    @abstractmethod
    def record(self, database: Database, hold: Hold) -> Mapping[str, int] | None:
        """Write that the day is done; return what was done, by kind. None after a late end."""


class DailyJob(ABC):
    """Does one day after the other, the oldest first. One page of runs is a step."""

    name: str
    interval = 3600.0
    kinds: tuple[str, ...]
    """What it counts."""

    def __init__(self) -> None:
        """Begin without a day."""
        self._day: DayUnderWay | None = None
        self._done = Counter[str]()

    @abstractmethod
    def first_day(self, connection: Connection, now: datetime) -> DayUnderWay | None:
        """Return the first day that is to be done; None if there is none."""

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Read a page of the day's runs, or record the day when all are read."""
        day = self._day
        if day is None or position != day.position:
            return self._begin_day(database, hold, is_new_round=not position)
        if not day.is_complete:
            day.read_page(database)
        else:
            self._done.update(day.record(database, hold) or {})
            self._day = None
        return Step(day.position, rest=_REST)

    def _begin_day(self, database: Database, hold: Hold, *, is_new_round: bool) -> Step:
        if is_new_round:
            self._done.clear()
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, {})
            self._day = self.first_day(connection, now)
        if self._day is None:
            return Step(None, {kind: self._done[kind] for kind in self.kinds})
        return Step(self._day.position)
