"""Settings that all users of a crontab share."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Create the table without rows: every setting has a default."""
    op.create_table(
        "settings",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("changed_at", TIMESTAMP, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("changed_by", sa.Text),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="settings_name_length"),
    )
