"""The first tables."""

from alembic import op

from dcron.schema import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    metadata.create_all(op.get_bind())
