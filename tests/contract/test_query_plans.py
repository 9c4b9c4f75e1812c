"""The queries that agents and people ask all day follow an index, however long the history is."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url

from dcron.model import RunState
from dcron.store import agenda, changes, claims, nodes, runs, tasks
from dcron.store.claims import Ended
from dcron.store.runs import Wanted
from tests.contract.stage import NOON, Stage

LINES = 20_000
FINISHED = 50_000
NODE = "web-1-00000000"
MANY = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FINISHED})"
FILL = [
    f"""INSERT INTO crontab (name, schedule, command, planned_version)
        {MANY} SELECT 'line-' || i, '@daily', 'true', 1 FROM n WHERE i <= {LINES}""",
    f"""INSERT INTO runs (task_id, task, "trigger", state, scheduled_for, due_at, spec)
        {MANY} SELECT i, 'line-' || i, 'schedule', 'waiting', :soon, :soon, '{{}}'
        FROM n WHERE i <= {LINES}""",
    f"""INSERT INTO runs (task_id, task, "trigger", state, scheduled_for, due_at, spec, owner, claimed_at,
                          started_at, finished_at)
        {MANY} SELECT 1 + i % {LINES}, 'line-' || (1 + i % {LINES}), 'schedule',
               CASE WHEN i % 100 = 0 THEN 'failed' ELSE 'succeeded' END,
               :past, :past, '{{}}', '{NODE}', :past, :past, :past FROM n""",
    f"""INSERT INTO runs (task_id, task, "trigger", state, scheduled_for, due_at, spec, owner, claimed_at,
                          started_at)
        {MANY} SELECT i, 'line-' || i, 'manual', 'running', :past, :past, '{{}}', '{NODE}', :past, :past
        FROM n WHERE i <= 50""",
    f"""INSERT INTO changes (at, actor, action, task_id, task)
        {MANY} SELECT :past, 'ann', 'add', i, 'line-' || i FROM n WHERE i <= {LINES}""",
]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def full_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty database of each kind in turn, for all tests of this file."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('full') / 'dcron.db'}"
        return
    server = make_url(request.getfixturevalue("postgres_server"))
    admin = server.render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE DATABASE dcron_full")
    yield server.set(database="dcron_full").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE dcron_full WITH (FORCE)")


@pytest.fixture(scope="module")
def full(full_url: str) -> Iterator[Stage]:
    """20,000 lines with a turn each, and a history of 50,000 runs."""
    stage = Stage(full_url)
    assert stage.node() == NODE
    fmt = "%Y-%m-%d %H:%M:%S" + ("" if stage.database.is_sqlite else "+00")
    moments = {
        "past": (NOON - timedelta(days=1)).strftime(fmt),
        "soon": (NOON - timedelta(1e-4)).strftime(fmt),
    }
    for statement in FILL:
        used = {name: value for name, value in moments.items() if f":{name}" in statement}
        stage.sql(statement, **used)
    if not stage.database.is_sqlite:
        stage.sql("ANALYZE")
    yield stage
    stage.database.close()


QUERIES: dict[str, Callable[[Connection, Stage], object]] = {
    "next_due": lambda connection, stage: agenda.next_due(connection, NODE),
    "has_to_plan": lambda connection, stage: tasks.has_to_plan(connection, NOON),
    "to_plan": lambda connection, stage: tasks.to_plan(connection, stage.database, NOON, 100),
    "next_resume": lambda connection, stage: tasks.next_resume(connection),
    "claim and start": lambda connection, stage: claims.start(
        connection, stage.database, NODE, NOON, claims.claim(connection, stage.database, NODE, NOON, 100)
    ),
    "finish": lambda connection, stage: claims.finish(
        connection, stage.database, NODE, [Ended(LINES + FINISHED + 1, RunState.FAILED, NOON)]
    ),
    "owned": lambda connection, stage: claims.owned(connection, NODE, RunState.RUNNING),
    "release": lambda connection, stage: claims.release(connection, [NODE]),
    "declare_lost": lambda connection, stage: claims.declare_lost(connection, NOON, [NODE], "died"),
    "cancel_requests": lambda connection, stage: runs.cancel_requests(connection, NODE),
    "has_to_reap": lambda connection, stage: nodes.has_to_reap(connection, NOON),
    "reap": lambda connection, stage: nodes.reap(connection, NOON + timedelta(days=1)),
    "nodes": lambda connection, stage: nodes.listing(connection, NOON, ended_since=NOON),
    "plan": lambda connection, stage: agenda.plan(connection, stage.line(7), NOON),
    "settle_orphans": lambda connection, stage: agenda.settle_orphans(connection, NOON - timedelta(1), 100),
    "with_reboot": lambda connection, stage: tasks.with_reboot(connection),
    "retire_once": lambda connection, stage: tasks.retire_once(connection, 100),
    "next_turns": lambda connection, stage: runs.next_turns(connection, list(range(1, 500))),
    "last_started": lambda connection, stage: runs.last_started(connection, list(range(1, 500))),
    "alive": lambda connection, stage: runs.alive(connection, list(range(1, 500))),
    "runs of a task": lambda connection, stage: runs.newest(connection, Wanted(task_id=7), 20),
    "runs of a task in a state": lambda connection, stage: runs.newest(
        connection, Wanted(task_id=7, states=[RunState.SUCCEEDED]), 20
    ),
    "failed runs": lambda connection, stage: runs.newest(connection, Wanted(states=[RunState.FAILED]), 20),
    "unhappy runs": lambda connection, stage: runs.newest(
        connection, Wanted(states=[RunState.FAILED, RunState.LOST]), 20
    ),
    "running runs": lambda connection, stage: runs.newest(connection, Wanted(states=[RunState.RUNNING]), 20),
    "a run": lambda connection, stage: runs.by_id(connection, 7),
    "cancel": lambda connection, stage: runs.cancel_waiting(connection, 7, NOON, "no"),
    "a page of lines": lambda connection, stage: tasks.page(connection, "line-5", 500),
    "a prefix": lambda connection, stage: tasks.names_beginning(connection, "line-77", 6),
    "a name": lambda connection, stage: tasks.by_name(connection, "line-77"),
    "the last change by name": lambda connection, stage: changes.last_of(connection, "line-77"),
    "the last change of a line": lambda connection, stage: changes.last_of_line(connection, 77),
}


@pytest.mark.parametrize("ask", QUERIES.values(), ids=QUERIES)
def test_a_hot_query_follows_an_index(full: Stage, ask: Callable[[Connection, Stage], object]) -> None:
    plans = explained(full, lambda connection: ask(connection, full))
    assert plans
    assert {sql: scans(full, plan) for sql, plan in plans.items() if scans(full, plan)} == {}


def test_a_query_that_follows_no_index_is_noticed(full: Stage) -> None:
    def ask(connection: Connection) -> None:
        connection.execute(text("SELECT count(*) FROM runs WHERE payload = 'x'"))
        connection.execute(text("SELECT count(*) FROM crontab WHERE command LIKE '%x%'"))

    assert all(scans(full, plan) for plan in explained(full, ask).values())


def explained(stage: Stage, ask: Callable[[Connection], object]) -> dict[str, list[str]]:
    """The plan of every statement that `ask` sends, made in the transaction that sends it; nothing stays."""
    statements: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    explain = "EXPLAIN QUERY PLAN " if stage.database.is_sqlite else "EXPLAIN "
    plans = {}
    with suppress(UndoneError), stage.database.write() as connection:
        event.listen(stage.database.engine, "before_cursor_execute", note)
        try:
            ask(connection)
        finally:
            event.remove(stage.database.engine, "before_cursor_execute", note)
        for statement, parameters in statements:
            if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT INTO \w+ \([^)]*\) SELECT)", statement):
                rows = connection.exec_driver_sql(explain + statement, parameters)
                plans[statement] = [str(row[-1]).strip() for row in rows]
        raise UndoneError
    return plans


class UndoneError(Exception):
    """Nothing that was tried is kept."""


def scans(stage: Stage, plan: list[str]) -> list[str]:
    """The steps of the plan that read a whole table."""
    if not stage.database.is_sqlite:
        return [step for step in plan if re.search(r"Seq Scan on (runs|crontab|changes)", step)]
    with stage.database.read() as connection:
        partial = set(
            connection.scalars(
                text("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'")
            )
        )
    whole = [step for step in plan if re.match(r"SCAN (runs|crontab|changes)\b", step)]
    return [step for step in whole if not set(step.split()) & partial]
