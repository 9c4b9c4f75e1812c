"""How many statements an act sends to the database: each is a round trip on Postgres.

The cursor's statements are counted. These include savepoints and, on SQLite, BEGIN; they exclude COMMIT and
the BEGIN of Postgres.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from dcron.database import open_database
from dcron.services.additions import Additions
from tests.support.stage import Stage, definition

MOST_OF_ADD = 11
"""Most statements of `dcron add`, with those that set up the connection, BEGIN and COMMIT."""

ACTS: dict[str, tuple[int, Callable[[Stage], object]]] = {
    "add": (4, lambda stage: stage.crontab.add(definition("new"))),
    "add numbered": (6, lambda stage: stage.crontab.add(definition("known"), numbered=True)),
    "add after a task": (10, lambda stage: stage.crontab.add(definition("later", "@after known"))),
    "view": (7, lambda stage: stage.crontab.view("known")),
    "list": (8, lambda stage: list(stage.crontab.list_tasks())),
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


def test_adding_a_task_sends_few_statements_from_connect_to_commit(
    stage: Stage, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = _recorded(monkeypatch)
    database = open_database(database_url)
    addition = Additions(database, "ann@desk").add(definition("new"), numbered=True)
    database.close()
    assert addition.row.task.name == "new"
    assert len(sent) <= MOST_OF_ADD, "\n".join(sent)


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record every statement that a driver sends from now on."""
    sent: list[str] = []
    connect, execute = sqlite3.dbapi2.connect, psycopg.Cursor.execute

    def note(statement: str) -> None:
        if statement not in sent[-1:]:  # SQLite reports a statement with RETURNING twice
            sent.append(statement)

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        connection.set_trace_callback(note)
        return connection

    def noted(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
        note(str(query))
        return execute(cursor, query, *given, **options)

    monkeypatch.setattr(sqlite3.dbapi2, "connect", traced)
    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    return sent
