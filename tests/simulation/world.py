"""One seeded history of a cluster: what happens, in what order, and that everything holds after each step."""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from dcron.database import open_database
from dcron.errors import Conflict, NotFound, Refused, UsageError
from dcron.model import Definition, RunState
from dcron.policy.starting.freezes import state_of
from dcron.schema.tables import nodes
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.services.freezes import Freezes
from dcron.services.runs.dead_letters import DeadLetters
from dcron.services.runs.triggers import Triggers
from dcron.store import freezes
from dcron.store.claims import unheard
from dcron.values.lists import RunFilter, Term
from tests.simulation import invariants
from tests.simulation.cluster import (
    BEGINNING,
    LONGEST_LAG,
    SimulatedNode,
    Start,
    Time,
    faulty_database,
    settings,
)

QUEUE, QUEUE_LIMIT = "mail", 2
LINES: tuple[dict[str, Any], ...] = (
    {"name": "skip", "schedule": "* * * * *"},
    {"name": "queue", "schedule": "*/2 * * * *", "overlap": "queue"},
    {"name": "replace", "schedule": "@every 90s", "overlap": "replace", "priority": "high"},
    {"name": "three", "schedule": "@every 10s", "max_running": 3, "queue": QUEUE},
    {"name": "mail", "schedule": "* * * * *", "max_running": None, "queue": QUEUE, "priority": "low"},
    {"name": "berlin", "schedule": "30 2 * * *", "timezone": "Europe/Berlin"},
    {"name": "delay", "schedule": "@delay 30s"},
    {"name": "each", "schedule": "*/10 * * * *", "every_node": True},
    {"name": "retry", "schedule": "*/3 * * * *", "tries": 3, "backoff": 5.0, "on_lost": "retry"},
    {"name": "late", "schedule": "*/4 * * * *", "deadline": 90.0, "require": ("ssd",)},
    {"name": "all", "schedule": "*/5 * * * *", "catch_up": "all", "catch_up_window": 3600.0},
    {"name": "never", "schedule": "*/5 * * * *", "catch_up": "skip"},
    {"name": "spread", "schedule": "*/6 * * * *", "jitter": 45.0},
    {"name": "gpu", "schedule": "*/2 * * * *", "need": {"gpu": 1.0}},
    {"name": "gpus", "schedule": "*/7 * * * *", "need": {"gpu": 2.0}},
    {"name": "push", "schedule": "@on push", "tries": 2},
    {"name": "extract", "schedule": "*/15 * * * *"},
    {"name": "left", "schedule": "@after extract", "tries": 2},
    {"name": "right", "schedule": "@after extract"},
    {"name": "tidy", "schedule": "@after left", "every_node": True},
    {"name": "deploy", "schedule": "*/2 * * * *", "user": "deploy"},
    {"name": "www", "schedule": "*/4 * * * *", "user": "www", "tries": 2, "backoff": 5.0},
    {"name": "other", "schedule": "7 * * * *"},
    {"name": "keep", "schedule": "*/2 * * * *", "on_disconnect": "keep", "timeout": 600.0},
    {
        "name": "keep-queue",
        "schedule": "*/20 * * * *",
        "overlap": "queue",
        "on_disconnect": "keep",
        "timeout": 300.0,
    },
    {
        **{"name": "keep-retry", "schedule": "*/4 * * * *", "on_disconnect": "keep", "timeout": 150.0},
        **{"on_lost": "retry", "tries": 3, "backoff": 5.0},
    },
    {"name": "keep-forever", "schedule": "*/10 * * * *", "on_disconnect": "keep"},
    {"name": "load", "schedule": "@after left,right,other"},
)
PASSES = (1, 3, 10, 31, 61)
NODES = 3
HEALING = 15
"""Rounds, of half a minute each, in which all that is due has to get done."""


class World:
    """A crontab, some nodes and some people; `step` lets one thing happen."""

    def __init__(self, url: str, seed: int, faults: float = 0.02) -> None:
        self.chance = random.Random(seed)
        self.time = Time()
        self.database = open_database(url, clock=self.time)
        self.faulty = faulty_database(url, self.time, self.chance)
        self.faults = faults
        self.crontab = Crontab(self.database, "ann@desk")
        self.ledger: list[Start] = []
        self.nodes: list[SimulatedNode] = []
        self.trace: list[str] = []
        self.given_up: set[int] = set()
        """The unheard runs that a person has declared lost."""
        self._finals: dict[int, tuple[Any, ...]] = {}
        self._born = 0
        self._started_before: dict[int, set[int]] = {}
        """By freeze, the runs whose start was recorded before it."""
        Fleet(self.crontab).set_queue(QUEUE, QUEUE_LIMIT)
        common = {"timezone": "UTC", "command": "true"}
        self.crontab.import_tasks([Definition(**{**common, **line}) for line in LINES])
        self.written_at = {task.id: self.time.now for task in self.crontab.tasks()}
        for _ in range(NODES):
            self.start_node()
        self.faulty.faults = faults

    def close(self) -> None:
        self.database.close()
        self.faulty.close()

    def step(self) -> None:
        """One thing happens, then everything is checked."""
        happenings: list[tuple[float, Callable[[], object]]] = [
            (30, self.let_time_pass),
            (40, lambda: self._on_some_node(lambda node: node.step())),
            (15, lambda: self._on_some_node(lambda node: node.beat())),
            (15, lambda: self._on_some_node(lambda node: node.record())),
            (10, lambda: self._on_some_node(lambda node: node.receive())),
            (8, self.let_life_go_on),
            (1.5, self.kill_node),
            (1, self.kill_host),
            (2, self.cut_node),
            (8, self.be_cut_off),
            (0.5, self.cut_all),
            (4, self.link_node),
            (2, self.let_clock_lag),
            (1, self.give_up),
            (2, self.freeze_node),
            (4, self.thaw_node),
            (1, lambda: self._on_some_node(lambda node: node.stop())),
            (6, self.start_node),
            (0.5, self.be_down),
            (0.6, self.freeze_crontab),
            (3, self.thaw_crontab),
            (10, self.let_people_act),
        ]
        weights, acts = zip(*happenings, strict=True)
        act = self.chance.choices(acts, weights)[0]
        act()
        self.check()

    def let_time_pass(self, seconds: float | None = None) -> None:
        seconds = seconds or self.chance.choice(PASSES)
        self._note(f"{seconds:g}s pass")
        self.time.now += timedelta(seconds=seconds)
        for node in self.nodes:
            node.pass_deadline()

    def start_node(self) -> None:
        """Start a node on a host that has none; it delivers what earlier ones have left there."""
        free = sorted({*range(NODES)} - {node.host for node in self._living()})
        if not free:
            return
        host = self.chance.choice(free)
        self._born += 1
        of_node = settings(f"web-{self._born}", self.chance)
        node_id = f"{of_node.name}-{self.chance.getrandbits(32):08x}"
        own = {of_node.account.name}
        known = frozenset(own | {name for name in ("deploy", "www") if self.chance.random() < 0.6})
        node = SimulatedNode(self.faulty, self.time, self.chance, self.ledger, of_node, node_id, known, host)
        have = f"{of_node.slots} slots, {of_node.tags}, {of_node.capacity}"
        self._note(f"{node.id} starts on host {host} with {have}")
        faults, self.faulty.faults = self.faulty.faults, 0.0
        for dead in self.nodes:
            if dead.host == host and not dead.is_alive and dead.has_spool:
                dead.deliver_spool()
        node.register()
        self.faulty.faults = faults
        self.nodes.append(node)

    def kill_node(self) -> None:
        self._on_some_node(lambda node: node.kill(), "is killed")

    def kill_host(self) -> None:
        self._on_some_node(lambda node: node.kill_host(), "loses its power")

    def cut_node(self) -> None:
        self._on_some_node(lambda node: setattr(node, "is_cut", True), "is cut off")

    def be_cut_off(self) -> None:
        """A node with kept commands is away for longer than its lease, the others are not."""
        keeping = [node for node in self._living() if any(each.keeps for each in node.commands.values())]
        if not keeping:
            return
        away = self.chance.choice(keeping)
        away.is_cut = True
        self._note(f"{away.id} is cut off for long")
        for _ in range(self.chance.choice([6, 6, 24])):
            self.let_time_pass(20)
            for node in self._living():
                if node is not away and not node.is_frozen and not node.is_cut:
                    self._do_all(node)
            self.check()
        if self.chance.random() < 0.7:
            away.is_cut = False
            self._note(f"{away.id} is back")

    def cut_all(self) -> None:
        """The database is away."""
        self._note("the database is away")
        for node in self._living():
            node.is_cut = True

    def link_node(self) -> None:
        if cut := [node for node in self._living() if node.is_cut]:
            node = self.chance.choice(cut)
            node.is_cut = False
            self._note(f"{node.id} reaches the database again")

    def let_clock_lag(self) -> None:
        def lag(node: SimulatedNode) -> None:
            node.lag = min(LONGEST_LAG, node.lag + self.chance.uniform(0, LONGEST_LAG))

        self._on_some_node(lag, "has a clock that falls behind")

    def give_up(self) -> None:
        """A person says that an unheard run is lost."""
        with self.database.read() as connection:
            found = sorted(connection.scalars(unheard.every()))
        if found:
            run_id = self.chance.choice(found)
            self._note(f"run {run_id} is given up")
            self.given_up.add(run_id)
            self.crontab.give_up(run_id)

    def freeze_node(self) -> None:
        self._on_some_node(lambda node: setattr(node, "is_frozen", True), "freezes")

    def thaw_node(self) -> None:
        if frozen := [node for node in self._living() if node.is_frozen]:
            node = self.chance.choice(frozen)
            node.is_frozen = False
            self._note(f"{node.id} thaws")

    def freeze_crontab(self) -> None:
        """Freeze the crontab, from now or later, with an end or without one."""
        begin = self.time.now + timedelta(seconds=self.chance.choice([31, 300]))
        from_at = begin if self.chance.random() < 0.3 else None
        lasts = timedelta(seconds=self.chance.choice([20, 400, 4 * 3600]))
        until_at = (from_at or self.time.now) + lasts if self.chance.random() < 0.7 else None
        made = Freezes(self.crontab).freeze(from_at=from_at, until_at=until_at, reason="a reason")
        self._started_before[made.id] = self._started()
        self._note(f"freeze {made.id} from {from_at} until {until_at}")

    def thaw_crontab(self) -> None:
        found = Freezes(self.crontab).listing(100)
        if still := [each for each in found if state_of(each, self.time.now) != "over"]:
            freeze = self.chance.choice(still)
            Freezes(self.crontab).thaw([freeze.id])
            self._note(f"freeze {freeze.id} is thawed")

    def _started(self) -> set[int]:
        with self.database.read() as connection:
            return {row.id for row in invariants.read_rows(connection) if row.started_at}

    def let_life_go_on(self) -> None:
        """Some undisturbed time: each awake node does what agents do."""
        for _ in range(self.chance.randint(1, 4)):
            self.let_time_pass(self.chance.choice((5, 10, 20)))
            for node in self._living():
                if not node.is_frozen:
                    self._do_all(node)

    def _do_all(self, node: SimulatedNode) -> None:
        """What there is for the node to do."""
        node.record()
        node.beat()
        for _ in range(30):
            if not node.is_alive or (node.step() > 0 and not node.record()):
                break

    def be_down(self) -> None:
        """No node is there for an hour, or for five."""
        for node in self._living():
            node.kill()
        self.let_time_pass(self.chance.choice([3600, 5 * 3600]))

    def let_people_act(self) -> None:
        act = self.chance.choice(
            [
                self._pause,
                self._resume,
                self._edit,
                self._run,
                self._cancel,
                self._retry,
                self._emit,
                self._again,
            ]
        )
        try:
            act()
        except (Refused, Conflict, NotFound, UsageError) as error:
            self._note(f"refused: {error}")

    def heal(self) -> None:
        """No more faults: whatever is due gets done, and nothing stays blocked."""
        self._note("everything heals")
        self.faulty.faults = 0.0
        self.check()
        for node in self.nodes:
            node.is_frozen = node.is_cut = False
        for freeze in Freezes(self.crontab).listing(100):
            if state_of(freeze, self.time.now) != "over":
                Freezes(self.crontab).thaw([freeze.id])
        for task in self.crontab.tasks():
            if not task.enabled:
                self.crontab.resume(task)
        for _ in range(HEALING):
            self.start_node()
            for _ in range(3):  # what is watched is forgotten by nodes that beat less often
                self.let_time_pass(10.5)
                for node in self._living():
                    node.beat()
            for node in self._living():
                self._do_all(node)
        self.check()
        for node in self._living():
            node.record()
        with self.database.read() as connection:
            rows = invariants.read_rows(connection)
        invariants.check_truth(rows, {run: state for node in self.nodes for run, state in node.truth.items()})

    def check(self) -> None:
        """Everything that must hold at any time."""
        with self.database.read() as connection:
            rows = invariants.read_rows(connection)
            invariants.check_lines(connection, rows)
            frozen = freezes.newest(connection)
            dead = set(connection.scalars(select(nodes.c.id).where(nodes.c.died_at.is_not(None))))
        invariants.check_freezes(frozen, self._started_before, rows, {start.run_id for start in self.ledger})
        invariants.check_finals(self._finals, rows)
        invariants.check_refusals(rows)
        invariants.check_starts(self.ledger)
        # Nodes are distinguished where a task runs on each of them.
        limits = {line["name"]: line.get("max_running", 1) for line in LINES if not line.get("every_node")}
        heard = [start for start in self.ledger if start.run_id not in self.given_up]
        invariants.check_limits(heard, self.time.now, limits)
        invariants.check_unheard(rows, dead)
        now = self.time.now
        alive = {
            run: node.id for node in self.nodes for run, each in node.commands.items() if each.ends_at > now
        }
        invariants.check_agreement(rows, alive, self.given_up)
        needs = {line["name"]: line.get("need", {}) for line in LINES}
        for node in self.nodes:
            needed = [needs[command.start.task] for command in node.commands.values()]
            invariants.check_account(node.settings.account, [each.user for each in node.commands.values()])
            invariants.check_capacity(node.id, needed, node.settings.capacity)
            invariants.check_slots(node.id, len(needed), node.settings.slots)
        queue_of = {line["name"]: line.get("queue", "default") for line in LINES}
        invariants.check_queue(heard, self.time.now, queue_of, QUEUE, QUEUE_LIMIT)

    def check_history(self) -> None:
        """Require that every occurrence is recorded once."""
        with self.database.read() as connection:
            rows = invariants.read_rows(connection)
        for task in self.crontab.tasks():
            if not task.schedule.startswith("@delay"):
                invariants.check_occurrences(task, self.written_at[task.id], rows)

    def _living(self) -> list[SimulatedNode]:
        return [node for node in self.nodes if node.is_alive]

    def _on_some_node(self, act: Callable[[SimulatedNode], object], message: str = "") -> None:
        if awake := [node for node in self._living() if not node.is_frozen]:
            node = self.chance.choice(awake)
            if message:
                self._note(f"{node.id} {message}")
            act(node)

    def _note(self, message: str) -> None:
        self.trace.append(f"{self.time.now:%d %H:%M:%S}  {message}")

    def _some_task(self) -> str:
        return str(self.chance.choice(LINES)["name"])

    def _pause(self) -> None:
        name = self._some_task()
        until = self.time.now + timedelta(minutes=7) if self.chance.random() < 0.5 else None
        self.crontab.pause(self.crontab.get(name), "a reason", until)
        self._note(f"{name} is paused until {until}")

    def _resume(self) -> None:
        paused = [view.task for view in self.crontab.list_tasks([Term("paused")])]
        if paused:
            task = self.chance.choice(paused)
            self.crontab.resume(task)
            self._note(f"{task.name} is resumed")

    def _edit(self) -> None:
        task = self.crontab.get(self._some_task())
        changed: dict[str, Any] = self.chance.choice(
            [
                {"command": f"echo {len(self.trace)}"},
                {"backoff": 7.0},
                {"priority": self.chance.choice(["high", "low"])},
                {"user": self.chance.choice([None, "deploy", "www"])},
                {"on_disconnect": self.chance.choice([None, "stop", "keep"])},
            ]
        )
        self.crontab.edit(task, changed)
        self._note(f"{task.name} becomes {changed}")

    def _run(self) -> None:
        run = self.crontab.run(self.crontab.get(self._some_task()), "payload")
        self._note(f"{run.task} is run by hand: {run.id}")

    def _cancel(self) -> None:
        open_states = [RunState.WAITING, RunState.CLAIMED, RunState.RUNNING]
        if found := self.crontab.runs(RunFilter(states=open_states), 100):
            run = self.chance.choice(found)
            self._note(f"run {run.id} of {run.task}, {run.state}, is cancelled")
            self.crontab.cancel(run.id)

    def _retry(self) -> None:
        if found := DeadLetters(self.crontab).page(20):
            run = self.chance.choice(found)
            self._note(f"run {run.id} of {run.task} is tried again")
            DeadLetters(self.crontab).retry(run.id)

    def _emit(self) -> None:
        self._note("push is emitted")
        Triggers(self.crontab).emit("push", "payload")

    def _again(self) -> None:
        task = self.crontab.get(self.chance.choice(["berlin", "extract", "all"]))
        made = Triggers(self.crontab).backfill(task, BEGINNING - timedelta(hours=1), BEGINNING)
        self._note(f"{len(made.occurrences)} occurrences of {task.name} are backfilled")
