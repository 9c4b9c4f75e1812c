"""What the policy of a node accepts."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add four columns to `nodes`. No row is written or read."""
    for name in ("accepted_accounts", "policy", "policy_digest", "policy_error"):
        op.add_column("nodes", sa.Column(name, sa.Text))
