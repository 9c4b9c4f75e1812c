"""Reject rows that would break everything: SQLite's greatest ids, and times that Python cannot represent."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

MOST = 1 << 62
GROWING = ("crontab", "runs", "changes", "events")
FIRST_TIME, LAST_TIME = "0001-01-03 00:00:00+00", "9999-12-30 00:00:00+00"


def upgrade() -> None:
    """Add the constraints. SQLite gets triggers: a CHECK would copy the whole history."""
    if op.get_bind().dialect.name == "sqlite":
        for table in GROWING:
            _limit_ids(table)
    else:
        for table, times in _times().items():
            _limit_times(table, times)


def _limit_ids(table: str) -> None:
    """Reject the greatest ids: after such a row SQLite inserts no other one, even if the row is deleted."""
    for act, when in (("INSERT", "insert"), ("UPDATE OF id", "update")):
        op.execute(
            f"CREATE TRIGGER {table}_id_{when} BEFORE {act} ON {table} WHEN NEW.id > {MOST}"
            f" BEGIN SELECT RAISE(ABORT, '{table}.id: {MOST} is the most there can be'); END"
        )


def _limit_times(table: str, times: list[str]) -> None:
    """Move times outside the range to its ends, then add a constraint."""
    within = {name: f"{name} BETWEEN '{FIRST_TIME}' AND '{LAST_TIME}'" for name in times}
    nearest = ", ".join(f"{name} = {_nearest(name)}" for name in times)
    op.execute(f"UPDATE {table} SET {nearest} WHERE NOT ({' AND '.join(within.values())})")
    rules = ", ".join(f"ADD CONSTRAINT {table}_{name}_range CHECK ({rule})" for name, rule in within.items())
    op.execute(f"ALTER TABLE {table} {rules}")  # one statement: the rows are read once


def _nearest(name: str) -> str:
    return f"CASE WHEN {name} IS NOT NULL THEN LEAST(GREATEST({name}, '{FIRST_TIME}'), '{LAST_TIME}') END"


def _times() -> dict[str, list[str]]:
    """Return the columns that hold times, by table, in the order of columns."""
    columns = op.get_bind().execute(
        sa.text(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = current_schema() AND data_type = 'timestamp with time zone'"
            " ORDER BY table_name, ordinal_position"
        )
    )
    found: dict[str, list[str]] = {}
    for table, column in columns:
        found.setdefault(table, []).append(column)
    return found
