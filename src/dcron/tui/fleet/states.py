"""How the state and the clock of a node are shown."""

from collections.abc import Mapping

from dcron.model import Node, NodeState

CLOCK_TOLERANCE = 2.0
"""Seconds of clock offset from which on a node is marked."""
STYLES: Mapping[NodeState, str] = {
    NodeState.ALIVE: "ok",
    NodeState.DRAINING: "paused",
    NodeState.LATE: "late",
    NodeState.DEAD: "failed",
    NodeState.STOPPED: "quiet",
}


def is_off(node: Node) -> bool:
    """Return whether the clock of the node is wrong."""
    return node.clock_offset is not None and abs(node.clock_offset) > CLOCK_TOLERANCE
