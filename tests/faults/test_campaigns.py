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
    outage,
    patroni,
    processes,
    resets,
    restores,
    wal,
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
    (databases.postgres_crash, "postgres"),
    (network.cut_after_commit, "postgres"),
    (resets.reset_at_message, "postgres"),
    (wal.wal_by_others, "sqlite"),
)
LONG = (
    (freezing.freeze_crontab, "postgres"),
    (failover.failover_sync, "postgres"),
    (outage.outage_keep, "sqlite"),
    (outage.outage_keep, "postgres"),
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

UNHEARD = "UPDATE runs SET on_disconnect = 'keep', unheard_since = due_at WHERE id = 1"
DEAD = (
    "INSERT INTO nodes (id, name, host, pid, slots, version, tzdata, started_at, alive_until,"
    " died_at, died_how) SELECT 'web-1-00000000', 'web-1', 'h', 1, 1, '1', '1', due_at, due_at,"
    " due_at, 'dead' FROM runs WHERE id = 1",
    "UPDATE runs SET state = 'running', owner = 'web-1-00000000', claimed_at = due_at,"
    " started_at = due_at WHERE id = 1",
)


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


def test_a_campaign_without_its_programs_is_named_as_not_played(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patroni, "missing", lambda: ["etcd", "haproxy"])
    row = play(patroni.patroni_sync, "postgres", 7, SECONDS, server, tmp_path)
    assert row.missing == "not installed here: etcd, haproxy"
    assert "not played" in str(row)


def entry(run_id: int, occurrence: str, trigger: str = "schedule") -> Entry:
    return Entry("start", run_id, "tick", occurrence, 1, trigger, "web-1", None, 1.0)


def test_the_checker_sees_an_occurrence_that_started_twice() -> None:
    assert twice([entry(1, "09:00"), entry(2, "09:01")], set()) == []
    assert twice([entry(1, "09:00"), entry(2, "09:00")], set()) == ["tick of 09:00 was started 2 times"]
    assert twice([entry(1, "09:00"), entry(2, "09:00", "retry")], {"tick"}) == []
    assert len(twice([entry(1, "09:00"), entry(1, "09:00")], {"tick"})) == 1


@pytest.fixture(params=["sqlite", "postgres"])
def played(request: pytest.FixtureRequest, server: PostgresServer, tmp_path: Path) -> Iterator[Stage]:
    """The usual tasks; run 1 runs on a node that was declared dead."""
    with stage(server if request.param == "postgres" else None, 1, 0, tmp_path) as made:
        made.load()
        _write(made, *DEAD)
        yield made


def violated(played: Stage) -> list[str]:
    """Return the names of the rules that the witness saw violated."""
    return [text.partition(":")[0] for text in audit.witnessed(played.cluster.database).violations]


def test_the_checker_sees_what_the_dead_write_and_what_disagrees(played: Stage) -> None:
    _write(played, NOBODYS, "UPDATE runs SET state = 'lost' WHERE id = 1")
    assert violated(played) == ["a dead node wrote", "a dead node wrote", "a final row changed"]
    _write(played, NOBODYS)
    played.cluster.ledger_path.write_text("end 1 tick 2026-11-21T09:00:00Z 1 schedule web-1 3 1.00\n")
    assert audit.witnessed(played.cluster.database).late_truths == 1
    verdict = checks.judge(played)
    assert sorted(verdict.violations) == ["I4", "I5"]


def test_the_end_of_an_unheard_run_is_its_node_s_wherever_it_comes_from(played: Stage) -> None:
    before = violated(played)
    _write(played, UNHEARD, NOBODYS)
    assert violated(played) == before


def test_the_checker_sees_an_unheard_run_that_another_node_takes(played: Stage) -> None:
    before = violated(played)
    _write(played, UNHEARD, "UPDATE runs SET owner = 'web-2-00000000' WHERE id = 1")
    assert violated(played)[len(before) :] == ["an unheard run changed its owner"]


def test_the_checker_sees_a_dead_node_that_writes_a_run_it_is_heard_of(played: Stage) -> None:
    """A run that was unheard, and is no longer, is judged like any other."""
    before = violated(played)
    _write(played, UNHEARD, "UPDATE runs SET unheard_since = NULL WHERE id = 1", NOBODYS)
    assert violated(played)[len(before) :] == ["a dead node wrote"]


def _write(played: Stage, *statements: str) -> None:
    for statement in statements:
        with played.cluster.database.write() as connection:
            connection.execute(text(statement))


@pytest.mark.long
@pytest.mark.timeout(240)
def test_an_agent_does_not_grow_with_the_jobs_it_has_run() -> None:
    judge(growth.measure("sqlite", None, 1000))


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_an_agent_does_not_grow_with_jobs_that_end_in_each_way(database: str, server: PostgresServer) -> None:
    grown = growth.measure_for(database, server, 60)
    assert grown.jobs > 60
    judge(grown)


def judge(grown: growth.Growth) -> None:
    """Allow what caches still take, and jobs under way."""
    allowed = growth.Sample(growth.Process(4096, 3, 1), growth.Process(1024, 3, 0), growth.Process(256, 0, 0))
    for before, after, more in zip(grown.before, grown.after, allowed, strict=True):
        over = [now - was for was, now in zip(before, after, strict=True)]
        assert all(each <= most for each, most in zip(over, more, strict=True)), str(grown)
