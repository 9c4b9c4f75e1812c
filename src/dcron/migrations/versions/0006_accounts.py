"""The accounts as which a node runs commands, and the nodes that could not start a run."""

import json
from urllib.parse import quote

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OPEN = ("state = 'waiting'", "state IN ('claimed', 'running')")
"""Conditions of partial indexes, word for word."""


def upgrade() -> None:
    """Add the columns, and route waiting runs with an account to agents that have it."""
    op.add_column("nodes", sa.Column("account", sa.Text))
    op.add_column("nodes", sa.Column("uid", sa.Integer))
    op.add_column("nodes", sa.Column("any_account", sa.Boolean))
    op.add_column("runs", sa.Column("refused_by", sa.Text))
    _name_accounts()


def _name_accounts() -> None:
    """Add the account of each unfinished run to its lane."""
    connection = op.get_bind()
    change = sa.text("UPDATE runs SET lane = :lane WHERE id = :id")
    for condition in _OPEN:
        named = sa.text(f"SELECT id, lane, spec FROM runs WHERE {condition} AND spec LIKE '%\"user\"%'")
        rows = connection.execute(named).all()
        lanes = [{"id": row.id, "lane": lane} for row in rows if (lane := _with_account(row.lane, row.spec))]
        if lanes:
            connection.execute(change, lanes)


def _with_account(lane: str, spec: str) -> str | None:
    """Return the lane with this spec's account before the node; None if the spec names no account."""
    try:
        found = json.loads(spec)
    except (ValueError, RecursionError):
        return None
    user = found.get("user") if isinstance(found, dict) else None
    if not isinstance(user, str):
        return None
    word = f"user={quote(user, safe='@+$' + chr(92), errors='replace')}"
    before, node, node_id = lane.partition(" node=")
    return f"{before} {word}{node}{node_id}"
