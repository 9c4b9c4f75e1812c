"""Acts on nodes."""

from collections.abc import Sequence

from dcron.model import Node, NodeState
from dcron.presentation.humanize import plural
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act

NODES_SHOWN = 8
LIVING = (NodeState.ALIVE, NodeState.DRAINING, NodeState.LATE)


def drain(host: Host, nodes: Sequence[Node]) -> None:
    """Let nodes start nothing new. Always asks."""
    if not host.may_act(nodes):
        return
    now = host.health.now()
    living = [node for node in nodes if node.state(now) in LIVING]
    if not living:
        host.report(f"{nodes[0].id} is {nodes[0].state(now).value} already")
        return
    if all(node.draining for node in living):
        host.report(f"{living[0].id} is draining already; `u` lets it take runs again")
        return

    def go(yes: bool | None) -> None:
        if yes:
            host.act([_drain(node) for node in living if not node.draining])

    shown = [f"{node.id} runs {plural(node.running, 'command')}" for node in living[:NODES_SHOWN]]
    subject = living[0].id if len(living) == 1 else plural(len(living), "node")
    host.confirm(f"drain {subject}", [*shown, "it takes no new runs until `u` undrains it"], go)


def undrain(host: Host, nodes: Sequence[Node]) -> None:
    """Let drained nodes take runs again."""
    if not host.may_act(nodes):
        return
    now = host.health.now()
    drained = [node for node in nodes if node.draining and node.state(now) in LIVING]
    if drained:
        host.act([_undrain(node) for node in drained])
    else:
        host.report(f"{nodes[0].id} is not draining: it is {nodes[0].state(now).value}")


def _drain(node: Node) -> Act:
    def do(crontab: Crontab) -> str:
        Fleet(crontab).drain(node.id)
        return f"{node.id} takes no new runs"

    return Act(f"drain {node.id}", f"dcron drain {node.id}", do)


def _undrain(node: Node) -> Act:
    def do(crontab: Crontab) -> str:
        Fleet(crontab).undrain(node.id)
        return f"{node.id} takes runs again, from its next heartbeat on"

    return Act(f"undrain {node.id}", f"dcron undrain {node.id}", do)
