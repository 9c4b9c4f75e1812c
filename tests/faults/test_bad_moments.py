"""Agents that start or run while the database is in trouble: they wait for what passes, and end otherwise."""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from dcron.database import Database, open_database
from dcron.migrations import VERSION_TABLE
from dcron.model import RunState
from dcron.schema.tables import SCHEMA_VERSION
from tests.support.cluster import Cluster, cluster, wait_for
from tests.support.databases import PostgresServer, new_database

AGENTS = int(os.environ.get("DCRON_TEST_AGENTS", "8"))
"""30 and more by `make faults`."""
START = 30 + 4 * AGENTS
"""Seconds for so many agents to start on two busy cores."""
BAD_MOMENT = 6.0
"""Seconds; an agent used to give up after 5."""


def has_said(team: Cluster, words: str) -> bool:
    return any(words in agent.log.read_text() for agent in team.agents)


def none_has_ended(team: Cluster) -> bool:
    return all(agent.process.poll() is None for agent in team.agents)


@pytest.fixture
def full_server() -> Iterator[PostgresServer]:
    """A server with room for all agents at rest, if nothing else takes its connections."""
    server = PostgresServer()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"ALTER SYSTEM SET max_connections = {4 * AGENTS + 10}".encode())
    server.crash()
    server.start()
    yield server
    server.close()


@pytest.mark.timeout(60 + 2 * START)
@pytest.mark.long
def test_agents_without_a_free_connection_wait_for_one(full_server: PostgresServer, tmp_path: Path) -> None:
    with new_database(full_server.url, tmp_path) as url, cluster(url, tmp_path) as team:
        team.database.close()
        taken = []
        while True:
            try:
                taken.append(psycopg.connect(full_server.url))
            except psycopg.OperationalError:
                break
        for number in range(AGENTS):
            team.start_agent(f"web-{number}", lease=30)
        wait_for(lambda: has_said(team, "start: cannot reach"), START, "an agent says that it waits")
        time.sleep(BAD_MOMENT)
        assert none_has_ended(team)
        for connection in taken:
            connection.close()
        team.wait_until_alive(AGENTS, within=START)
        assert none_has_ended(team)
        assert has_said(team, "start: the database answers again")


@pytest.mark.timeout(60 + 2 * START)
@pytest.mark.long
def test_agents_that_find_the_file_locked_come_up_when_it_is_free(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'dcron.db'}"
    with cluster(url, tmp_path) as team:
        team.database.close()
        holder = sqlite3.connect(tmp_path / "dcron.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        for number in range(AGENTS):
            team.start_agent(f"web-{number}", lease=30, environment={"DCRON_PATIENCE": "1s"})
        wait_for(lambda: has_said(team, "start: the database"), START, "an agent says that it waits")
        time.sleep(BAD_MOMENT)
        assert none_has_ended(team)
        holder.execute("ROLLBACK")
        holder.close()
        team.wait_until_alive(AGENTS, within=START)
        assert none_has_ended(team)


def test_an_agent_that_waits_for_its_database_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    with cluster(f"sqlite:///{tmp_path / 'dcron.db'}", tmp_path) as team, team.database.write():
        agent = team.start_agent("web-1", environment={"DCRON_PATIENCE": "1s"})
        wait_for(lambda: has_said(team, "trying again until it answers"), 30, "it waits")
        agent.terminate()
        assert agent.wait(20) == 0


@pytest.mark.parametrize("wrong", ["role", "database", "file", "url"])
def test_a_lasting_error_ends_a_starting_agent_at_once(
    postgres_server: str, tmp_path: Path, wrong: str
) -> None:
    server = make_url(postgres_server)
    urls = {
        "role": server.set(username="dcron_nobody").render_as_string(hide_password=False),
        "database": server.set(database="dcron_nowhere").render_as_string(hide_password=False),
        "file": f"sqlite:///{tmp_path / 'no' / 'such' / 'directory.db'}",
        "url": "postgrs://x",
    }
    with cluster(f"sqlite:///{tmp_path / 'dcron.db'}", tmp_path) as team:
        team.url = urls[wrong]
        agent = team.start_agent("web-1")
        assert agent.wait(30) == (2 if wrong == "url" else 3)
        assert "trying again" not in agent.log.read_text()


def test_a_running_agent_finishes_on_newer_tables_and_stops(team: Cluster) -> None:
    long = team.add("long", "0 0 1 1 *", f"sleep 6; {team.entry('ended')}")
    other = team.add("other", "0 0 1 1 *", team.entry("ran"))
    agent = team.start_agent("web-1", lease=6)
    team.wait_until_alive(1, within=60)
    run = team.crontab.run(long)
    wait_for(lambda: team.runs(RunState.RUNNING), 30, "it runs")
    with team.database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    late = team.crontab.run(other)
    assert agent.wait(60) == 3
    log = agent.log.read_text()
    assert "takes no new runs and stops when what it runs has ended" in log
    assert "has tables of version 9999, made by a newer dcron" in log
    assert "Traceback" not in log
    assert team.crontab.find_run(run.id).state is RunState.SUCCEEDED
    assert team.crontab.find_run(late.id).state is RunState.WAITING
    assert [words[0] for words in team.ledger()] == ["long"]


def test_tables_that_cannot_be_written_any_more_leave_the_end_to_the_spool(team: Cluster) -> None:
    long = team.add("long", "0 0 1 1 *", f"sleep 4; {team.entry('ended')}; echo out")
    agent = team.start_agent("web-1", lease=30)
    team.wait_until_alive(1, within=60)
    run = team.crontab.run(long)
    wait_for(lambda: team.runs(RunState.RUNNING), 30, "it runs")
    with team.database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        connection.execute(text("ALTER TABLE runs RENAME COLUMN exit_code TO code"))
        connection.execute(text("ALTER TABLE output RENAME COLUMN lines TO line_count"))
    assert agent.wait(60) == 3
    assert "Traceback" not in agent.log.read_text()
    assert [words[0] for words in team.ledger()] == ["long"]
    with team.database.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{SCHEMA_VERSION}'"))
        connection.execute(text("ALTER TABLE runs RENAME COLUMN code TO exit_code"))
        connection.execute(text("ALTER TABLE output RENAME COLUMN line_count TO lines"))
    team.start_agent("web-1", lease=30)
    wait_for(lambda: team.runs(RunState.SUCCEEDED, task="long"), 60, "the next agent records the end")
    assert b"out" in b"".join(chunk.data for chunk in team.crontab.output(run.id, 0))


@pytest.fixture
def limited(postgres_server: str, tmp_path: Path) -> Iterator[tuple[Cluster, Database]]:
    """A cluster whose agents have a role of their own, and the owner's way in."""
    server = make_url(postgres_server)
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute("CREATE DATABASE dcron_limited")
        admin.execute("CREATE ROLE dcron_runner LOGIN")
    owner = open_database(server.set(database="dcron_limited").render_as_string(hide_password=False))
    with cluster(owner.address.url.set(drivername="postgresql").render_as_string(False), tmp_path) as team:
        with owner.write() as connection:
            connection.execute(text("GRANT USAGE ON SCHEMA dcron TO dcron_runner"))
            connection.execute(text("GRANT ALL ON ALL TABLES IN SCHEMA dcron TO dcron_runner"))
            connection.execute(text("GRANT ALL ON ALL SEQUENCES IN SCHEMA dcron TO dcron_runner"))
        team.url = server.set(database="dcron_limited", username="dcron_runner").render_as_string(False)
        yield team, owner
    owner.close()
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as admin:
        admin.execute("DROP DATABASE dcron_limited WITH (FORCE)")
        admin.execute("DROP ROLE dcron_runner")


@pytest.mark.parametrize("right", ["UPDATE ON runs", "INSERT, UPDATE ON output", "UPDATE ON nodes"])
def test_a_right_that_is_taken_away_ends_the_agent(limited: tuple[Cluster, Database], right: str) -> None:
    team, owner = limited
    team.add("tick", "@every 1s", f"echo hello; {team.entry('ran')}")
    agent = team.start_agent("web-1", lease=6)
    wait_for(lambda: team.runs(RunState.SUCCEEDED), 60, "it runs tasks")
    with owner.write() as connection:
        connection.execute(text(f"REVOKE {right} FROM dcron_runner"))
    assert agent.wait(60) == 3
    log = agent.log.read_text()
    assert "does not allow this: permission denied for table" in log
    assert "Traceback" not in log
