"""Faults of processes: killed, frozen, both."""

import contextlib
import os
import signal
import time
from collections import Counter

from dcron.model import RunState
from tests.faults.campaign.ledger import Load
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import Stage
from tests.support.cluster import AgentProcess

BURSTS = tuple(Load(f"burst-{number}", "@every 2s", 0.0) for number in range(15))
"""Quick runs that are due at the same time, many more than there are slots."""


@fault("none")
def none(stage: Stage) -> None:
    """Nothing goes wrong."""
    stage.begin()
    time.sleep(stage.seconds)


@fault("kill-agents")
def kill_agents(stage: Stage) -> Figures:
    """kill -9 of agents, at random, and their restart."""
    stage.begin()
    kills = 0
    for _ in stage.pauses(1.0, 3.0):
        if agent := stage.some():
            agent.kill()
            kills += 1
        restart_some(stage)
    return {"kills": kills}


@fault("claim-ahead")
def claim_ahead(stage: Stage) -> Figures:
    """kill -9 of agents that hold claims ahead, while ends of quick runs are not recorded."""
    stage.slots = 2
    stage.begin(BURSTS)
    kills = held = 0
    for _ in stage.pauses(0.2, 1.0):
        agent, claims = _holder_of_claims(stage)
        if agent:
            agent.kill()
            kills, held = kills + 1, held + claims
        restart_some(stage)
    stage.at_the_end.append(lambda: _require_first_attempts(stage))
    return {"kills": kills, "claims held": held}


@fault("kill-wardens")
def kill_wardens(stage: Stage) -> Figures:
    """kill -9 of wardens, at random."""
    stage.begin()
    kills = 0
    for _ in stage.pauses(2.0, 5.0):
        if agent := stage.some():
            kills += kill_warden(agent)
        stage.restart_dead()
    return {"kills": kills}


@fault("kill-both")
def kill_both(stage: Stage) -> Figures:
    """kill -9 of two of agent, warden and guard in the same moment."""
    stage.begin()
    kills: Counter[str] = Counter()
    for _ in stage.pauses(0.5, 2.0):
        pairs = [("agent", "warden"), ("agent", "guard"), ("warden", "guard")]
        _kill_together(stage, stage.chance.choice(pairs), kills)
        restart_some(stage)
    return {f"{who} killed": times for who, times in sorted(kills.items())}


@fault("kill-three")
def kill_three(stage: Stage) -> Figures:
    """kill -9 of an agent, its warden and its guard in the same moment."""
    stage.begin()
    kills: Counter[str] = Counter()
    for _ in stage.pauses(0.5, 2.0):
        _kill_together(stage, ("agent", "warden", "guard"), kills)
        restart_some(stage)
    return {f"{who} killed": times for who, times in sorted(kills.items())}


@fault("freeze-agents")
def freeze_agents(stage: Stage) -> Figures:
    """SIGSTOP of an agent for longer than its lease."""
    stage.begin()
    return {"freezes": _freeze(stage, with_warden=False)}


@fault("freeze-both")
def freeze_both(stage: Stage) -> Figures:
    """SIGSTOP of an agent and its warden for longer than the lease, while their jobs run on."""
    stage.begin()
    return {"freezes": _freeze(stage, with_warden=True)}


def _holder_of_claims(stage: Stage, within: float = 3.0) -> tuple[AgentProcess | None, int]:
    """Return an agent that has claimed runs, and how many; any agent after `within`."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        claims = Counter(run.node for run in stage.cluster.runs(RunState.CLAIMED))
        for name, count in claims.most_common(1):
            agent = stage.agents.get(name or "")
            if agent and agent.process.poll() is None:
                return agent, count
    return stage.some(), 0


def _require_first_attempts(stage: Stage) -> None:
    """A claim that was released cost no attempt."""
    for run in stage.cluster.runs(*RunState):
        stage.require(run.attempt == 1, f"run {run.id} of {run.task} is attempt {run.attempt}")


def _kill_together(stage: Stage, who: tuple[str, ...], kills: Counter[str]) -> None:
    agent = stage.owner_of_a_long_run()
    if agent is None:
        return
    agent.freeze()  # or it would see the others die
    try:
        pids = {"warden": agent.warden(), "guard": agent.guard()}
    except (OSError, IndexError):
        agent.thaw()
        return
    others = [pids[each] for each in who if each != "agent"]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in others:
            os.kill(pid, number)
    if "agent" in who:
        agent.kill()
    else:
        agent.thaw()
    kills[" and ".join(who)] += 1


def kill_warden(agent: AgentProcess) -> int:
    """Whether there was one to kill."""
    with contextlib.suppress(OSError, IndexError):
        os.kill(agent.warden(), signal.SIGKILL)
        return 1
    return 0


def restart_some(stage: Stage) -> None:
    """Restart some of the agents that have ended."""
    for name, agent in list(stage.agents.items()):
        if agent.process.poll() is not None and stage.chance.random() < 0.5:
            stage.start(name)


def _freeze(stage: Stage, *, with_warden: bool) -> int:
    freezes = 0
    for _ in stage.pauses(0.5, 2.0):
        agent = stage.owner_of_a_long_run()
        if agent is None:
            continue
        agent.freeze()
        warden = _warden_of(agent) if with_warden else None
        if warden:
            os.kill(warden, signal.SIGSTOP)
        time.sleep(stage.leases[agent.name] * stage.chance.uniform(1.2, 2.0))
        agent.thaw()
        if warden:
            with contextlib.suppress(ProcessLookupError):
                os.kill(warden, signal.SIGCONT)
        freezes += 1
        stage.restart_dead()
    return freezes


def _warden_of(agent: AgentProcess) -> int | None:
    try:
        return agent.warden()
    except (OSError, IndexError):
        return None
