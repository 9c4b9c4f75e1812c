"""A few short campaigns; `make faults` plays all of them for longer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.faults.campaign import (
    audit,
    checks,
    clocks,
    databases,
    failover,
    freezing,
    growth,
    network,
    notifying,
    processes,
    restores,
)
from tests.faults.campaign.ledger import Entry, twice
from tests.faults.campaign.playing import Fault, play
from tests.faults.campaign.stage import Stage, stage
from tests.support.databases import PostgresServer

SECONDS = 4.0
SHORT = (
    (processes.kill_agents, "sqlite"),
    (processes.claim_ahead, "sqlite"),
    (processes.claim_ahead, "postgres"),
    (processes.kill_wardens, "postgres"),
    (freezing.freeze_crontab, "postgres"),
    (databases.postgres_crash, "postgres"),
    (network.cut_after_commit, "postgres"),
    (failover.failover_sync, "postgres"),
)
LONG = (
    (failover.failover_async, "postgres"),
    (restores.restore, "sqlite"),
    (restores.restore, "postgres"),
    (clocks.clock_day, "sqlite"),
    (clocks.boot_clock, "sqlite"),
    (notifying.failing_at_once, "postgres"),
)
PLAYED = [pytest.param(*each, id=f"{each[0].name}-{each[1]}") for each in SHORT]
PLAYED += [pytest.param(*each, id=f"{each[0].name}-{each[1]}", marks=pytest.mark.long) for each in LONG]
NOBODYS = "UPDATE runs SET state = 'succeeded', finished_at = started_at WHERE id = 1"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that may be crashed."""
    made = PostgresServer()
    yield made
    made.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("fault", "database"), PLAYED)
def test_nothing_twice_nothing_lost_nothing_left_behind(
    fault: Fault, database: str, server: PostgresServer, tmp_path: Path
) -> None:
    row = play(fault, database, 7, SECONDS, server, tmp_path)
    assert row.missing is None
    assert row.verdict.violations == {}
    assert row.verdict.starts > 0


def entry(run_id: int, occurrence: str, trigger: str = "schedule") -> Entry:
    return Entry("start", run_id, "tick", occurrence, 1, trigger, "web-1", None, 1.0)


def test_the_checker_sees_an_occurrence_that_started_twice() -> None:
    assert twice([entry(1, "09:00"), entry(2, "09:01")], set()) == []
    assert twice([entry(1, "09:00"), entry(2, "09:00")], set()) == ["tick of 09:00 was started 2 times"]
    assert twice([entry(1, "09:00"), entry(2, "09:00", "retry")], {"tick"}) == []
    assert len(twice([entry(1, "09:00"), entry(1, "09:00")], {"tick"})) == 1


def test_the_checker_sees_what_the_dead_write_and_what_disagrees(
    server: PostgresServer, tmp_path: Path
) -> None:
    for each in (None, server):
        directory = tmp_path / ("postgres" if each else "sqlite")
        directory.mkdir()
        with stage(each, 1, 0, directory) as played:
            played.load()
            _write(
                played,
                "INSERT INTO nodes (id, name, host, pid, slots, version, tzdata, started_at, alive_until,"
                " died_at, died_how) SELECT 'web-1-00000000', 'web-1', 'h', 1, 1, '1', '1', due_at, due_at,"
                " due_at, 'dead' FROM runs WHERE id = 1",
                "UPDATE runs SET state = 'running', owner = 'web-1-00000000', claimed_at = due_at,"
                " started_at = due_at WHERE id = 1",
                NOBODYS,
                "UPDATE runs SET state = 'lost' WHERE id = 1",
            )
            found = audit.witnessed(played.cluster.database).violations
            assert [text.partition(":")[0] for text in found] == [
                "a dead node wrote",
                "a dead node wrote",
                "a final row changed",
            ]
            _write(played, NOBODYS)
            played.cluster.ledger_path.write_text("end 1 tick 2026-11-21T09:00:00Z 1 schedule web-1 3 1.00\n")
            assert audit.witnessed(played.cluster.database).late_truths == 1
            verdict = checks.judge(played)
            assert sorted(verdict.violations) == ["I4", "I5"]


def _write(played: Stage, *statements: str) -> None:
    for statement in statements:
        with played.cluster.database.write() as connection:
            connection.execute(text(statement))


@pytest.mark.long
@pytest.mark.timeout(240)
def test_an_agent_does_not_grow_with_the_jobs_it_has_run() -> None:
    grown = growth.measure("sqlite", None, 1000)
    assert grown.after.agent_files <= grown.before.agent_files + 2
    assert grown.after.warden_files <= grown.before.warden_files
    assert grown.after.agent_kib < grown.before.agent_kib + 4096
    assert grown.after.warden_kib < grown.before.warden_kib + 1024
