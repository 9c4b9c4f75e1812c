"""Decide whether an agent works, for `/healthz` and for the watchdog of a service manager."""

from dcron.agent.counters import Counters

_LIMIT = 120.0
_LONGEST_STEP = 12
"""How many times the patience of the database a step can wait: for a connection, locks and answers."""


def why_unhealthy(counters: Counters, patience: float) -> str | None:
    """Return which loops of the agent do not go on; None if all do.

    `patience` is that of the database, in seconds. A loop that waits for the database goes on: it gives up
    each statement and tries again.
    """
    limit = max(_LIMIT, _LONGEST_STEP * patience)
    stalled = counters.stalled(limit)
    return f"no step for {limit:.0f}s: {', '.join(stalled)}" if stalled else None
