"""Settings of the crontab that all its users share."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table, empty: every setting has a default."""
    op.create_table(
        "settings",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("changed_at", MOMENT, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("changed_by", sa.Text),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="settings_name_length"),
    )
