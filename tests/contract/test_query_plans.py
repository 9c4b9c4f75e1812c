"""The queries that agents and people ask all day follow an index, however long the history is."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import Connection, Row, event, text
from sqlalchemy.engine import make_url

from dcron.model import Run, RunState
from dcron.policy.starting.lanes import Lane
from dcron.policy.statistics import Span
from dcron.schema.tables import alerts as alerts_table
from dcron.store import changes, history, listings
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import flapping, notifications
from dcron.store.alerts import listing as alert_list
from dcron.store.alerts import rows as alerts
from dcron.store.alerts.watching import Look
from dcron.store.changes import ChangeFilter
from dcron.store.claims import claims, finishing
from dcron.store.claims import held as held_claims
from dcron.store.claims.claims import ClaimResult
from dcron.store.claims.finishing import RunResult
from dcron.store.claims.snapshot import take_snapshot
from dcron.store.nodes import clock_steps, epochs
from dcron.store.nodes import rows as nodes
from dcron.store.planning import dependencies, events, planning
from dcron.store.retention.history import EARLIEST, History
from dcron.store.runs import blocked, durations, output, skipping, unclaimable
from dcron.store.runs import rows as runs
from dcron.store.runs.candidates import Capacity
from dcron.store.statistics import daily as daily_statistics
from dcron.store.statistics import finished_runs, unsuccessful
from dcron.store.statistics.finished_runs import Place
from dcron.store.tasks import queues
from dcron.store.tasks import rows as tasks
from dcron.store.upkeep import expiry, reaping
from dcron.store.upkeep.steps import take_upkeep
from dcron.values.lists import RunFilter, Term
from tests.support.stage import NOON, Stage

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
    "UPDATE runs SET dead_at = finished_at WHERE state = 'failed'",
    f"""INSERT INTO runs (task_id, task, "trigger", state, scheduled_for, due_at, spec, owner, claimed_at,
                          started_at)
        {MANY} SELECT i, 'line-' || i, 'manual', 'running', :past, :past, '{{}}', '{NODE}', :past, :past
        FROM n WHERE i <= 50""",
    f"""INSERT INTO alerts (kind, subject, task_id, task, opened_at, last_at, run_id, last_run_id, closed_at)
        {MANY} SELECT 'failing', 'task:' || i, i, 'line-' || i, :past, :past, i, i, :past
        FROM n WHERE i <= {LINES}""",
    "UPDATE alerts SET closed_at = NULL WHERE task_id % 100 = 0",
    f"""INSERT INTO changes (at, actor, action, task_id, task)
        {MANY} SELECT :past, 'ann', 'add', i, 'line-' || i FROM n WHERE i <= {LINES}""",
    """INSERT INTO notifications (channel, kind, created_at, due_at, sent_at, sent_by)
       SELECT 'ops', 'opened', finished_at, finished_at, finished_at, owner
       FROM runs WHERE finished_at IS NOT NULL""",
    """INSERT INTO notifications (channel, kind, created_at, due_at)
       SELECT CASE WHEN id % 1000 = 0 THEN 'ops' ELSE 'mailto:ann' END,
              CASE WHEN id % 1500 = 0 THEN 'output' ELSE 'opened' END, finished_at, finished_at
       FROM runs WHERE finished_at IS NOT NULL AND id % 500 = 0""",
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
    """20,000 tasks with a next run each, and a history of 50,000 runs."""
    stage = Stage(full_url)
    assert stage.node() == NODE
    fill(stage, FILL)
    yield stage
    stage.database.close()


def fill(stage: Stage, statements: Sequence[str]) -> None:
    """Execute the statements; then Postgres knows what is in the tables."""
    fmt = "%Y-%m-%d %H:%M:%S" + ("" if stage.database.is_sqlite else "+00")
    moments = {
        "past": (NOON - timedelta(days=1)).strftime(fmt),
        "soon": (NOON - timedelta(1e-4)).strftime(fmt),
    }
    for statement in statements:
        used = {name: value for name, value in moments.items() if f":{name}" in statement}
        stage.sql(statement, **used)
    if not stage.database.is_sqlite:
        stage.sql("ANALYZE")


def claim_batch(connection: Connection, stage: Stage) -> ClaimResult:
    offer = Capacity(node_id=NODE, slots=100)
    return claims.claim(connection, stage.database, offer, NOON, [Lane()])


def look_around(connection: Connection, stage: Stage, position: dict[str, Any]) -> None:
    """Look at what the job `watch` does, an hour later: all runs are overdue."""
    look = Look(connection, stage.database, NOON + timedelta(hours=1), position, {})
    assert list(look.causes())
    look.over()
    look.reminders()


def a_run(connection: Connection) -> Run:
    run = runs.by_id(connection, 7)
    assert run
    return run


QUERIES: dict[str, Callable[[Connection, Stage], object]] = {
    "the durations of tasks, for a forecast": lambda connection, stage: durations.of_tasks(
        connection, list(range(1, 501))
    ),
    "live runs, for a forecast": lambda connection, stage: durations.of_alive(connection, stage.now),
    "snapshot": lambda connection, stage: take_snapshot(connection, stage.database, NODE),
    "heads": lambda connection, stage: planning.heads(connection),
    "to_plan": lambda connection, stage: tasks.to_plan(connection, NOON, 100),
    "claim and start": lambda connection, stage: claims.start(
        connection, stage.database, NODE, NOON, claim_batch(connection, stage).claimed
    ),
    "start held claims": lambda connection, stage: held_claims.start(
        connection, stage.database, NODE, NOON, claim_batch(connection, stage).claimed
    ),
    "finish": lambda connection, stage: finishing.finish(
        connection, stage.database, NODE, [RunResult(LINES + FINISHED + 1, RunState.FAILED, NOON)], NOON
    ),
    "unblock": lambda connection, stage: blocked.unblock(connection, list(range(1, 100)), NOON),
    "unblock_some": lambda connection, stage: blocked.unblock_some(connection, 0, NOON, 100),
    "expire": lambda connection, stage: expiry.expire(connection, stage.database, NOON, 100),
    "events": lambda connection, stage: events.unhandled(connection, 100),
    "queues": lambda connection, stage: queues.listing(connection),
    "graph": lambda connection, stage: dependencies.graph_around(connection, "line-7"),
    "a flow": lambda connection, stage: dependencies.members(connection, 7),
    "runs of a flow": lambda connection, stage: runs.newest(connection, RunFilter(flow=7), 20),
    "dead letters": lambda connection, stage: runs.newest(connection, RunFilter(dead=True), 20),
    "owned": lambda connection, stage: claims.owned(connection, NODE),
    "release": lambda connection, stage: claims.release(connection, [NODE]),
    "declare_lost": lambda connection, stage: finishing.declare_lost(
        connection, stage.database, NOON, [NODE], "died"
    ),
    "incidents": lambda connection, stage: epochs.last(connection, "epoch"),
    "is_behind": lambda connection, stage: clock_steps.is_behind(connection, NOON),
    "early_run": lambda connection, stage: clock_steps.early_run(connection, 1, NOON, 1),
    "settled_between": lambda connection, stage: clock_steps.settled_between(connection, 1, NOON, NOON),
    "upkeep": lambda connection, stage: take_upkeep(
        connection, stage.database, NODE, NOON, ["watch"], ["prune"], ["ops", "mailto"]
    ),
    "alerts that flap": lambda connection, stage: flapping.find(
        connection,
        [cast("Row[Any]", SimpleNamespace(id=1, task_id=7, kind="failing"))],
        3600,
        NOON,
    ),
    "waiting channels": lambda connection, stage: notifications.waiting_channels(
        connection, ["ops", "mailto"], NOON
    ),
    "notifications of alerts": lambda connection, stage: notifications.claim_alerts(
        connection, stage.database, "ops", NODE, NOON, 60
    ),
    "notifications of output": lambda connection, stage: notifications.claim_outputs(
        connection, stage.database, "ops", NODE, NOON
    ),
    "give up notifications": lambda connection, stage: notifications.give_up(
        connection, NOON + timedelta(days=1)
    ),
    "reap": lambda connection, stage: reaping.reap(
        connection, stage.database, NOON + timedelta(days=1), {NODE: NOON + timedelta(minutes=1)}
    ),
    "nodes": lambda connection, stage: nodes.listing(connection, NOON, ended_since=NOON),
    "plan": lambda connection, stage: planning.plan(connection, stage.saved(7), NOON),
    "settle_orphans": lambda connection, stage: unclaimable.skip_orphans(
        connection, [Lane()], NOON - timedelta(1), 100
    ),
    "starting": lambda connection, stage: planning.due_in_minute(connection, NOON, 100),
    "with_reboot": lambda connection, stage: tasks.with_reboot(connection),
    "retire_once": lambda connection, stage: tasks.retire_once(connection, NOON, 100),
    "next_runs": lambda connection, stage: runs.next_runs(connection, list(range(1, 500))),
    "listed tasks": lambda connection, stage: listings.listed_tasks(connection, list(range(1, 500))),
    "runs of a task": lambda connection, stage: runs.newest(connection, RunFilter(task_id=7), 20),
    "runs of a task in a state": lambda connection, stage: runs.newest(
        connection, RunFilter(task_id=7, states=[RunState.SUCCEEDED]), 20
    ),
    "failed runs": lambda connection, stage: runs.newest(connection, RunFilter(states=[RunState.FAILED]), 20),
    "unhappy runs": lambda connection, stage: runs.newest(
        connection, RunFilter(states=[RunState.FAILED, RunState.LOST]), 20
    ),
    "running runs": lambda connection, stage: runs.newest(
        connection, RunFilter(states=[RunState.RUNNING]), 20
    ),
    "a run": lambda connection, stage: runs.by_id(connection, 7),
    "cancel": lambda connection, stage: skipping.cancel(connection, a_run(connection), NOON, "ann"),
    "a page of lines": lambda connection, stage: tasks.page(connection, "line-5", 500),
    "waiting runs of a task": lambda connection, stage: runs.newest(
        connection, RunFilter(task_id=7, states=[RunState.WAITING]), 20
    ),
    "dead letters of a task": lambda connection, stage: runs.newest(
        connection, RunFilter(task_id=7, dead=True), 20
    ),
    "a prefix": lambda connection, stage: tasks.names_beginning(connection, "line-77", 6),
    "a name": lambda connection, stage: tasks.by_name(connection, "line-77"),
    "a source": lambda connection, stage: tasks.of_source(connection, "import:web-1:ann:-"),
    "the changes of a task": lambda connection, stage: changes.page(
        connection, ChangeFilter(task_id=77, task="line-77"), 20, None
    ),
    "the changes of a batch": lambda connection, stage: changes.of_batch(connection, "b123456789"),
    "the undo of a change": lambda connection, stage: changes.undos_of(connection, [77]),
    "the last change by name": lambda connection, stage: changes.last_of_name(connection, "line-77"),
    "the last change of a line": lambda connection, stage: changes.last_of_task(connection, 77),
    "a page of dead letters": lambda connection, stage: listings.dead_letters(
        connection, (), 9000, 200, NOON
    ),
    "dead letters by a filter": lambda connection, stage: listings.dead_letters(
        connection, [Term("reason", "disk")], None, 200, NOON
    ),
    "dead letters that still are": lambda connection, stage: listings.dead_ids(connection, 7),
    "what a task waits for": lambda connection, stage: listings.waiting_runs(connection, 7, 20),
    "what may be pruned": lambda connection, stage: History({}).look(
        connection, Place(EARLIEST, 0), NOON + timedelta(days=900), NOON + timedelta(days=900), 500
    ),
    "output of a run": lambda connection, stage: output.read(connection, 7, 1000),
    "output after its head": lambda connection, stage: output.first_after_head(connection, 7),
    "size of output": lambda connection, stage: output.size(connection, 7),
    "the run before": lambda connection, stage: output.neighbour(connection, 7, 30_000, later=False),
    "the run after": lambda connection, stage: output.neighbour(connection, 7, 30_000, later=True),
    "runs of a time": lambda connection, stage: history.finished(connection, 7, NOON, NOON, 100),
    "unfinished runs": lambda connection, stage: history.unfinished(connection, 7),
    "runs of the latest times": lambda connection, stage: history.latest(connection, 7, 1),
    "runs before a time": lambda connection, stage: history.scheduled_runs_before(connection, 7, NOON, 5),
    "runs after a time": lambda connection, stage: history.scheduled_runs_after(connection, 7, NOON, 5),
    "the nearest runs": lambda connection, stage: [
        history.nearest(connection, 7, NOON, later=later) for later in (False, True)
    ],
    "runs alive at a time": lambda connection, stage: history.alive_at(
        connection, stage.crontab.find_run(LINES + 7), NOON, 5
    ),
    "changes of a task": lambda connection, stage: changes.typed_of_task(connection, 77),
    "the task of a name": lambda connection, stage: changes.task_of_name(connection, "line-77", NOON),
    "nodes at a time": lambda connection, stage: (
        history.nodes_at(connection, NOON, 5),
        history.last_node(connection, NOON),
    ),
    "a queue now": lambda connection, stage: history.queue_now(connection, "default", 5),
    "lanes taken": lambda connection, stage: history.lanes_taken(connection, [NODE]),
    "due before": lambda connection, stage: history.count_due(connection, "default", NOON),
    "finished runs of a day": lambda connection, stage: finished_runs.page(
        connection, Span(NOON - timedelta(days=2), NOON - timedelta(hours=30)), None
    ),
    "a further page of them": lambda connection, stage: finished_runs.page(
        connection, Span(NOON - timedelta(days=2), NOON), Place(NOON - timedelta(days=1), 7), 100
    ),
    "all runs of a task": lambda connection, stage: finished_runs.page_of_task(
        connection, 7, Span(NOON - timedelta(days=2), NOON), Place(NOON, 7)
    ),
    "unsuccessful runs of a day": lambda connection, stage: unsuccessful.unsuccessful(
        connection, Span(NOON - timedelta(days=2), NOON - timedelta(hours=30)), None
    ),
    "a further window of them": lambda connection, stage: unsuccessful.unsuccessful(
        connection, Span(NOON - timedelta(days=2), NOON - timedelta(hours=23)), Place(NOON, 7)
    ),
    "failing tasks": lambda connection, stage: listings.failed_now(connection, [7, 8]),
    "nodes lost": lambda connection, stage: unsuccessful.lost_nodes(
        connection, Span(NOON - timedelta(days=2), NOON)
    ),
    "changes of a day": lambda connection, stage: changes.in_span(
        connection, Span(NOON, NOON + timedelta(days=2))
    ),
    "open alerts": lambda connection, stage: alert_list.page(connection, closed=False, before_id=9),
    "all alerts": lambda connection, stage: alert_list.page(connection, closed=True, before_id=9),
    "alerts of tasks": lambda connection, stage: alert_list.of_tasks(connection, [7, 8]),
    "alerts of a subject": lambda connection, stage: alert_list.open_of_subject(connection, "node:web-1"),
    "unacknowledged alerts": lambda connection, stage: alert_list.count_unacknowledged(connection, NOON),
    "the newest of them": lambda connection, stage: alert_list.unacknowledged(connection, NOON),
    "facts of alerts": lambda connection, stage: alert_facts.read(
        connection, alert_list.page(connection, closed=False, limit=5), NOON, with_output=True
    ),
    "a look of the watch": lambda connection, stage: look_around(connection, stage, {}),
    "a further look": lambda connection, stage: look_around(
        connection,
        stage,
        {
            "late": ["default", NOON.replace(hour=11).isoformat(), 7],
            "stale": 7,
            "open": ["failing", "task:1"],
        },
    ),
    "alerts to close": lambda connection, stage: alerts.close(
        connection, stage.database, [alerts_table.c.id.in_([100, 200])], NOON
    ),
    "alerts of dismissed dead letters": lambda connection, stage: alerts.dismissed(
        connection, stage.database, [300, 301], NOON
    ),
    "learned runtimes": lambda connection, stage: durations.of_tasks(connection, [7, 8], {7: 9, 8: 9}),
    "the first end": lambda connection, stage: finished_runs.first_end(connection, NOON - timedelta(days=2)),
    "ends recorded late": lambda connection, stage: daily_statistics.late_ends(
        connection, [RunResult(7, RunState.FAILED, NOON - timedelta(days=3))], {}, NOON
    ),
    "the newest flow": lambda connection, stage: history.newest_flow(connection, [7, 8]),
    "an unhandled event": lambda connection, stage: history.unhandled_event(connection, "deploy"),
    "the last event's run": lambda connection, stage: history.last_event_run(connection, 7),
}


@pytest.mark.parametrize("ask", QUERIES.values(), ids=QUERIES)
def test_a_hot_query_follows_an_index(full: Stage, ask: Callable[[Connection, Stage], object]) -> None:
    plans = explained(full, lambda connection: ask(connection, full))
    assert plans
    assert {sql: scans(full, plan) for sql, plan in plans.items() if scans(full, plan)} == {}


def test_the_first_runs_ever_are_found_by_their_ids(stage: Stage) -> None:
    node_id = stage.node()
    few = [statement.replace(f"<= {LINES}", "<= 5000") for statement in FILL[:2]]
    fill(stage, few)

    def act(connection: Connection) -> None:
        offer = Capacity(node_id=node_id, slots=100)
        result = claims.claim(connection, stage.database, offer, NOON, [Lane()], slots=100)
        ended = [RunResult(run.id, RunState.SUCCEEDED, NOON) for run in result.started]
        assert len(finishing.finish(connection, stage.database, node_id, ended, NOON)) == 100

    assert not any(scans(stage, plan) for plan in explained(stage, act).values())


def test_a_renewed_lease_changes_no_index(stage: Stage) -> None:
    if stage.database.is_sqlite:
        pytest.skip("SQLite writes to an index only if one of its columns changes")
    node_id = stage.node()
    in_place = text("SELECT pg_stat_get_xact_tuples_hot_updated('nodes'::regclass)")
    with stage.database.write() as connection:
        for later in range(5):
            nodes.renew(connection, node_id, NOON + timedelta(seconds=later), 60)
        assert connection.scalar(in_place) == 5


@pytest.mark.slow
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
            if re.match(r"\s*(SELECT|WITH|UPDATE|DELETE|INSERT INTO \w+ \([^)]*\) SELECT)", statement):
                rows = connection.exec_driver_sql(explain + statement, parameters)
                plans[statement] = [str(row[-1]).strip() for row in rows]
        raise UndoneError
    return plans


class UndoneError(Exception):
    """Nothing that was tried is kept."""


def scans(stage: Stage, plan: list[str]) -> list[str]:
    """The steps of the plan that read a whole table."""
    if not stage.database.is_sqlite:
        return [
            step
            for step in plan
            if re.search(r"Seq Scan on (runs|crontab|changes|output|notifications)", step)
        ]
    with stage.database.read() as connection:
        partial = set(
            connection.scalars(
                text("SELECT name FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'")
            )
        )
    whole = [step for step in plan if re.match(r"SCAN (runs|crontab|changes|output|notifications)\b", step)]
    return [step for step in whole if not set(step.split()) & partial]
