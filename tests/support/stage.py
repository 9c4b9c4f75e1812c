"""A database with its tables, a fixed clock, and the acts of agents, step by step."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Executable, insert, select, text, update

from dcron.database import open_database
from dcron.model import Definition, Run, RunState, Task
from dcron.schema.tables import crontab, runs
from dcron.services.crontab import Crontab
from dcron.store.claims import claims, finishing
from dcron.store.claims.claims import ClaimResult
from dcron.store.claims.finishing import RunResult
from dcron.store.claims.snapshot import take_snapshot
from dcron.store.nodes import rows as nodes
from dcron.store.planning import planning
from dcron.store.runs import blocked, unclaimable
from dcron.store.runs.candidates import Capacity, ClaimedRun
from dcron.store.runs.rows import COLUMNS, run_from
from dcron.store.tasks import rows as tasks
from dcron.store.upkeep import expiry, reaping
from tests.support.definitions import node_row

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
"""The start of every test: a Tuesday."""
LEASE = 60.0


class Stage:
    """One shared crontab under test."""

    def __init__(self, url: str) -> None:
        self.now = NOON
        self.database = open_database(url, clock=lambda: self.now)
        self.crontab = Crontab(self.database, "ann@desk")

    def forward(self, **duration: float) -> datetime:
        """Let time pass."""
        self.now += timedelta(**duration)
        return self.now

    def task(self, name: str, schedule: str = "*/10 * * * *", **fields: Any) -> Task:
        """Add a task and plan it."""
        return self.crontab.add(definition(name, schedule, **fields))

    def insert_task(self, **values: Any) -> int:
        """Insert a task by hand, past all checks except the database's."""
        line = {"name": "by-hand", "schedule": "*/10 * * * *", "command": "true", **values}
        columns = ", ".join(f'"{name}"' for name in line)
        places = ", ".join(f":{name}" for name in line)
        with self.database.write() as connection:
            connection.execute(text(f"INSERT INTO crontab ({columns}) VALUES ({places})"), line)
            found = connection.execute(select(crontab.c.id).where(crontab.c.name == line["name"]))
            return int(found.scalar_one())

    def insert_run(self, **values: Any) -> int:
        """Insert a row of `runs`; by default it waits and is due now."""
        row = {"task_id": 1, "task": "a", "trigger": "manual", "state": "waiting", "spec": {}}
        row |= {"scheduled_for": self.now, "due_at": self.now, **values}
        with self.database.write() as connection:
            return int(connection.execute(insert(runs).values(row).returning(runs.c.id)).scalar_one())

    def set_task(self, task_id: int, **values: Any) -> None:
        """Change columns of a task by hand."""
        self.execute(update(crontab).where(crontab.c.id == task_id).values(values))

    def execute(self, statement: Executable, *values: Any) -> None:
        """Execute a statement in a transaction of its own."""
        with self.database.write() as connection:
            connection.execute(statement, *values)

    def sql(self, statement: str, **values: Any) -> None:
        """Run a statement, as a person would at the database's own prompt."""
        self.execute(text(statement), values)

    # What agents do -----------------------------------------------------------------------------

    def expire(self) -> int:
        with self.database.write() as connection:
            return expiry.expire(connection, self.database, self.now, 100)

    def node(
        self, name: str = "web-1", lease: float = LEASE, suffix: str = "0" * 8, slots: int = 8, **facts: Any
    ) -> str:
        """Start a node; return its ID."""
        node = node_row(name, self.now, lease, id=f"{name}-{suffix}", slots=slots, **facts)
        with self.database.write() as connection:
            nodes.register(connection, node)
        return node.id

    def renew(self, node_id: str) -> bool:
        """Renew the node's lease; return whether it still had it."""
        with self.database.write() as connection:
            return nodes.renew(connection, node_id, self.now, LEASE) is not None

    def plan(self) -> int:
        """Plan the tasks that need it; return how many there were."""
        with self.database.write() as connection:
            number, _ = planning.plan_unplanned(connection, self.now, 100)
            return number

    def has_to_plan(self) -> bool:
        with self.database.read() as connection:
            return take_snapshot(connection, self.database, "no-node").to_plan

    def claim(self, node_id: str, limit: int = 10, **offered: Any) -> list[ClaimedRun]:
        """Claim as agents do: again at once while runs that cannot start are moved out of the way."""
        while (batch := self.claim_batch(node_id, limit, **offered)).moved_on and not batch.claimed:
            pass
        return batch.claimed

    def claim_batch(self, node_id: str, limit: int = 10, **offered: Any) -> ClaimResult:
        """Make one claim as a node with this offer, from the lanes it serves; return each result."""
        offered.setdefault("free", offered.get("capacity", {}))
        offer = Capacity(node_id=node_id, slots=limit, **offered)
        with self.database.write(starts=True) as connection:
            lanes = [head.lane for head in planning.heads(connection) if offer.serves(head.lane)]
            batch = claims.claim(connection, self.database, offer, self.now, lanes)
        if batch.blocked:
            with self.database.write() as connection:
                blocked.unblock(connection, [run.task.id for run, _ in batch.blocked], self.now)
        return batch

    def start(self, node_id: str, claimed: Sequence[ClaimedRun]) -> list[ClaimedRun]:
        with self.database.write() as connection:
            return claims.start(connection, self.database, node_id, self.now, claimed)

    def take(self, node_id: str, limit: int = 10, **offered: Any) -> list[ClaimedRun]:
        """Claim and start."""
        return self.start(node_id, self.claim(node_id, limit, **offered))

    def finish(
        self, node_id: str, run_id: int, state: RunState = RunState.SUCCEEDED, **facts: Any
    ) -> set[int]:
        with self.database.write() as connection:
            ended = RunResult(run_id, state, facts.pop("finished_at", self.now), **facts)
            return finishing.finish(connection, self.database, node_id, [ended], self.now)

    def release(self, node_id: str) -> int:
        with self.database.write() as connection:
            return claims.release(connection, [node_id])

    def sign_off(self, node_id: str) -> None:
        with self.database.write() as connection:
            reaping.sign_off(connection, self.database, node_id, self.now)

    def reap(self) -> tuple[list[str], list[int]]:
        with self.database.write() as connection:
            living = nodes.listing(connection, self.now)
            over = {node.id: node.alive_until for node in living if node.alive_until < self.now}
            return reaping.reap(connection, self.database, self.now, over)

    def cancel_requests(self, node_id: str) -> dict[int, str]:
        with self.database.read() as connection:
            return take_snapshot(connection, self.database, node_id).cancel_requests

    def settle_orphans(self) -> int:
        with self.database.write(starts=True) as connection:
            lanes = [head.lane for head in planning.heads(connection)]
            return unclaimable.skip_orphans(connection, lanes, self.now, 100)

    def fail_refused(self) -> list[int]:
        with self.database.write(starts=True) as connection:
            lanes = [head.lane for head in planning.heads(connection)]
            return finishing.fail_refused(connection, self.database, lanes, self.now, 100)

    # What is then there -------------------------------------------------------------------------

    def runs(self, task_id: int | None = None, *states: RunState) -> list[Run]:
        """Return the runs of a task, or of all, the oldest first."""
        query = select(*COLUMNS).order_by(runs.c.id)
        if task_id is not None:
            query = query.where(runs.c.task_id == task_id)
        if states:
            query = query.where(runs.c.state.in_(states))
        with self.database.read() as connection:
            return [run_from(row) for row in connection.execute(query)]

    def next_run(self, task: Task) -> Run:
        """Return the task's next run, which there must be."""
        found = self.find_next_run(task)
        assert found, f"{task.name} has no next run"
        return found

    def find_next_run(self, task: Task) -> Run | None:
        """Return the task's next run, if it has one."""
        waiting = self.runs(task.id, RunState.WAITING)
        return waiting[0] if waiting else None

    def saved(self, task_id: int) -> Task:
        """Return the task as it is now."""
        with self.database.read() as connection:
            task = tasks.by_id(connection, task_id)
        assert task
        return task


def definition(name: str = "backup", schedule: str = "*/10 * * * *", **fields: Any) -> Definition:
    """Return the definition of a task."""
    values = {"timezone": "UTC", "command": "true", **fields}
    return Definition(name=name, schedule=schedule, **values)


def at(clock_time: str) -> datetime:
    """Return a time of the day of the tests, such as `12:10`."""
    return datetime.fromisoformat(f"2027-06-01T{clock_time}").replace(tzinfo=UTC)
