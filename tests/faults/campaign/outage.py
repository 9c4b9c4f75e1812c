"""The database is away, while commands run that end with the lease, and commands that are kept."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.engine import make_url

from dcron.model import Run, RunState
from tests.faults.campaign import ledger
from tests.faults.campaign.amounts import FAR
from tests.faults.campaign.ledger import Entry, Load
from tests.faults.campaign.network import proxies_of
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.processes import kill_warden
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for
from tests.support.file_link import FileLink
from tests.support.proxy import Proxy

STOP, KEEP = "stop", "keep"
COMMANDS = 20
"""Commands of each policy. They are more than two nodes have slots, so each node has some of them."""
SLOTS = 14
BACK, LATER, KILLED = "web-1", "web-3", "web-2"
"""A node that is back with the database, one that is cut off for longer, and one that is killed meanwhile."""
PLACES = {BACK: "node back with the database", LATER: "node back later", KILLED: "node killed"}
LEASE, SHORTEST = 10.0, 15.0
"""Seconds of the shortest lease and outage. With a lease of 4 s a busy machine may delay the warden for so
long that its guard takes it for frozen, and ends kept commands, too."""
BEFORE, KILLED_AT, AFTER = 0.3, 0.5, 0.7
"""When the node is killed, and when commands end before and after that: as parts of the outage."""
STARTS_WITHIN = 4.0
"""Seconds in which the commands have started on a machine that has time for them."""
WITHIN = 60.0
_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@dataclass
class Outage:
    """When the database was away."""

    began: datetime
    ended: float = 0.0
    """In seconds since the machine started, as jobs write them."""


@fault("outage-keep")
def outage_keep(stage: Stage) -> Figures:
    """The database away with stopped and kept commands, and an agent and its warden killed meanwhile."""
    how = stage.chance.choice(("stopped", "silent") if stage.server else ("locked", "unreachable"))
    stage.slots = SLOTS
    stage.leases = {name: max(LEASE, lease) for name, lease in stage.leases.items()}
    ways = _ways(stage)
    stage.begin([])
    stage.load(_lines(stage))
    # In turn, so that each node gets commands of each kind.
    in_turn = sorted(stage.tasks, key=lambda task: int(task.name.partition("-")[2]))
    asked = [stage.cluster.crontab.run(task).id for task in in_turn]
    wait_for(lambda: all(run.started_at for run in _runs(stage, asked)), WITHIN, "all commands have started")
    _schedule(stage)
    before = _runs(stage, asked)
    with _away(stage, ways, how) as outage:
        time.sleep(_seconds(stage) * KILLED_AT)
        _kill(stage)
        time.sleep(_seconds(stage) * (1 - KILLED_AT))
        ways[LATER].held = True
    stage.cluster.move(stage.cluster.url)  # its connections are of before
    _wait_until_unheard(stage, before, {LATER, KILLED})
    unheard = sum(run.unheard_since is not None for run in _runs(stage, asked))
    ways[LATER].cut()
    ways[LATER].held = False
    _wait_until_heard(stage, before, LATER)
    stage.start(KILLED)
    longest = _seconds(stage) + 3 * _lease(stage) + WITHIN
    wait_for(lambda: all(run.state.is_final for run in _runs(stage, asked)), longest, "all commands are over")
    after = _runs(stage, asked)
    _require_kept(stage, before, after)
    return {
        "the database": f"{how} for {_seconds(stage):g} s",
        "leases": f"{_lease(stage):g} s",
        "unheard": unheard,
        "next start after": f"{_first_start(stage, outage.ended):.1f} s",
        **_fates(stage, before, after, outage.began),
    }


def _seconds(stage: Stage) -> float:
    """Return how long the database is away."""
    return max(SHORTEST, stage.seconds)


def _lease(stage: Stage) -> float:
    """Return the longest lease."""
    return max(stage.leases.values())


def _lines(stage: Stage) -> list[Load]:
    """Return tasks whose runs by hand are long. A third of them outlasts the outage, half are tried again."""
    away = _seconds(stage)
    lengths = (away * BEFORE + STARTS_WITHIN, away * AFTER, away + 1.5 * _lease(stage) + 5)
    lines = []
    for policy in (STOP, KEEP):
        for number in range(COMMANDS):
            long = f"$([ $DCRON_TRIGGER = manual ] && echo {lengths[number % 3]:g} || echo 0.2)"
            again = {"on_lost": "retry", "tries": 2, "backoff": 0.2} if number % 4 < 2 else {}
            fields = {"on_disconnect": policy, "labels": {"policy": policy}, **again}
            lines.append(Load(f"{policy}-{number}", FAR, long, fields=fields))
    return lines


def _schedule(stage: Stage) -> None:
    """Let the tasks become due again and again, now that their first runs cannot be skipped for it."""
    every = f"@every {max(5, round(_lease(stage) / 2))}s"
    stage.tasks = [stage.cluster.crontab.edit(task, {"schedule": every}) for task in stage.tasks]


def _ways(stage: Stage) -> dict[str, Proxy] | dict[str, FileLink]:
    """Give each agent a way of its own to the database."""
    if stage.server:
        return proxies_of(stage)
    url = stage.cluster.url
    links = {name: FileLink(url, stage.directory / f"way-of-{name}") for name in stage.leases}
    for name, link in links.items():
        stage.environments[name] = {"DCRON_DB": link.url(url)}
    return links


@contextmanager
def _away(stage: Stage, ways: dict[str, Proxy] | dict[str, FileLink], how: str) -> Iterator[Outage]:
    """Let no agent reach the database: it is stopped or locked, or the ways to it are silent or gone."""
    outage = Outage(datetime.now(UTC))
    if how == "stopped":
        assert stage.server
        stage.server.crash()
        yield outage
        stage.server.start()
    elif how == "locked":
        with _locked(make_url(stage.cluster.url).database or ""):
            yield outage
    else:
        for way in ways.values():
            way.held = True
        yield outage
        for name in (BACK, KILLED):
            ways[name].cut()
            ways[name].held = False
    outage.ended = time.clock_gettime(time.CLOCK_BOOTTIME)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Let another process hold the lock that keeps all others from reading and writing."""
    program = [sys.executable, "-c", _HOLD, path]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


def _kill(stage: Stage) -> None:
    """Kill an agent and its warden in the same moment."""
    agent = stage.agents[KILLED]
    agent.freeze()  # or it would see its warden die
    stage.require(kill_warden(agent), "there was no warden to kill")
    agent.kill()


def _runs(stage: Stage, run_ids: Sequence[int]) -> list[Run]:
    return [stage.cluster.crontab.find_run(run_id) for run_id in run_ids]


def _running(stage: Stage, run_ids: Sequence[int]) -> list[Run]:
    return [run for run in stage.cluster.runs(RunState.RUNNING) if run.id in run_ids]


def _kept_on(runs: Sequence[Run], node: str) -> set[int]:
    return {run.id for run in runs if run.node == node and run.task.startswith(KEEP)}


def _wait_until_unheard(stage: Stage, before: Sequence[Run], nodes: set[str]) -> None:
    """Wait until the node that is back has declared the others dead."""

    def dead() -> set[str | None]:
        owners = {run.owner for run in before if run.node in nodes}
        return owners - {node.id for node in stage.cluster.alive()}

    wait_for(lambda: len(dead()) == len(nodes), 2 * _lease(stage) + WITHIN, f"{nodes} are declared dead")
    kept = set.union(*(_kept_on(before, node) for node in nodes))
    silent = [run for run in _running(stage, sorted(kept)) if run.unheard_since is None]
    stage.require(not silent, f"runs of dead nodes are running and not unheard: {silent}")


def _wait_until_heard(stage: Stage, before: Sequence[Run], node: str) -> None:
    kept = sorted(_kept_on(before, node))

    def unheard() -> list[Run]:
        return [run for run in _running(stage, kept) if run.unheard_since]

    wait_for(lambda: not unheard(), WITHIN, f"{node} is heard of again")


def _require_kept(stage: Stage, before: Sequence[Run], after: Sequence[Run]) -> None:
    """Kept commands go on to their end unless their node is killed; what ended by itself is recorded so."""
    ended, retries = _ended(stage), _retries(stage)
    owners = {run.id: run.owner for run in before}
    for run in after:
        stage.require(run.owner == owners[run.id], f"run {run.id} of {owners[run.id]} is of {run.owner}")
        if run.task.startswith(KEEP):
            stage.require(run.id in ended or run.node == KILLED, f"kept run {run.id} was killed")
            state = RunState.SUCCEEDED if run.id in ended else RunState.LOST
            stage.require(run.state is state, f"kept run {run.id} is {run.state}: {run.reason}")
            stage.require(run.id not in ended & retries.keys(), f"kept run {run.id} ended and runs again")


def _ended(stage: Stage) -> set[int]:
    """Return the runs whose commands wrote an end."""
    return {entry.run_id for entry in ledger.read(stage.cluster.ledger_path) if entry.kind == "end"}


def _retries(stage: Stage) -> dict[int, int]:
    """Return the next attempts by the runs that they repeat."""
    return {run.retry_of: run.id for run in stage.cluster.runs() if run.retry_of}


def _fates(stage: Stage, before: Sequence[Run], after: Sequence[Run], began: datetime) -> Figures:
    """Return what happened to the commands, by policy and by what happened to their node."""
    entries = ledger.read(stage.cluster.ledger_path)
    retries = _retries(stage)
    return {
        f"{policy}, {place}": _fate(
            [run for run in after if run.node == node and run.task.startswith(policy)],
            *(entries, retries, began),
        )
        for policy in (STOP, KEEP)
        for node, place in PLACES.items()
    }


def _fate(runs: Sequence[Run], entries: Sequence[Entry], retries: dict[int, int], began: datetime) -> str:
    starts = Counter(entry.run_id for entry in entries if entry.kind == "start")
    ended = {entry.run_id for entry in entries if entry.kind == "end"}
    killed = [run for run in runs if run.id not in ended]
    after = sorted((run.finished_at - began).total_seconds() for run in killed if run.finished_at)
    states = Counter(run.state.value for run in runs)
    said = [f"{len(runs)} commands"]
    said += [f"{count} {state}" for state, count in sorted(states.items())]
    if killed:
        said.append(f"{len(killed)} killed, as recorded after {after[0]:.0f} to {after[-1]:.0f} s")
    said.append(f"{sum(starts[retries.get(run.id, 0)] for run in runs)} started again")
    said.append(f"{sum(starts[run.id] > 1 for run in runs)} doubles")
    return ", ".join(said)


def _first_start(stage: Stage, since: float) -> float:
    """Return the seconds from this moment to the first start after it."""
    entries = ledger.read(stage.cluster.ledger_path)
    return min(entry.at for entry in entries if entry.kind == "start" and entry.at > since) - since
