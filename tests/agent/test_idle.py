"""An idle node costs little: it sends few statements."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert

from dcron.agent.settings import POLL_INTERVAL
from dcron.database import Database, open_database
from dcron.schema.tables import crontab, runs
from tests.support.node import HandNode

MOST_A_MINUTE = 60


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty crontab that uses the database's own clock."""
    database = open_database(database_url)
    yield database
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [0, 10, 1000])
def test_an_idle_node_sends_few_statements(database: Database, tasks: int) -> None:
    add_tasks_of_tomorrow(database, tasks)
    node = HandNode(database, "idle").register()
    node.lease.clock = time.monotonic
    node.heartbeat.step()
    node.dispatcher.step()
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    node.dispatcher.look_again()
    pause = node.dispatcher.step()
    look = len(sent)
    beat = node.heartbeat.step()
    heartbeat = len(sent) - look
    # On SQLite the agent's own commit wakes its dispatcher, too.
    assert look * (60 / pause + 60 / beat) + heartbeat * 60 / beat < MOST_A_MINUTE, "\n".join(sent)
    assert look == 1 + database.is_sqlite, "a look is one statement, after BEGIN on SQLite"
    assert (pause, beat) == (POLL_INTERVAL, node.settings.beat)


def add_tasks_of_tomorrow(database: Database, number: int) -> None:
    with database.write() as connection:
        tomorrow = database.now(connection) + timedelta(days=1)
        for name in map(str, range(number)):
            values = {"name": name, "schedule": "@daily", "command": "true", "planned_version": 1}
            task_id = connection.execute(insert(crontab).values(values).returning(crontab.c.id)).scalar_one()
            run = {"task_id": task_id, "task": name, "trigger": "schedule", "state": "waiting", "spec": {}}
            run |= {"scheduled_for": tomorrow, "due_at": tomorrow, "tzdata": "9999z"}
            connection.execute(insert(runs).values(run))
