"""Statements executed without SQLAlchemy's context: their values, their errors, and who observes them."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import DateTime, Integer, bindparam, column, event, insert, literal, select, text, type_coerce
from sqlalchemy.exc import IntegrityError

from dcron.database.compiled import compiled
from dcron.errors import DatabaseError
from dcron.schema.tables import queues
from dcron.schema.types import Instant
from tests.support.stage import Stage


def test_values_arrive_as_given(stage: Stage) -> None:
    query = select(
        bindparam("at", type_=Instant()).label("at"),
        (bindparam("number", type_=Integer()) + literal(1)).label("next"),
        bindparam("missing", None, type_=Integer()).label("missing"),
    )
    with stage.database.read() as connection:
        reply = stage.database.send(connection, query, {"at": stage.now, "number": 41})
        assert [tuple(row) for row in reply.rows()] == [(stage.now, 42, None)]


def test_a_missing_value_is_an_error(stage: Stage) -> None:
    query = select(bindparam("number", type_=Integer()))
    with stage.database.read() as connection, pytest.raises(KeyError, match="number"):
        stage.database.send(connection, query).rows()


def test_a_value_that_a_function_gives_is_new_each_time(stage: Stage) -> None:
    times = iter(stage.now + timedelta(hours=hour) for hour in range(9))

    def clock() -> datetime:
        return next(times)

    clocked = bindparam("now", callable_=clock, type_=DateTime(timezone=True))
    query = select(type_coerce(clocked, Instant()).label("now"))
    with stage.database.read() as connection:
        assert compiled(query, connection.dialect) is None
        first, second = (stage.database.send(connection, query).rows()[0].now for _ in range(2))
    assert first < second


def test_an_error_of_the_database_is_reported_like_that_of_any_statement(stage: Stage) -> None:
    with pytest.raises(DatabaseError), stage.database.write() as connection:
        stage.database.send(connection, select(column("x")).select_from(text("no_such_table"))).rows()
    with stage.database.read() as connection:
        assert stage.database.send(connection, select(literal(1).label("one"))).rows()[0].one == 1


def test_a_constraint_is_reported_as_such(stage: Stage) -> None:
    row = insert(queues).from_select(
        ["name", "max_running"], select(literal("mail"), bindparam("limit", type_=Integer()))
    )
    with pytest.raises(IntegrityError), stage.database.write() as connection:
        stage.database.send(connection, row, {"limit": -1}).rows()
    with stage.database.read() as connection:
        assert not stage.database.send(connection, select(queues.c.name)).rows()


def test_an_observer_sees_every_statement(stage: Stage) -> None:
    seen: list[str] = []

    def note(*given: object) -> None:
        seen.append(str(given[2]))

    query = select(queues.c.name)
    event.listen(stage.database.engine, "before_cursor_execute", note)
    with stage.database.read() as connection:
        stage.database.send(connection, query).rows()
    event.remove(stage.database.engine, "before_cursor_execute", note)
    assert any("FROM queues" in statement for statement in seen)
