"""How many statements an act sends to the database: each is a round trip on Postgres.

The cursor's statements are counted. These include savepoints and, on SQLite, BEGIN; they exclude COMMIT and
the BEGIN of Postgres.
"""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from tests.support.stage import Stage, definition

ACTS: dict[str, tuple[int, Callable[[Stage], object]]] = {
    "add": (8, lambda stage: stage.crontab.add(definition("new"))),
    "add numbered": (9, lambda stage: stage.crontab.add(definition("known"), numbered=True)),
    "add after a task": (14, lambda stage: stage.crontab.add(definition("later", "@after known"))),
    "view": (6, lambda stage: stage.crontab.view("known")),
    "list": (7, lambda stage: list(stage.crontab.list_tasks())),
}


@pytest.mark.parametrize("act", ACTS)
def test_an_act_sends_few_statements(stage: Stage, act: str) -> None:
    stage.task("known")
    most, do = ACTS[act]
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(stage.database.engine, "before_cursor_execute", note)
    do(stage)
    event.remove(stage.database.engine, "before_cursor_execute", note)
    assert len(sent) <= most, "\n".join(sent)
