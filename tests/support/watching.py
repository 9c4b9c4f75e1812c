"""A stage whose maintenance job `watch` a test does itself."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from dcron.schema.tables import alerts, notifications
from dcron.store import maintenance
from dcron.store.alerts.watching import Watch
from dcron.store.maintenance import Hold
from tests.support.stage import Stage


class WatchedStage(Stage):
    """A stage with one node that does the job `watch`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.job, self.hold = Watch(), Hold("watch", "watcher")
        self.position: Mapping[str, Any] = {}
        with self.database.write() as connection:
            maintenance.seize(connection, self.database, "watch", "watcher", self.now)

    def look(self) -> list[str]:
        """Do a round; return the kinds and subjects of the open alerts."""
        while True:
            step = self.job.step(self.database, self.hold, self.position)
            self.position = step.next_round if step.position is None else step.position
            if step.position is None:
                return self.open()

    def open(self) -> list[str]:
        query = select(alerts.c.kind, alerts.c.subject).where(alerts.c.closed_at.is_(None))
        with self.database.read() as connection:
            return sorted(f"{row.kind} {row.subject}" for row in connection.execute(query))

    def number(self) -> int:
        """Return how many alerts there have been."""
        with self.database.read() as connection:
            return len(connection.execute(select(alerts.c.id)).all())

    def sent(self) -> list[str]:
        query = select(notifications.c.kind).order_by(notifications.c.id)
        with self.database.read() as connection:
            return list(connection.scalars(query))


@pytest.fixture
def stage(database_url: str) -> Iterator[WatchedStage]:
    stage = WatchedStage(database_url)
    yield stage
    stage.database.close()
