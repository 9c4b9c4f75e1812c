"""Who the server says wrote a change, beside who says so."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; earlier changes have no login."""
    op.add_column("changes", sa.Column("login", sa.Text))
