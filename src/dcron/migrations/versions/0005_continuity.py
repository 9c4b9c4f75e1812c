"""Columns by which agents notice that the database went back in time, and an index of such incidents."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the index. Rows of older agents have no lease length."""
    op.add_column("nodes", sa.Column("lease", sa.Float))
    op.add_column("nodes", sa.Column("renewals", sa.BigInteger, nullable=False, server_default="0"))
    incident = sa.text("action IN ('epoch', 'clock')")
    op.create_index("changes_incidents", "changes", ["id"], postgresql_where=incident, sqlite_where=incident)
