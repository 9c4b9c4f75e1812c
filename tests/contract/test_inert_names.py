"""Names that a shell or a terminal could take for more than letters: the database refuses them."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from dcron import migrations
from dcron.database import Database
from tests.support.older_tables import make_oldest_tables
from tests.support.stage import Stage

HOSTILE = (
    "$(touch x)",
    r"\"<(touch x)\"",
    "a`b`",
    "a b",
    "a\nb",
    "a;b",
    "a'b",
    "\x1b[2J",
    "a|b",
    "ä$",
    "a\u2028b",
)
WRITES = {
    "calendar": "INSERT INTO calendars (name, content, changed_at, changed_by)"
    " VALUES (:name, '{}', '2026-11-23 00:00:00', 'x')",
    "label key": "INSERT INTO task_labels (task_id, key, value) VALUES (9, :name, 'x')",
    "label value": "INSERT INTO task_labels (task_id, key, value) VALUES (9, 'x', :name || '$')",
    "queue": "INSERT INTO queues (name) VALUES (:name)",
    "queue of a task": "INSERT INTO crontab (name, schedule, command, queue)"
    " VALUES ('t', '@daily', 'x', :name)",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused(stage: Stage, write: str, name: str) -> None:
    with pytest.raises(DBAPIError), stage.database.write() as connection:
        connection.execute(text(write), {"name": name})


def test_the_labels_of_a_task_are_checked_where_they_are_written(stage: Stage) -> None:
    stage.task("shop", labels={"team": "shop", "example.org/tier": ""})
    with pytest.raises(DBAPIError), stage.database.write() as connection:
        connection.execute(text("UPDATE crontab SET labels = :labels"), {"labels": '{"a$(b)": "x"}'})


def test_an_earlier_database_with_such_names_is_upgraded(database: Database, empty_database_url: str) -> None:
    make_oldest_tables(empty_database_url)
    with database.write() as connection:
        connection.execute(text(WRITES["calendar"]), {"name": HOSTILE[0]})
        task = "INSERT INTO crontab (name, schedule, command, labels) VALUES ('t', '@daily', 'x', :labels)"
        connection.execute(text(task), {"labels": '{"a$(b)": "x"}'})
    assert migrations.upgrade(database) == "0016"
    with database.write() as connection:
        assert connection.execute(text("UPDATE crontab SET describe = 'y'")).rowcount == 1
        assert connection.scalar(text("SELECT name FROM calendars")) == HOSTILE[0]
        assert connection.execute(text("DELETE FROM calendars")).rowcount == 1
        assert connection.execute(text("UPDATE crontab SET labels = '{}'")).rowcount == 1
        assert connection.scalar(text("SELECT count(*) FROM task_labels")) == 0
