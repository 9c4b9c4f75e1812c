"""Names that are inert, why alerts are closed, and what becomes of commands whose node is cut off."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0016"
branch_labels = None
depends_on = None

RUNS_A_SECOND = 200_000
"""The new index of `runs` is empty, but to find that out the database reads all runs."""
TIMESTAMP = sa.DateTime(timezone=True)
TIMES = (
    *("scheduled_for", "due_at", "claimed_at", "started_at", "finished_at", "dead_at"),
    *("expires_at", "backlog_until", "covers_from", "covers_until", "unheard_since", "lost_after"),
)
FIRST_TIME, LAST_TIME = "0001-01-03 00:00:00+00", "9999-12-30 00:00:00+00"
RULES = {
    ("calendars", "name"): ("A-Za-z0-9._-", "{1,100}"),
    ("task_labels", "key"): ("A-Za-z0-9_./-", "{1,40}"),
    ("task_labels", "value"): ("A-Za-z0-9_./-", "{0,60}"),
}
"""The letters of each column, and how many Postgres takes. On SQLite other checks count them."""


def upgrade() -> None:
    """Add the rules, columns and indexes. No row is written, and only `runs` and `alerts` are read."""
    for (table, column), (letters, number) in RULES.items():
        if _is_sqlite():
            _refuse_on_sqlite(table, column, letters)
        else:
            check = f"CHECK ({column} ~ '^[{letters}]{number}$') NOT VALID"
            op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column} {check}")
    op.execute("ALTER TABLE alerts ADD COLUMN closed_as TEXT")
    op.execute("CREATE INDEX alerts_of_task ON alerts (task_id, opened_at) WHERE task_id IS NOT NULL")
    check = " CONSTRAINT crontab_on_disconnect CHECK (on_disconnect IN ('stop', 'keep'))"
    op.execute(f"ALTER TABLE crontab ADD COLUMN on_disconnect TEXT{check}")
    _widen_runs()


def _refuse_on_sqlite(table: str, column: str, letters: str) -> None:
    """Refuse other values of a column. Rows that have them can be deleted: a CHECK would copy the table."""
    value = f"NEW.{column}"
    bad = f"typeof({value}) = 'blob' OR instr({value}, char(0)) > 0 OR {value} GLOB '*[^{letters}]*'"
    for act, when in (("INSERT", "insert"), (f"UPDATE OF {column}", "update")):
        op.execute(
            f"CREATE TRIGGER {table}_{column}_{when} BEFORE {act} ON {table} WHEN {bad}"
            f" BEGIN SELECT RAISE(ABORT, '{table}.{column}: use only {letters}'); END"
        )


def _widen_runs() -> None:
    op.add_column("runs", sa.Column("on_disconnect", sa.Text))
    op.add_column("runs", sa.Column("unheard_since", TIMESTAMP))
    op.add_column("runs", sa.Column("lost_after", TIMESTAMP))
    op.execute(
        "CREATE INDEX runs_unheard ON runs (lost_after) WHERE state = 'running' AND unheard_since IS NOT NULL"
    )
    if _is_sqlite():
        return
    times = ", ".join(TIMES)
    within = f"LEAST({times}) >= '{FIRST_TIME}' AND GREATEST({times}) <= '{LAST_TIME}'"
    op.execute(
        "ALTER TABLE runs DROP CONSTRAINT runs_times_range,"
        f" ADD CONSTRAINT runs_times_range CHECK ({within}) NOT VALID"
    )


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
