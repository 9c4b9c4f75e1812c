"""`dcron doctor` finds each thing that needs attention, and nothing where all is well."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import insert, text, update

from dcron.database import FileCondition, Protection, ServerCondition, TableRows, open_database
from dcron.migrations import VERSION_TABLE
from dcron.model import RunState
from dcron.policy.ownership import digest
from dcron.policy.statistics import Totals, day_of
from dcron.presentation.doctor import Finding
from dcron.schema.tables import alerts, maintenance_jobs, nodes
from dcron.services.doctor import Doctor, database, host
from dcron.services.settings import SharedSettings
from dcron.store import maintenance
from dcron.store.statistics import daily as daily_statistics
from tests.support.retention import insert_history, sum_up_all
from tests.support.stage import Stage

JOBS = ("archive", "statistics")
GOOD_FILE = FileCondition(
    path=Path("/srv/dcron.db"),
    size=10**9,
    free=10**11,
    file_system="ext4",
    is_networked=False,
    journal="truncate",
    wal_is_safe=False,
    library="3.40.1",
    others=None,
)
GOOD_SERVER = ServerCondition(
    is_standby=False,
    most_connections=97,
    connections=20,
    oldest_id=50_000_000,
    autovacuum=True,
    is_durable=True,
    tables=(TableRows("runs", 1_000_000, 50_000),),
)
GOOD_CONNECTION = Protection("TLSv1.3", "verify-full", None, False, "dcron", None)
GOOD_UNIT = {
    "LoadState": "loaded",
    "Type": "notify",
    "KillMode": "mixed",
    "Restart": "always",
    "Delegate": "yes",
    "WatchdogUSec": "3min",
}


@pytest.fixture
def healthy(stage: Stage) -> Stage:
    """A crontab with two agents and a task that has just succeeded."""
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, JOBS, stage.now + timedelta(minutes=20))
    stage.task("backup", "*/10 * * * *")
    web_1 = stage.node("web-1")
    stage.node("web-2")
    stage.forward(minutes=10)
    for node in (web_1, "web-2-00000000"):
        stage.renew(node)
    for run in stage.take(web_1):
        stage.finish(web_1, run.id)
    return stage


def examine(stage: Stage, *, deep: bool = False) -> list[Finding]:
    """Return the findings, without that of the tests' own server: it runs with fsync off."""
    return [each for each in Doctor(stage.database).examine(deep=deep) if each.code != "durability"]


def codes(stage: Stage) -> list[str]:
    return [finding.code for finding in examine(stage)]


def test_a_healthy_crontab_has_no_findings(healthy: Stage) -> None:
    assert examine(healthy, deep=True) == []


# What the nodes and tasks show, each in an otherwise healthy crontab ------------------------------------


def set_node(stage: Stage, **values: Any) -> None:
    stage.execute(update(nodes).where(nodes.c.name == "web-2").values(values))


def stop_agents(stage: Stage) -> None:
    for node in ("web-1-00000000", "web-2-00000000"):
        stage.sign_off(node)


def require_what_no_node_has(stage: Stage) -> None:
    stage.task("render", "@every 1h", require=("gpu",))


def be_late(stage: Stage) -> None:
    set_node(stage, alive_until=stage.now - timedelta(seconds=1))


def fail_often(stage: Stage) -> None:
    task = stage.task("broken", "@yearly")
    for _ in range(3):
        run = stage.crontab.run(task)
        stage.take("web-1-00000000")
        stage.finish("web-1-00000000", run.id, RunState.FAILED)
    stage.sql("UPDATE runs SET dead_at = NULL")


def have_a_dead_letter(stage: Stage) -> None:
    task = stage.task("broken", "@yearly")
    run = stage.crontab.run(task)
    stage.take("web-1-00000000")
    stage.finish("web-1-00000000", run.id, RunState.FAILED)


def never_start(stage: Stage) -> None:
    task = stage.task("new", "0 0 * * *")
    stage.set_task(task.id, changed_at=stage.now - timedelta(days=40))


def take_too_long(stage: Stage) -> None:
    task = stage.task("slow", "*/10 * * * *")
    stage.set_task(task.id, changed_at=stage.now)
    ended, totals = stage.now - timedelta(days=2), Totals()
    for _ in range(10):
        totals.add(RunState.SUCCEEDED, ended, ended - timedelta(minutes=15), ended)
    with stage.database.write() as connection:
        daily_statistics.write(connection, [daily_statistics.TaskDay(task.id, day_of(ended), "slow", totals)])


def start_together(stage: Stage) -> None:
    for number in range(40):
        task = stage.task(f"report-{number}", "0 3 * * *")
        values = {"state": "succeeded", "started_at": stage.now - timedelta(minutes=2)}
        stage.insert_run(task_id=task.id, task=task.name, finished_at=stage.now, **values)


def suspend(stage: Stage) -> None:
    stage.set_task(stage.task("odd", "@hourly").id, error="nobody can read it")


def drift(stage: Stage) -> None:
    task = stage.task("owned", "@hourly")
    stage.set_task(task.id, source="shop/cron", applied=digest(task.definition()), timeout=60.0)


def fail_maintenance(stage: Stage) -> None:
    stage.sql("UPDATE maintenance_jobs SET error = 'no bucket' WHERE name = 'archive'")


def have_old_runs(stage: Stage) -> None:
    insert_history(stage, [{"task_id": 999, "task": "gone", "days": 60}])
    sum_up_all(stage)
    stage.sql("UPDATE maintenance_jobs SET ran_at = due_at")


def neglect_maintenance(stage: Stage) -> None:
    with stage.database.write() as connection:
        due = update(maintenance_jobs).where(maintenance_jobs.c.name == "statistics")
        connection.execute(due.values(due_at=stage.now - timedelta(days=2)))


def neglect_watch(stage: Stage) -> None:
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, ["watch"], stage.now)
        ran = {"ran_at": stage.now - timedelta(seconds=110), "due_at": stage.now - timedelta(seconds=95)}
        connection.execute(update(maintenance_jobs).where(maintenance_jobs.c.name == "watch").values(ran))


def give_up_messages(stage: Stage) -> None:
    with stage.database.write() as connection:
        about = {"kind": "undeliverable", "subject": "channel:ops"}
        connection.execute(insert(alerts).values(**about, opened_at=stage.now, last_at=stage.now))


CASES: dict[str, Callable[[Stage], None]] = {
    "no-agent": stop_agents,
    "unserved": require_what_no_node_has,
    "node-late": be_late,
    "drained": lambda stage: set_node(stage, draining=True),
    "no-channel": lambda stage: stage.set_task(1, notify=("ops",)),
    "undeliverable": give_up_messages,
    "clock-skew": lambda stage: set_node(stage, clock_offset=-7.5),
    "tzdata-differs": lambda stage: set_node(stage, tzdata="2024a"),
    "version-differs": lambda stage: set_node(stage, version="0.1"),
    "never-succeeded": fail_often,
    "dead-letters": have_a_dead_letter,
    "never-run": never_start,
    "drifted": drift,
    "overlaps": take_too_long,
    "crowd": start_together,
    "suspended": suspend,
    "maintenance-failed": fail_maintenance,
    "maintenance-behind": neglect_maintenance,
    "watch-late": neglect_watch,
    "retention-behind": have_old_runs,
}


@pytest.mark.parametrize("code", CASES)
def test_the_doctor_finds_exactly_this(healthy: Stage, code: str) -> None:
    CASES[code](healthy)
    assert codes(healthy) == [code]


def test_tasks_that_no_node_serves_are_named(healthy: Stage) -> None:
    CASES["unserved"](healthy)
    (finding,) = examine(healthy)
    assert finding.subjects == ["render"]
    assert finding.problem.endswith("these tasks: render")


def test_channels_that_no_agent_has_are_named_with_what_to_type(healthy: Stage) -> None:
    healthy.task("report", notify=("mailto:ann@example.org", "ops"), notify_on=("output",))
    healthy.task("copy", notify=("mailto:bob",))
    healthy.set_task(1, notify=("ops",))
    SharedSettings(healthy.crontab).set("notify.fallback", "mailto:bob")
    ops, mail = [each for each in examine(healthy) if each.code == "no-channel"]
    assert ops.sentence == (
        "no running agent has the channel ops; what backup and 1 other should send waits; give an agent the"
        " table [notify.ops] in its config file and restart it; `dcron channel list` shows all"
    )
    assert mail.problem == "no running agent can send mail to mailto:ann@example.org, mailto:bob"
    assert '[notify.mail] with kind = "mail"' in mail.advice
    set_node(healthy, channels=("ops", "mailto"))
    assert "no-channel" not in codes(healthy)


def test_a_failed_maintenance_job_says_why(healthy: Stage) -> None:
    CASES["maintenance-failed"](healthy)
    (finding,) = examine(healthy)
    assert finding.problem.endswith("failed: archive (no bucket)")


# The database and this machine --------------------------------------------------------------------------


def found(findings: "Any") -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("journal", {"journal": "wal"}),
        ("network-fs", {"is_networked": True, "file_system": "nfs4"}),
        ("file-mode", {"others": "its group can write it"}),
        ("disk", {"free": 10**9}),
    ],
)
def test_a_file_is_examined(code: str, facts: dict[str, Any]) -> None:
    assert found(database.examine_file(GOOD_FILE)) == []
    assert found(database.examine_file(replace(GOOD_FILE, **facts))) == [code]


@pytest.mark.parametrize(
    ("code", "facts", "oldest"),
    [
        ("standby", {"is_standby": True}, 0),
        ("durability", {"is_durable": False}, 0),
        ("old-transaction", {}, 3600),
        ("autovacuum", {"autovacuum": False}, 0),
        ("autovacuum", {"tables": (TableRows("runs", 60_000, 40_000),)}, 0),
        ("connections", {"connections": 90}, 0),
        ("wraparound", {"oldest_id": 1_500_000_000}, 0),
    ],
)
def test_a_server_is_examined(code: str, facts: dict[str, Any], oldest: float) -> None:
    assert found(database.examine_server(GOOD_SERVER, 1.0)) == []
    assert found(database.examine_server(replace(GOOD_SERVER, **facts), oldest)) == [code]


@pytest.mark.parametrize(
    ("code", "facts"),
    [("unverified-server", {"sslmode": "require"}), ("open-schema", {"distrusted": "eve owns it"})],
)
def test_a_connection_is_examined(code: str, facts: dict[str, Any]) -> None:
    assert found(database.unsafe_connection(GOOD_CONNECTION)) == []
    assert found(database.unsafe_connection(replace(GOOD_CONNECTION, **facts))) == [code]


@pytest.mark.parametrize(
    "facts",
    [
        {"KillMode": "control-group"},
        {"Restart": "no"},
        {"Type": "exec"},
        {"Delegate": "no"},
        {"WatchdogUSec": "0"},
    ],
)
def test_the_unit_is_examined(facts: dict[str, str]) -> None:
    assert found(host.examine(GOOD_UNIT)) == []
    assert found(host.examine(GOOD_UNIT | facts)) == ["unit"]


def test_a_file_that_others_can_change_is_found(sqlite_stage: Stage) -> None:
    path = sqlite_stage.database.address.path
    assert path
    path.chmod(0o666)
    assert "file-mode" in codes(sqlite_stage)


@pytest.mark.slow
def test_a_damaged_file_is_found(sqlite_stage: Stage) -> None:
    for number in range(200):
        sqlite_stage.insert_run(task=f"task-{number}")
    path = sqlite_stage.database.address.path
    assert path
    sqlite_stage.database.close()
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096)
    with closing(open_database(f"sqlite:///{path}")) as database, database.read() as connection:
        assert database.damage(connection) is not None


def test_a_server_with_an_old_transaction_is_found(stage_on_postgres: Stage) -> None:
    url = stage_on_postgres.database.address.url.render_as_string(hide_password=False)
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as other:
        other.execute("SELECT 1")
        with stage_on_postgres.database.read() as connection:
            connection.execute(text("SELECT pg_sleep(0.2)"))
            assert (stage_on_postgres.database.oldest_transaction(connection) or 0) > 0.1
            condition = stage_on_postgres.database.condition(connection)
    assert isinstance(condition, ServerCondition)
    assert (condition.is_standby, condition.autovacuum) == (False, True)
    assert 2 <= condition.connections <= condition.most_connections
    assert "runs" in {table.name for table in condition.tables}


@pytest.fixture
def stage_on_postgres(stage: Stage) -> Stage:
    """A crontab on Postgres."""
    if stage.database.is_sqlite:
        pytest.skip("of Postgres alone")
    return stage


def test_tables_of_another_version_are_the_finding(stage: Stage) -> None:
    stage.sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    assert codes(stage) == ["schema"]


def test_each_finding_is_one_line(healthy: Stage) -> None:
    CASES["unserved"](healthy)
    (finding,) = examine(healthy)
    assert finding.sentence.count(";") >= 2
    assert "\n" not in finding.sentence
