"""Skip waiting runs that can never be claimed: their task or their only node is gone."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, select, text, update

from dcron.model import RunState
from dcron.policy.starting import skip_reasons
from dcron.policy.starting.lanes import Lane
from dcron.policy.starting.skip_reasons import Skip
from dcron.schema.conditions import DUE
from dcron.schema.tables import crontab, nodes, runs
from dcron.store.runs import skipping

_LOOKED_AT = 1000
"""Due runs that one call searches for runs without a task."""


def skip_orphans(connection: Connection, lanes: Collection[Lane], now: datetime, limit: int) -> int:
    """Skip due runs of these lanes whose task is gone, and runs whose only node is gone. Return how many."""
    # Not NOT EXISTS: Postgres turns that into a join and reads the whole crontab for it.
    task_id = select(crontab.c.id).where(crontab.c.id == runs.c.task_id).correlate(runs).scalar_subquery()
    skipped = 0
    for lane in lanes:
        if lane.is_trial:  # claimed without its task
            continue
        due = select(runs.c.id).where(text(DUE), runs.c.lane == str(lane), runs.c.due_at <= now)
        first = due.order_by(runs.c.due_at, runs.c.id).limit(_LOOKED_AT).subquery()
        gone = select(runs.c.id).where(runs.c.id.in_(select(first.c.id)), task_id.is_(None)).limit(limit)
        skipped += skip_all(connection, gone, skip_reasons.removed_skip(), now)
    return skipped + skip_nodeless(connection, now, limit)


def skip_nodeless(connection: Connection, now: datetime, limit: int) -> int:
    """Skip runs whose only node has ended. Return how many."""
    node = select(nodes.c.id).where(nodes.c.id == runs.c.for_node, nodes.c.died_at.is_(None))
    gone = node.correlate(runs).scalar_subquery().is_(None)
    waits = (runs.c.state == RunState.WAITING, runs.c.for_node.is_not(None), gone)
    return skip_all(connection, select(runs.c.id).where(*waits).limit(limit), skip_reasons.NODE_GONE, now)


def mark_dead(connection: Connection, failed: ColumnElement[bool], now: datetime) -> Sequence[Row[Any]]:
    """Make dead letters of these runs if they failed or were lost, because no retry follows after all.

    Return the id, the task and the state of each.
    """
    ended_badly = runs.c.state.in_([state for state in RunState if state.is_failure])
    marked = update(runs).where(failed, ended_badly).values(dead_at=now)
    return connection.execute(marked.returning(runs.c.id, runs.c.task_id, runs.c.state)).all()


def skip_all(connection: Connection, found: Select[Any], skip: Skip, now: datetime) -> int:
    """Skip these waiting runs. Return how many. The attempt before a skipped retry becomes a dead letter."""
    skipped = skipping.end(connection, [runs.c.id.in_(found)], skip, now)
    if failed := [run_id for run_id in skipped if run_id]:
        mark_dead(connection, runs.c.id.in_(failed), now)
    return len(skipped)
