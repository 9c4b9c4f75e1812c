"""Rows that are decoded column by column have the values that SQLAlchemy gives row by row."""

from typing import Any

from sqlalchemy import select

from dcron.store.tasks import rows as tasks
from dcron.values.unreadable import Unreadable
from tests.support.stage import Stage


def read_both(stage: Stage) -> tuple[list[Any], list[Any]]:
    query = select(*tasks.COLUMNS)
    with stage.database.read() as connection:
        by_column = stage.database.send(connection, query).rows()
        return by_column, list(connection.execute(query))


def shown(rows: list[Any]) -> list[str]:
    return [repr([getattr(value, "text", value) for value in row]) for row in rows]


def test_both_ways_give_the_same_values(stage: Stage) -> None:
    stage.task("plain")
    stage.task("full", timeout=30.0, env={"A": "1"}, require=("eu",), need={"gpu": 1}, not_before=stage.now)
    stage.insert_task(name="unreadable", env="{", need="[1]", describe="é")
    by_column, by_row = read_both(stage)
    assert shown(by_column) == shown(by_row)
    assert [row.name for row in by_column] == [row.name for row in by_row]
    assert isinstance(by_column[-1].env, Unreadable)


def test_equal_values_are_one_object(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.task(name, env={"A": "1"})
    by_column, _ = read_both(stage)
    assert by_column[0].env is by_column[1].env


def test_no_rows_are_no_rows(stage: Stage) -> None:
    assert read_both(stage) == ([], [])
