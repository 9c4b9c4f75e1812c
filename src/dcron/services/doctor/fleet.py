"""Nodes that are missing, and tasks that no node serves."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from dcron.model import Node, NodeState
from dcron.policy.starting.freezes import reason_of
from dcron.presentation import humanize
from dcron.services.doctor.finding import Finding, named
from dcron.store.statistics.figures import ClusterFigures


def examine(figures: ClusterFigures, nodes: Sequence[Node], unserved: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with these nodes, of which no one has declared any dead.

    `unserved` are names of tasks whose next runs none of them can take.
    """
    if figures.frozen:
        yield Finding(
            "frozen",
            f"the crontab is {reason_of(figures.frozen)}",
            "nothing starts by itself",
            f"`dcron thaw {figures.frozen.id}` ends the freeze",
        )
    by_state = {state: [node for node in nodes if node.state(figures.now) is state] for state in NodeState}
    living = by_state[NodeState.ALIVE] + by_state[NodeState.DRAINING]
    if not living and figures.tasks["active"]:
        yield Finding(
            "no-agent",
            "no agent is running",
            f"{humanize.plural(figures.tasks['active'], 'task')} cannot start",
            "start `dcron agent` on at least one server",
        )
    elif unserved:
        yield Finding(
            "unserved",
            f"no running agent can take the next runs of these tasks: {named(unserved)}",
            "they do not run",
            f"`dcron why {unserved[0]}` says what it needs; `dcron nodes` shows what the agents have",
            unserved,
        )
    yield from _late(by_state[NodeState.LATE], figures.now)
    yield from _drained(by_state[NodeState.DRAINING])


def _late(nodes: Sequence[Node], now: datetime) -> Iterator[Finding]:
    if nodes:
        yield Finding(
            "node-late",
            f"these nodes have not renewed their leases in time: {named(_names(nodes))}",
            "their runs count as active and hold up others of the same task",
            "any running agent declares them dead within a minute: start one if none runs",
            [node.id for node in nodes],
        )


def _drained(nodes: Sequence[Node]) -> Iterator[Finding]:
    idle = [node for node in nodes if not node.running]
    if idle:
        yield Finding(
            "drained",
            f"these nodes are drained and run nothing: {named(_names(idle))}",
            "their slots are unused",
            f"`dcron undrain {idle[0].name}` lets one work again, or stop its agent",
            [node.id for node in idle],
        )


def _names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]
