"""The oldest tables that can be upgraded. New databases get today's tables at once, without this revision."""

revision = "0016"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing: a database of this version has its tables."""
