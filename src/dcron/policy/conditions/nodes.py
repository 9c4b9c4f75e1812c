"""What is wrong with a node: it was lost, its clock is off, or its lease is longer than it can be."""

from collections.abc import Collection
from datetime import datetime, timedelta

from dcron.model import Node
from dcron.policy.conditions.thresholds import CLOCK_OFFSET, LEASE_TOLERANCE, LOST_FOR


def is_lost(node: Node, living: Collection[str]) -> bool:
    """Return whether a node died and no node of its name is among the `living`."""
    return node.died_how == "dead" and node.died_at is not None and node.name not in living


def is_lost_no_more(reported_at: datetime, now: datetime) -> bool:
    """Return whether a lost node was reported so long ago that nobody expects it back."""
    return reported_at < now - LOST_FOR


def is_clock_off(node: Node) -> bool:
    """Return whether the node's clock differs too much from the database's."""
    return abs(node.clock_offset or 0.0) > CLOCK_OFFSET


def has_overlong_lease(node: Node, now: datetime) -> bool:
    """Return whether the node's lease ends later than any lease can by the clock as it is now."""
    return bool(node.lease) and node.alive_until > now + timedelta(seconds=node.lease or 0) + LEASE_TOLERANCE
