"""Labels: the table `task_labels` is always like the column `crontab.labels`, however it is written."""

import json

import pytest
from sqlalchemy import text

from dcron.errors import UsageError
from tests.support.stage import Stage


def kept(stage: Stage) -> set[tuple[int, str, str]]:
    """Return the rows of the look-up table."""
    with stage.database.read() as connection:
        rows = connection.execute(text("SELECT task_id, key, value FROM task_labels"))
        return {(row.task_id, row.key, row.value) for row in rows}


def test_the_lookup_follows_what_dcron_writes(stage: Stage) -> None:
    task = stage.task("a", labels={"team": "shop", "tier": "gold"})
    stage.task("b")
    assert kept(stage) == {(task.id, "team", "shop"), (task.id, "tier", "gold")}
    edited = stage.crontab.edit(stage.saved(task.id), {"labels": {"tier": "silver"}})
    assert kept(stage) == {(task.id, "tier", "silver")}
    assert dict(edited.labels) == {"tier": "silver"}
    stage.crontab.remove(stage.saved(task.id))
    assert kept(stage) == set()


def test_the_lookup_follows_plain_sql(stage: Stage) -> None:
    first = stage.insert_task(name="a", labels='{"team":"shop"}')
    second = stage.insert_task(name="b")
    assert kept(stage) == {(first, "team", "shop")}
    stage.sql("""UPDATE crontab SET labels = '{"team":"x","team":"api","app":""}'""")
    pairs = (("team", "api"), ("app", ""))
    assert kept(stage) == {(task_id, *pair) for task_id in (first, second) for pair in pairs}
    stage.sql("UPDATE crontab SET describe = 'x'")
    stage.sql(f"UPDATE crontab SET id = id + 1000 WHERE id = {first}")
    assert {task_id for task_id, _, _ in kept(stage)} == {first + 1000, second}
    stage.sql("DELETE FROM crontab WHERE name = 'a'")
    assert {task_id for task_id, _, _ in kept(stage)} == {second}
    stage.sql("DELETE FROM crontab")
    assert kept(stage) == set()


UNREADABLE = (
    *("", "{", "null", "5", '"x"', '["team"]', '{"team":5}', '{"team":"x","app":null}', "[" * 3000),
    *(json.dumps({"k" * 41: "x"}), json.dumps({"team": "x" * 100_000}), '{"":"x"}', '{"a":{"b":"c"}}'),
)


def test_labels_that_cannot_be_read_are_none(stage: Stage) -> None:
    task_id = stage.insert_task(name="a", labels='{"team":"shop"}')
    for labels in UNREADABLE:
        stage.set_task(task_id, describe="x")
        stage.sql("UPDATE crontab SET labels = :labels", labels=labels)
        assert kept(stage) == set(), labels[:50]
    stage.sql("""UPDATE crontab SET labels = '{"team":"shop"}'""")
    assert kept(stage) == {(task_id, "team", "shop")}


def test_replaced_rows_and_emptied_tables_leave_no_labels(stage: Stage) -> None:
    task_id = stage.insert_task(name="a", labels='{"team":"shop"}')
    if stage.database.is_sqlite:
        stage.sql(
            f"REPLACE INTO crontab (id, name, schedule, command) VALUES ({task_id}, 'a', '@daily', 'true')"
        )
    else:
        stage.sql("TRUNCATE crontab")
    assert kept(stage) == set()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"Team": "shop"}, "'Team' is not a label's key"),
        ({"team": "ä"}, "team: 'ä' is not a label's value"),
        ({"team": "x" * 61}, "is not a label's value"),
        ({f"k{number}": "" for number in range(21)}, "21 labels are too many"),
    ],
)
def test_bad_labels_are_refused(sqlite_stage: Stage, labels: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sqlite_stage.task("a", labels=labels)


def test_an_edit_of_labels_keeps_the_next_run(stage: Stage) -> None:
    task = stage.task("a")
    before = stage.next_run(task)
    stage.forward(minutes=3)
    stage.crontab.edit(stage.saved(task.id), {"labels": {"team": "shop"}})
    assert stage.next_run(task) == before
