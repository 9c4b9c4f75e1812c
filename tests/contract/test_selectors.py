"""The SQL of a selector chooses the same tasks as `Selector.matches`."""

import json
import random
from typing import Any

import pytest
from sqlalchemy import select, text

from dcron.policy.selectors import Requirement, Selector
from dcron.schema.tables import crontab
from dcron.store import selectors
from tests.support.stage import Stage

KEYS, VALUES = ("team", "tier", "app", "a/b.c_d-e"), ("", "shop", "gold", "Gold", "x")
TASKS, SELECTORS = 60, 80


def some_labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.5}


def some_selector(chance: random.Random) -> Selector:
    parts = []
    for _ in range(chance.randint(1, 3)):
        values = tuple(sorted(chance.sample(VALUES, chance.randint(1, 3)))) if chance.random() < 0.7 else None
        parts.append(Requirement(chance.choice(KEYS), values, chance.random() < 0.4))
    return Selector(tuple(dict.fromkeys(parts)))


def chosen(stage: Stage, selector: Selector) -> set[int]:
    with stage.database.read() as connection:
        return set(connection.scalars(select(crontab.c.id).where(selectors.condition(selector))))


@pytest.mark.parametrize("seed", range(2))
def test_the_database_chooses_as_the_policy_does(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    labels = {number: some_labels(chance) for number in range(1, TASKS + 1)}
    rows = [
        {"id": number, "name": f"t{number}", "labels": json.dumps(each)} for number, each in labels.items()
    ]
    with stage.database.write() as connection:
        overriding = "" if stage.database.is_sqlite else "OVERRIDING SYSTEM VALUE"
        insert = f"INSERT INTO crontab (id, name, schedule, command, labels) {overriding}"
        connection.execute(text(f"{insert} VALUES (:id, :name, '@daily', 'true', :labels)"), rows)
    for _ in range(SELECTORS):
        selector = some_selector(chance)
        assert Selector.parse(str(selector)) == selector
        expected = {number for number, each in labels.items() if selector.matches(each)}
        assert chosen(stage, selector) == expected, str(selector)


def test_keys_and_values_are_listed(stage: Stage) -> None:
    for name, labels in (("a", {"team": "shop"}), ("b", {"team": "api", "app": ""}), ("c", {"team": "shop"})):
        stage.task(name, labels=labels)
    with stage.database.read() as connection:
        assert selectors.keys(connection) == ["app", "team"]
        assert selectors.values(connection, "team") == {"api": 1, "shop": 2}


def plan(stage: Stage, selector: str) -> str:
    condition = selectors.condition(Selector.parse(selector))
    with stage.database.read() as connection:
        if not stage.database.is_sqlite:
            connection.execute(text("ANALYZE crontab"))
            connection.execute(text("ANALYZE task_labels"))
        query: Any = (
            select(crontab.c.id).where(condition).compile(connection, compile_kwargs={"literal_binds": True})
        )
        prefix = "EXPLAIN QUERY PLAN" if stage.database.is_sqlite else "EXPLAIN"
        return "\n".join(str(row[-1]) for row in connection.exec_driver_sql(f"{prefix} {query}"))


@pytest.mark.slow
def test_a_selector_of_a_few_tasks_reads_no_others(stage: Stage) -> None:
    number = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    stage.sql(
        f"{number} INSERT INTO crontab (name, schedule, command, labels)"
        " SELECT 't' || i, '@daily', 'true', '{\"team\":\"t' || (i / 10) || '\"}' FROM n"
        if stage.database.is_sqlite
        else "INSERT INTO crontab (name, schedule, command, labels) SELECT 't' || i, '@daily', 'true',"
        " '{\"team\":\"t' || (i / 10) || '\"}' FROM generate_series(1, 20000) AS i"
    )
    found = plan(stage, "team=t7,tier!=gold")
    assert "task_labels_tasks" in found
    assert "SCAN crontab" not in found
    assert "Seq Scan on crontab" not in found
    assert len(chosen(stage, Selector.parse("team=t7"))) == 10
