"""Switchovers and failovers of a real Patroni cluster, under agents that reach it in two ways."""

import time
from pathlib import Path

from sqlalchemy import text

from dcron.store.nodes import epochs
from tests.faults.campaign import audit, checks, forgetting, ledger
from tests.faults.campaign.checks import Verdict
from tests.faults.campaign.playing import Figures, NotHere, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import wait_for
from tests.support.databases import execute
from tests.support.patroni import Node, Patroni, missing, patroni

DATABASE = "dcron"
_WHOLE_WITHIN = 90.0
_HELD = 2.0
"""Seconds for which the standby gets nothing before every other failover."""


def judge_async(stage: Stage) -> Verdict:
    """What holds where commits may be lost; without an epoch none was, and everything has to hold."""
    with stage.cluster.database.read() as connection:
        is_forgetful = epochs.last(connection, "epoch") is not None
    return forgetting.judge(stage) if is_forgetful else checks.judge(stage)


@fault("patroni-sync", ("postgres",))
def patroni_sync(stage: Stage) -> Figures:
    """Patroni with synchronous replication: switchovers, and kill -9 of the primary beside its Patroni."""
    return _play(stage, synchronous=True)


@fault("patroni-async", ("postgres",), judge=judge_async)
def patroni_async(stage: Stage) -> Figures:
    """Patroni with asynchronous replication: the same, and the standby may lack the last 2 s."""
    return _play(stage, synchronous=False)


def _play(stage: Stage, *, synchronous: bool) -> Figures:
    if lacks := missing():
        raise NotHere(f"not installed here: {', '.join(lacks)}")
    cluster = stage.enter(patroni(synchronous=synchronous))
    execute(cluster.url, f"CREATE DATABASE {DATABASE}")
    stage.cluster.move(cluster.url_of(DATABASE))
    audit.install(stage.cluster.database)
    stage.server = cluster
    stage.environments["web-3"] = {"DCRON_DB": cluster.both(DATABASE)}  # the others: HAProxy
    stage.begin()
    switchovers = failovers = 0
    outages: list[float] = []
    for _ in stage.pauses(4.0, 7.0):
        leader = _whole(cluster)
        began = _uptime()
        if (switchovers + failovers) % 3 == 0:
            stage.require(cluster.switch_over(leader), "Patroni refused to switch over")
            switchovers += 1
        else:
            _fail_over(cluster, leader, _HELD if failovers % 2 == 0 else 0.0)
            failovers += 1
        outages.append(_until_next_start(stage, cluster, leader, began))
    _whole(cluster)
    stage.cluster.move(stage.cluster.url)  # its connections are of before
    worst, longest = max(outages), max(stage.leases.values())
    return {
        "switchovers": switchovers,
        "failovers": failovers,
        "to the next start at most": f"{worst:.1f} s, {worst / longest:.1f} leases",
        "epochs": _epochs(stage),
        **forgetting.epochs_of(stage),
    }


def _fail_over(cluster: Patroni, leader: Node, held: float) -> None:
    """Kill the leader, and start it again when the other one leads."""
    if held:
        cluster.hold_replication()
        time.sleep(held)
    leader.kill()
    _wait_for_another(cluster, leader)
    cluster.start_node(leader)


def _wait_for_another(cluster: Patroni, before: Node) -> None:
    wait_for(lambda: cluster.leader() not in (None, before), _WHOLE_WITHIN, "the other node leads")


def _whole(cluster: Patroni) -> Node:
    """Wait until one node leads and the other follows; return the first."""
    wait_for(cluster.is_whole, _WHOLE_WITHIN, "the standby follows")
    leader = cluster.leader()
    assert leader, "no node leads"
    return leader


def _until_next_start(stage: Stage, cluster: Patroni, before: Node, began: float) -> float:
    """Return the seconds from `began` to the first start that only the new leader can have recorded."""
    _wait_for_another(cluster, before)
    led = _uptime()
    started: list[float] = []

    def has_started() -> bool:
        entries = ledger.read(stage.cluster.ledger_path)
        started[:] = [entry.at for entry in entries if entry.kind == "start" and entry.at > led]
        return bool(started)

    wait_for(has_started, _WHOLE_WITHIN, "a run starts after the failover")
    return started[0] - began


def _epochs(stage: Stage) -> int:
    with stage.cluster.database.read() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM changes WHERE action = 'epoch'")) or 0)


def _uptime() -> float:
    """Return the seconds since the machine started, as jobs write them."""
    return float(Path("/proc/uptime").read_text().split()[0])
