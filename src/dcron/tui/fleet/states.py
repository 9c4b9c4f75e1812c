"""How the state and the clock of a node are shown."""

from collections.abc import Mapping

from dcron.model import NodeState

STYLES: Mapping[NodeState, str] = {
    NodeState.ALIVE: "ok",
    NodeState.DRAINING: "paused",
    NodeState.LATE: "late",
    NodeState.DEAD: "failed",
    NodeState.STOPPED: "quiet",
}
