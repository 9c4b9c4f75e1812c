"""The database login of a change, beside the actor that the client reports."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Earlier changes have no login."""
    op.add_column("changes", sa.Column("login", sa.Text))
