"""Turns that belong to every node: each node that is alive gets a run of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, update

from dcron import policy
from dcron.model import Trigger
from dcron.schema import runs
from dcron.store import new_runs, nodes
from dcron.store.candidates import ClaimedRun


def share(connection: Connection, node_id: str, turns: Sequence[ClaimedRun], now: datetime) -> None:
    """Make each of these turns, locked by the caller, the share of `node_id`, and add all other nodes'.

    A node that starts later has no share in them.
    """
    living = [node for node in nodes.living(connection, now) if not node.draining]
    shares: list[dict[str, Any]] = []
    for turn in turns:
        trigger = Trigger.NODE if turn.trigger is Trigger.SCHEDULE else turn.trigger
        own = {"trigger": trigger, "for_node": node_id, "lane": str(turn.lane.on(node_id))}
        connection.execute(update(runs).where(runs.c.id == turn.id).values(own))
        shares += [
            new_runs.share_of(turn, node.id)
            for node in living
            if node.id != node_id and policy.served_by(turn.lane, node)
        ]
    if shares:
        connection.execute(insert(runs), shares)
