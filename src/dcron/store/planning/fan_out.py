"""Share the runs of `--every-node` tasks: each living node gets a run of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, update

from dcron.model import Trigger
from dcron.policy.starting import lanes
from dcron.schema.tables import runs
from dcron.store.nodes import rows as nodes
from dcron.store.runs import new_runs
from dcron.store.runs.candidates import ClaimedRun


def share(connection: Connection, node_id: str, shared: Sequence[ClaimedRun], now: datetime) -> None:
    """Turn each of these runs into the share of `node_id`, and insert a share for each other eligible node.

    The caller has locked the runs. A node that starts later gets no share.
    """
    living = [node for node in nodes.living(connection, now) if not node.draining]
    shares: list[dict[str, Any]] = []
    for run in shared:
        trigger = Trigger.NODE if run.trigger is Trigger.SCHEDULE else run.trigger
        own = {"trigger": trigger, "for_node": node_id, "lane": str(run.lane.on(node_id))}
        connection.execute(update(runs).where(runs.c.id == run.id).values(own))
        shares += [
            new_runs.share_of(run, node.id)
            for node in living
            if node.id != node_id and lanes.served_by(run.lane, node)
        ]
    if shares:
        connection.execute(insert(runs), shares)
