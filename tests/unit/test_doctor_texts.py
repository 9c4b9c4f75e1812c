"""The texts of `dcron doctor`, one of each kind."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace as Facts
from typing import Any

from dcron.database import FileCondition, Protection, ServerCondition, TableRows
from dcron.model import Node, Task
from dcron.presentation.doctor import TEXTS, Finding
from dcron.services.doctor import database, fleet, host, maintenance, policies, tasks
from dcron.services.node_rules import RootWithoutPolicy
from dcron.store.nodes.outages import Outage
from dcron.store.tasks.used_channels import Users

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
GOLDEN = Path(__file__).parent.parent / "data" / "doctor.txt"
HOUR = timedelta(hours=1)


def node(name: str, **facts: Any) -> Node:
    known: dict[str, Any] = dict.fromkeys(field for field in Node.__dataclass_fields__)
    known |= {"id": f"{name}-00000000", "name": name, "slots": 4, "version": "0.2", "tzdata": "2026a"}
    known |= {"started_at": NOON, "alive_until": NOON + HOUR, "draining": False, "running": 0}
    return Node(**{**known, "channels": (), **facts})


def figures(**facts: Any) -> Any:
    known: dict[str, Any] = {"now": NOON, "frozen": None, "dead_letters": 0, "slots": 1, "of_tasks": []}
    return Facts(**{**known, "tasks": {"active": 2, "suspended": 0}, **facts})


def task(name: str, **facts: Any) -> Any:
    known = {"name": name, "id": 1, "last_success": NOON, "failures": 0, "next_run": None}
    return Facts(**{**known, "last_duration": None, **facts})


def a_task(name: str, **facts: Any) -> Task:
    known: dict[str, Any] = {"schedule": "0 * * * *", "timezone": "UTC", "command": "true"}
    known |= dict.fromkeys(("paused_reason", "paused_by", "paused_at", "paused_until", "error", "changed_by"))
    known |= {"id": 1, "version": 1, "planned_version": 1, "enabled": True, "changed_at": NOON}
    return Task(name=name, **{**known, "once": False, **facts})


def job(name: str, **facts: Any) -> Any:
    return Facts(**{"name": name, "failed": False, "due_at": NOON, "ran_at": None, **facts})


def everything() -> Iterator[Finding]:
    users = {"ops": Users(["backup"], 2), "mailto:a@b": Users(["mail"], 1), "mailto:b@c": Users(["x"], 1)}
    yield from fleet.examine_channels(users, [node("web-1")])
    yield from fleet.examine_failing({"ops": NOON})
    many = [node(f"web-{number}", clock_offset=-2.5 * number, version=str(number)) for number in range(1, 6)]
    yield from fleet.examine_differences([*many, node("old", tzdata="2025a")])
    file = FileCondition(Path("/srv/dcron.db"), 2**30, 2**20, "nfs4", True, "wal", False, "3.45.0", "all can")
    yield from database.examine_file(file)
    yield Finding("integrity", ["/srv/dcron.db"], damage="row 7 is missing")
    yield from _of_servers()
    freeze = Facts(id=3, reason="the fair", created_by="ann", from_at=NOON, until_at=None)
    yield from fleet.examine(figures(frozen=freeze), [], [])
    drained = node("web-3", draining=True)
    late = node("web-2", alive_until=NOON - HOUR)
    yield from fleet.examine(figures(), [node("web-1"), late, drained], ["a", "b", "c", "d", "e"])
    yield from host.examine_spool(Path("/tmp/spool"), "tmpfs", ["a"])
    unit = {"KillMode": "process", "Restart": "no", "Type": "exec", "Delegate": "no"}
    yield from host.examine(unit)
    yield from host.examine({"Type": "notify", "WatchdogUSec": "0"})
    leased = [node("web-1", lease=60.0)]
    for seconds in ((45.0,), (51.0,), (55.0, 70.0, 58.0), (900.0,)):
        yield from fleet.examine_leases(leased, [Outage(NOON, f"web-{each:g}", each) for each in seconds])
    jobs = [job("prune", failed=True), job("archive", failed=True), job("watch", due_at=NOON - 50 * HOUR)]
    yield from maintenance.examine(jobs, {"prune": "no\n bucket"}, NOON)
    yield from maintenance.examine_watch(jobs, NOON)
    yield from maintenance.examine_history(NOON - 75 * HOUR, NOON)
    yield from tasks.examine_owned([a_task("drifted", source="shop", applied="other")])
    yield from _of_tasks()
    yield from _of_policies()


def _of_servers() -> Iterator[Finding]:
    tables = (TableRows("runs", 10, 50_000), TableRows("output", 10, 90_000))
    for autovacuum in (False, True):
        server = ServerCondition(True, 97, 90, 1_500_000_000, autovacuum, False, tables)
        yield from database.examine_server(server, 3600.0)
    yield Finding("not-postgres", problem="is CockroachDB")
    yield Finding("pooler")
    connection = Protection("TLSv1.3", "require", None, False, "public", "eve can create in it")
    yield from database.unsafe_connection(connection)


def _of_tasks() -> Iterator[Finding]:
    crowd = [task(f"t{number}", next_run=NOON + HOUR, last_duration=90.0) for number in range(3)]
    failing = task("never", last_success=None, failures=3)
    counts = {"active": 3, "suspended": 2}
    yield from tasks.examine(figures(tasks=counts, dead_letters=1, of_tasks=[failing, *crowd]))
    hourly = a_task("slow", changed_at=NOON - 50 * HOUR)
    yield from tasks.examine_unstarted([hourly], NOON)
    yield from tasks.examine_durations([hourly], {1: 7200.0}, NOON)


def _of_policies() -> Iterator[Finding]:
    broken = node("web-1", policy_error="/etc/dcron/policy.toml, line 3: unknown key")
    without = [RootWithoutPolicy(node("web-2"), None), RootWithoutPolicy(node("web-3"), NOON.date())]
    yield from policies.examine([broken], without, ["df", "slow"], {"df": "web-1's policy: no"})


def test_each_finding_has_its_texts() -> None:
    assert {each.code for each in everything()} | {"schema"} == {code.partition("/")[0] for code in TEXTS}
    found = [f"{each.code} {list(each.subjects)}\n  {each.sentence}" for each in everything()]
    assert "\n".join(found) + "\n" == GOLDEN.read_text()
