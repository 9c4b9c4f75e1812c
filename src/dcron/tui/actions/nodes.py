"""Acts on nodes."""

from collections.abc import Sequence

from dcron.model import Node, NodeState
from dcron.presentation.humanize import plural
from dcron.services.fleet import Fleet
from dcron.tui.actions.subjects import MOST_LISTED, subject
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act

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

    shown = [f"{node.id} runs {plural(node.running, 'command')}" for node in living[:MOST_LISTED]]
    host.confirm(
        f"drain {subject([node.id for node in living], 'node')}",
        [*shown, "it takes no new runs until `u` undrains it"],
        lambda: host.act([_drain(node) for node in living if not node.draining]),
    )


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
    return Act(
        f"drain {node.id}",
        f"dcron drain {node.id}",
        lambda crontab: Fleet(crontab).drain(node.id),
        lambda _: f"{node.id} takes no new runs",
    )


def _undrain(node: Node) -> Act:
    return Act(
        f"undrain {node.id}",
        f"dcron undrain {node.id}",
        lambda crontab: Fleet(crontab).undrain(node.id),
        lambda _: f"{node.id} takes runs again, from its next heartbeat on",
    )
