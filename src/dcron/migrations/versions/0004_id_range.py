"""Refuse ids at the end of what SQLite can count: behind such a row no further one can be added.

Postgres counts with a sequence, which a row written by hand does not move.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_MOST = 1 << 62
_GROWING = ("crontab", "runs", "changes", "events")


def upgrade() -> None:
    """Add the rules as triggers: a CHECK would copy the whole history."""
    if op.get_bind().dialect.name != "sqlite":
        return
    for table in _GROWING:
        for act, when in (("INSERT", "insert"), ("UPDATE OF id", "update")):
            op.execute(
                f"CREATE TRIGGER {table}_id_{when} BEFORE {act} ON {table} WHEN NEW.id > {_MOST}"
                f" BEGIN SELECT RAISE(ABORT, '{table}.id: {_MOST} is the most there can be'); END"
            )
