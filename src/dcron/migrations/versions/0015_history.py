"""Why and by which way a change was made, which changes belong together, and which one another undoes."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

ACTIONS = {
    "run": "'run', 'retry', 'dismiss', 'backfill', 'hold', 'unhold'",
    "setting": "'config'",
    "alert": "'ack'",
    "database": "'epoch', 'clock'",
}
"""The kinds of earlier changes by their actions; all others are of tasks."""


def upgrade() -> None:
    """Add the columns. An earlier change is a batch of its own; the way and the reason are unknown."""
    op.add_column("changes", sa.Column("kind", sa.Text, nullable=False, server_default="task"))
    for name in ("via", "note", "batch"):
        op.add_column("changes", sa.Column(name, sa.Text))
    op.add_column("changes", sa.Column("undoes", sa.BigInteger))
    for kind, actions in ACTIONS.items():
        op.execute(f"UPDATE changes SET kind = '{kind}' WHERE action IN ({actions})")
    op.create_index("changes_of_actor", "changes", ["actor", "id"])
    op.execute("CREATE INDEX changes_of_batch ON changes (batch) WHERE batch IS NOT NULL")
    op.execute("CREATE INDEX changes_undone ON changes (undoes) WHERE undoes IS NOT NULL")
