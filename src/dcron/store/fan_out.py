"""Turns that belong to every node: each node that is alive gets a run of its own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, update

from dcron import policy
from dcron.model import RunState, Trigger
from dcron.schema import runs
from dcron.store import nodes
from dcron.store.candidates import ClaimedRun

_ASKED_FOR = (Trigger.MANUAL, Trigger.BACKFILL)


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
            _share(turn, node.id)
            for node in living
            if node.id != node_id and policy.served_by(turn.lane, node)
        ]
    if shares:
        connection.execute(insert(runs), shares)


def _share(turn: ClaimedRun, node_id: str) -> dict[str, Any]:
    return {
        "task_id": turn.task.id,
        "task": turn.task.name,
        # Shares of what somebody asked for are asked for, too. An event's run is the one with its trigger.
        "trigger": turn.trigger if turn.trigger in _ASKED_FOR else Trigger.NODE,
        "state": RunState.WAITING,
        "scheduled_for": turn.scheduled_for,
        "due_at": turn.due_at,
        "expires_at": turn.expires_at,
        "backlog_until": turn.backlog_until,
        "for_node": node_id,
        "payload": turn.payload,
        "spec": turn.spec,
        "event_id": turn.event_id,
        "flow": turn.flow,
        "lane": str(turn.lane.on(node_id)),
        "queue": turn.lane.queue,
    }
