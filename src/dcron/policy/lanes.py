"""Lanes: runs that ask the same of a node and are equally urgent wait in one line.

A lane is one text in a column, so one index serves every combination of queue, tags, needs and priority, and
what a node cannot take costs it nothing: it does not look into that lane. The default is `default`; all of
it reads `mail priority=high require=eu,ssd need=gpu:1 node=web-1-3f9c2a7e`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache

from dcron.model import Definition, Node, Trigger
from dcron.quantities import format_amount

HEAD_START = {"high": timedelta(minutes=10), "normal": timedelta(0), "low": timedelta(minutes=-10)}
"""By how much earlier a run counts as due than it is. So what is low waits, but not for ever: ten minutes
after its time it stands level with what is normal and due just then."""

KEPT_AFTER = timedelta(minutes=10)
"""A run that has waited so long for room gets what becomes free: smaller ones no longer start before it."""
_ALMOST = 1 - 1e-9
"""1 without 0.4 and 0.4 is a little less than 0.2."""
DRAINING_SHOWN = 5


@dataclass(frozen=True)
class Lane:
    """What a run asks of the node that takes it."""

    queue: str = "default"
    priority: str = "normal"
    require: tuple[str, ...] = ()
    need: tuple[tuple[str, float], ...] = ()
    node: str | None = None
    """The ID of the only node that may take it."""

    def __str__(self) -> str:
        words = [self.queue]
        if self.priority != "normal":
            words.append(f"priority={self.priority}")
        if self.require:
            words.append(f"require={','.join(self.require)}")
        if self.need:
            words.append("need=" + ",".join(f"{name}:{amount:.15g}" for name, amount in self.need))
        if self.node:
            words.append(f"node={self.node}")
        return " ".join(words)

    def on(self, node_id: str | None) -> "Lane":
        """The same for one node alone."""
        return replace(self, node=node_id)

    def rank(self, due_at: datetime) -> datetime:
        """Where a run that is due then stands among those of all lanes: the earliest goes first."""
        return due_at - HEAD_START[self.priority]


def lane_of(line: Definition, trigger: Trigger = Trigger.SCHEDULE) -> Lane:
    """The lane of a line's runs. What is made up for by hand stands back behind today's work."""
    priority = "low" if trigger is Trigger.BACKFILL else line.priority
    # A line that was written by hand may hold anything; one that cannot be read is suspended by others.
    require = sorted({tag for tag in line.require if isinstance(tag, str)})
    need = {name: amount for name, amount in line.need.items() if isinstance(amount, int | float)}
    return Lane(line.queue, priority, tuple(require), tuple(sorted(need.items())))


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane | None:
    """The lane of this text; None for one that nobody can read, which nobody takes."""
    queue, *words = text.split(" ")
    parts = dict(word.partition("=")[::2] for word in words)
    try:
        lane = Lane(
            queue,
            parts.get("priority", "normal"),
            tuple(parts["require"].split(",")) if "require" in parts else (),
            _read_need(parts.get("need")),
            parts.get("node"),
        )
    except ValueError:
        return None
    return lane if lane.priority in HEAD_START and str(lane) == text else None


def _read_need(text: str | None) -> tuple[tuple[str, float], ...]:
    pairs = (word.rpartition(":")[::2] for word in text.split(",")) if text else ()
    return tuple((name, float(amount)) for name, amount in pairs)


def fits(lane: Lane, free: Mapping[str, float]) -> bool:
    """Whether there is enough of everything the lane's runs need."""
    return all(free.get(name, 0.0) >= amount * _ALMOST for name, amount in lane.need)


def without(free: Mapping[str, float], lane: Lane) -> dict[str, float]:
    """What is left when a run of the lane has what it needs; below nothing where it lacks some."""
    return dict(free) | {name: free.get(name, 0.0) - amount for name, amount in lane.need}


def kept_for(heads: Iterable[tuple[Lane, datetime]], free: Mapping[str, float], now: datetime) -> Lane | None:
    """The lane for whose first run a node keeps what becomes free: of those too large for it the most urgent.

    `heads` are the lanes that the node serves, with when the first run of each is due.
    """
    waiting = [
        (lane.rank(due_at), str(lane), lane)
        for lane, due_at in heads
        if now - due_at > KEPT_AFTER and not fits(lane, free)
    ]
    return min(waiting)[-1] if waiting else None


def serves(
    lane: Lane,
    node_id: str,
    tags: Iterable[str],
    queues: Iterable[str],
    capacity: Mapping[str, float],
) -> bool:
    """Whether the node may take runs of the lane, as far as it can ever have room for them."""
    served = tuple(queues)
    return (
        lane.node in (None, node_id)
        and (not served or lane.queue in served)
        and set(lane.require) <= set(tags)
        and fits(lane, capacity)
    )


def served_by(lane: Lane, node: Node) -> bool:
    """The same of a node as it is registered."""
    return serves(lane, node.id, node.tags, node.queues, node.capacity)


def idle(nodes: Sequence[Node]) -> str | None:
    """Why none of these nodes, all that are alive, takes any run at all; None when one may."""
    if any(not node.draining for node in nodes):
        return None
    return "every agent is draining" if nodes else "no agent is running"


def unserved(lane: Lane, nodes: Iterable[Node]) -> str | None:
    """Why none of these nodes, all that are alive, can take runs of the lane; None when one can."""
    nodes = list(nodes)
    living = [node for node in nodes if not node.draining]
    if any(served_by(lane, node) for node in living):
        return None
    if nobody := idle(nodes):
        return nobody
    if lane.node and not any(node.id == lane.node for node in living):
        drains = any(node.id == lane.node for node in nodes)
        return f"its node {lane.node} is {'draining' if drains else 'gone'}"
    if leaving := [each.id for each in nodes if served_by(lane, each)]:
        if len(leaving) == 1:
            return f"the one agent that could take it, {leaving[0]}, is draining"
        return f"all agents that could take it are draining: {', '.join(leaving[:DRAINING_SHOWN])}"
    if not any(not node.queues or lane.queue in node.queues for node in living):
        return f"no agent serves the queue {lane.queue}"
    if not any(set(lane.require) <= set(node.tags) for node in living):
        return f"no agent has the tag{'s' * (len(lane.require) > 1)} {', '.join(lane.require)}"
    if not any(fits(lane, node.capacity) for node in living):
        wanted = ", ".join(format_amount(name, amount) for name, amount in lane.need)
        return f"no agent has the capacity for {wanted}"
    return "no agent has all it asks for: its queue, its tags and its needs"
