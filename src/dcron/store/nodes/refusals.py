"""Pass a run whose command a node could not start to a node that has not tried, as the same attempt."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, update

from dcron.model import Task, Trigger, node_name
from dcron.policy.starting import retries
from dcron.policy.starting.lanes import Lane
from dcron.schema.tables import runs
from dcron.store.nodes import rows as nodes
from dcron.values.unreadable import Unreadable

_LONGEST_REASON = 200


def pass_on(
    connection: Connection, row: Row[Any], task: Task, lane: Lane, reason: str, node_id: str, now: datetime
) -> dict[str, Any] | None:
    """Return the values that the run on another node has besides a retry's; None if no node is left.

    `row` is a run of `task` that `node_id` could not start for this `reason`; `lane` is the lane of its next
    attempt. The reason on record is extended by what follows. Each node tries an attempt once.
    """
    before = _refusals_of(row)
    refused_by = {**before, node_id: reason[:_LONGEST_REASON]}
    further = retries.lane_after_refusal(lane, refused_by, nodes.living(connection, now))
    if further is None:
        if before:
            name = node_name(node_id)
            # Two nodes may have the same name: then the ID shows which one is meant.
            others = dict.fromkeys(node if node_name(node) == name else node_name(node) for node in before)
            _add_to_reason(connection, row, reason, f"{', '.join(others)} could not start it either")
        return None
    _add_to_reason(connection, row, reason, "it goes to another node")
    # A retry would wait until the task is resumed; a manual run does not.
    is_manual = row.trigger == Trigger.MANUAL and not task.enabled
    return {
        "trigger": Trigger.MANUAL if is_manual else Trigger.RETRY,
        "lane": str(further),
        "expires_at": row.expires_at,
        "refused_by": refused_by,
    }


def without_node(connection: Connection, lanes: Iterable[Lane]) -> list[Lane]:
    """Return those of these lanes whose runs nodes refused and that no other node is left for.

    A node whose lease is over is left until it is declared dead: it may come back.
    """
    refused = [lane for lane in lanes if lane.refused_by and not lane.node]
    left = nodes.not_ended(connection) if refused else []
    return [lane for lane in refused if not retries.has_node(lane, left)]


def no_node_left(row: Row[Any]) -> str:
    """Return why a run fails that nodes refused and that no other node is left for."""
    refusals = _refusals_of(row)
    # Two nodes may have the same name, so the IDs are shown.
    tried = "; ".join(f"{node_id}: {reason}" for node_id, reason in refusals.items())
    return f"no other node is left that could start it ({tried})" if tried else "no node is left"


def _refusals_of(row: Row[Any]) -> Mapping[str, str]:
    if not row.refused_by or isinstance(row.refused_by, Unreadable):
        return {}
    return {str(node_id): str(reason) for node_id, reason in row.refused_by.items()}


def _add_to_reason(connection: Connection, row: Row[Any], reason: str, more: str) -> None:
    extended = f"{reason}; {more}" if reason else more
    connection.execute(update(runs).where(runs.c.id == row.id).values(reason=extended))
