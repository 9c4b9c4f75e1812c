"""Connections that break after each of their messages, while agents start, claim, record and renew."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice

from dcron.model import RunState
from tests.faults.campaign.network import POSTGRES, behind_proxies
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import LEASES, Stage
from tests.support.cluster import AgentProcess, wait_for
from tests.support.proxy import HOW, Break, Proxy

LAST = 80
"""The last message after which connections break; by then an agent has done everything once."""
LEASE = 12.0
BREAKS_FOR = 1.5
"""Seconds in which each new connection breaks. Then a silent one has to be given up before the lease ends."""
HEALS_IN = 4.0


@fault("reset-at-message", POSTGRES)
def reset_at_message(stage: Stage) -> Figures:
    """Connections reset, closed or silent after message 1 to 80 of the agent or of the server."""
    stage.leases = dict.fromkeys(LEASES, LEASE)
    proxies = behind_proxies(stage)
    assert stage.server
    for_another = stage.enter(Proxy(stage.server.socket, stage.chance))
    agents = stage.living()
    played = 0
    for breaks in _in_turn(_plan(stage), len(proxies), stage.seconds):
        _break(proxies, breaks)
        if played % 4 == 0:
            _start_another(stage, for_another, breaks[0])
        time.sleep(HEALS_IN)
        played += len(breaks)
        for agent in agents:
            stage.require(agent.process.poll() is None, f"{agent.name} ended after {breaks}")
    for proxy in proxies:  # a loop that is not the heartbeat waits 45 s for a silent connection
        proxy.cut()
    time.sleep(HEALS_IN)
    lost = [run.id for run in stage.cluster.runs(RunState.LOST)]
    stage.require(not lost, f"runs were lost: {lost}")
    return {
        "breaks": f"{played} of {LAST * len(HOW) * 2}",
        "connections": sum(each.broken for each in proxies),
    }


def _plan(stage: Stage) -> list[Break]:
    plan = [
        Break(number, how, of_server)
        for number in range(1, LAST + 1)
        for how in HOW
        for of_server in (False, True)
    ]
    stage.chance.shuffle(plan)
    return plan


def _in_turn(plan: Iterable[Break], together: int, seconds: float) -> Iterator[list[Break]]:
    """So many of the plan at a time, until it is played or the time is over."""
    end, left = time.monotonic() + seconds, iter(plan)
    while (breaks := list(islice(left, together))) and time.monotonic() < end:
        yield breaks


def _break(proxies: list[Proxy], breaks: list[Break]) -> None:
    """Let the connections of each agent break for a while, the present ones at once."""
    for proxy, breaking in zip(proxies, breaks, strict=False):
        proxy.breaking = breaking
        proxy.cut()
    time.sleep(BREAKS_FOR)
    for proxy in proxies:
        proxy.breaking = None


def _start_another(stage: Stage, proxy: Proxy, breaking: Break) -> None:
    """Start an agent that takes no runs while its connections break; it has to register all the same."""
    proxy.breaking = breaking
    environment = {"DCRON_DB": proxy.url(stage.cluster.url), "TMPDIR": str(stage.directory / "temporary")}
    options = (*stage.options, "--queue", "nothing")
    another = stage.cluster.start_agent("another", *options, lease=LEASE, environment=environment)
    time.sleep(BREAKS_FOR + 1.0)  # it takes a second until the first connection
    proxy.breaking = None
    wait_for(lambda: _is_over(another) or stage.has_registered(another), 150, "another agent registers")
    stage.require(not _is_over(another), f"an agent that started ended with {breaking}")
    another.terminate()
    another.wait(30)


def _is_over(agent: AgentProcess) -> bool:
    return agent.process.poll() is not None
