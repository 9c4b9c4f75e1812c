"""Faults of the network between agents and Postgres, made by a proxy of our own before each agent."""

import time
from collections import Counter

from dcron.model import RunState, Task
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import wait_for
from tests.support.proxy import Proxy

BURST = 100
"""Runs by hand at once, whose starts are measured."""
POSTGRES = ("postgres",)


def behind_proxies(stage: Stage) -> list[Proxy]:
    """Begin with a proxy between each agent and the database."""
    proxies = proxies_of(stage)
    stage.begin()
    return list(proxies.values())


def proxies_of(stage: Stage) -> dict[str, Proxy]:
    """Put a proxy between the database and each agent to come."""
    assert stage.server
    proxies = {name: stage.enter(Proxy(stage.server.socket, stage.chance)) for name in LEASES}
    for name, proxy in proxies.items():
        stage.environments[name] = {"DCRON_DB": proxy.url(stage.cluster.url)}
    return proxies


@fault("cut", POSTGRES)
def cut(stage: Stage) -> Figures:
    """Connections closed under the agents, at random; now and then refused for a second or two."""
    proxies = behind_proxies(stage)
    cuts = 0
    for _ in stage.pauses(0.1, 1.0):
        proxy = stage.chance.choice(proxies)
        cuts += proxy.cut()
        if stage.chance.random() < 0.2:
            proxy.refusing = True
            proxy.cut()
            time.sleep(stage.chance.uniform(0.5, 2.0))
            proxy.refusing = False
    return {"connections cut": cuts}


@fault("cut-after-commit", POSTGRES)
def cut_after_commit(stage: Stage) -> Figures:
    """One COMMIT in six succeeds and is never answered: the connection is cut instead."""
    proxies = behind_proxies(stage)
    for proxy in proxies:
        proxy.swallows = 1 / 6
    time.sleep(stage.seconds)
    for proxy in proxies:
        proxy.swallows = 0.0
    return {"answers swallowed": sum(proxy.swallowed for proxy in proxies)}


@fault("black-hole", POSTGRES)
def black_hole(stage: Stage) -> Figures:
    """Nothing goes through for any agent for 1 to 8 s; then the connections are reset."""
    proxies = behind_proxies(stage)
    holes = 0
    for _ in stage.pauses(1.0, 4.0):
        _hold(proxies, stage.chance.choice([1.0, 3.0, 8.0]))
        holes += 1
    return {"times": holes}


@fault("cut-off", POSTGRES)
def cut_off(stage: Stage) -> Figures:
    """One node with running jobs cut off for longer than its lease, the others not."""
    proxies = dict(zip(LEASES, behind_proxies(stage), strict=True))
    times = running = 0
    for _ in stage.pauses(2.0, 4.0):
        busy = Counter(run.node for run in stage.cluster.runs(RunState.RUNNING) if run.node in proxies)
        if not busy:
            continue
        name = stage.chance.choice(sorted(filter(None, busy)))
        _hold([proxies[name]], stage.chance.uniform(7.0, 11.0))
        times += 1
        running += busy[name]
    return {"times": times, "jobs cut off": running}


@fault("far", POSTGRES)
def far(stage: Stage) -> Figures:
    """The database 100 ms away, then 300 ms, each way; then 2 % of the packets are lost, too; lease 60 s."""
    stage.leases = dict.fromkeys(LEASES, 60.0)
    proxies = behind_proxies(stage)
    often = stage.cluster.add("often", "0 0 1 1 *", "true", max_running=None)
    before = {node.id for node in stage.cluster.alive()}
    figures: Figures = {}
    for delay, loses in ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.02)):
        for proxy in proxies:
            proxy.delay, proxy.loses = delay, loses
        time.sleep(stage.seconds / 4)
        took = _all_start(stage, often)
        lossy = f", {loses:.0%} lost" if loses else ""
        figures[f"starts/s at {delay * 1000:.0f} ms{lossy}"] = f"{BURST / took:.0f}"
    for proxy in proxies:
        proxy.delay = proxy.loses = 0.0
    stage.require({node.id for node in stage.cluster.alive()} == before, "a node lost its lease")
    lost = [run.id for run in stage.cluster.runs(RunState.LOST)]
    stage.require(not lost, f"runs were lost: {lost}")
    return figures


def _all_start(stage: Stage, task: Task) -> float:
    """Ask for BURST runs; return the seconds until all have started."""
    began = time.monotonic()
    asked = {run.id for run in stage.cluster.crontab.run_all([task] * BURST)}
    waiting = (RunState.WAITING, RunState.CLAIMED)
    wait_for(lambda: not asked & {run.id for run in stage.cluster.runs(*waiting)}, 120, "the burst starts")
    return time.monotonic() - began


def _hold(proxies: list[Proxy], seconds: float) -> None:
    for proxy in proxies:
        proxy.held = True
    time.sleep(seconds)
    for proxy in proxies:
        proxy.cut()
        proxy.held = False
