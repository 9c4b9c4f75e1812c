"""Decide whether an agent works, for `/healthz` and for the watchdog of a service manager."""

from typing import Protocol

from dcron.agent.counters import Counters
from dcron.agent.node import NodeSession
from dcron.agent.settings import AgentSettings
from dcron.policy.conditions.thresholds import WATCH_LATE

_LIMIT = 120.0
_LONGEST_STEP = 12
"""How many times the patience of the database a step can wait: for a connection, locks and answers."""


class MonitoredAgent(Protocol):
    """An agent, for those that report how it is."""

    settings: AgentSettings
    counters: Counters
    session: NodeSession | None
    """The present node; None before the first one."""
    patience: float
    """The patience of its database, in seconds."""


def why_unhealthy(agent: MonitoredAgent) -> str | None:
    """Return which loops of the agent do not go on, or that it does not look for alerts; None if it works.

    The job `watch` counts while heartbeats find it due and free: the database answers them.
    """
    if stalled := why_stalled(agent):
        return stalled
    waits = agent.session.maintenance.quick_waits if agent.session else 0.0
    is_late = waits > WATCH_LATE.total_seconds()
    return f"the maintenance job watch has been due for {waits:.0f}s: alerts are late" if is_late else None


def why_stalled(agent: MonitoredAgent) -> str | None:
    """Return which loops of the agent do not go on; None if all do.

    A loop that waits for the database goes on: it gives up
    each statement and tries again.
    """
    limit = max(_LIMIT, _LONGEST_STEP * agent.patience)
    stalled = agent.counters.stalled(limit)
    return f"no step for {limit:.0f}s: {', '.join(stalled)}" if stalled else None
