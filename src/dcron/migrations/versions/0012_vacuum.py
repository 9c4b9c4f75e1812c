"""Let Postgres vacuum large tables in time, and renew leases without touching an index."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# By default Postgres vacuums when a fifth of a table has changed: of a long history that is days of runs.
IN_TIME = (
    "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000,"
    " autovacuum_analyze_scale_factor = 0.02"
)


def upgrade() -> None:
    """Change the storage parameters, and the column of an index: no row of `runs` is read."""
    op.drop_index("nodes_alive", "nodes")
    where = sa.text("died_at IS NULL")
    op.create_index("nodes_alive", "nodes", ["id"], postgresql_where=where, sqlite_where=where)
    if op.get_bind().dialect.name == "postgresql":
        for table in ("runs", "output"):
            op.execute(f"ALTER TABLE {table} SET ({IN_TIME})")
        op.execute("ALTER TABLE nodes SET (fillfactor = 50)")
