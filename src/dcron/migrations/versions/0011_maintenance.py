"""Maintenance jobs, and what decides how long history is kept: holds, daily statistics, archives."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.func.current_timestamp()
MOST_ID = 1 << 62
STATES = ("succeeded", "failed", "lost", "cancelled", "skipped")
FIRST_TIME, LAST_TIME = "0001-01-03 00:00:00+00", "9999-12-30 00:00:00+00"
IS_READABLE_TIME = (
    "datetime(substr({0}, 1, 19)) IS substr({0}, 1, 19)"
    " AND substr({0}, 20, 1) IN ('', '.') AND ltrim(substr({0}, 21), '0123456789') = ''"
)


def upgrade() -> None:
    """Add the tables and the column. Where there is history, the first pruning waits for seven days."""
    _add_keep()
    _make_maintenance_jobs()
    _make_holds()
    _make_statistics()
    _make_archives()
    if _is_sqlite():
        _limit_ids()
    _postpone_pruning()


def _add_keep() -> None:
    check = " CONSTRAINT crontab_keep CHECK (typeof(keep) = 'text')" if _is_sqlite() else ""
    op.execute(f"ALTER TABLE crontab ADD COLUMN keep TEXT DEFAULT '{{}}' NOT NULL{check}")


def _make_maintenance_jobs() -> None:
    op.create_table(
        "maintenance_jobs",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("held_until", TIMESTAMP),
        sa.Column("position", sa.Text, nullable=False, server_default="{}"),
        sa.Column("ran_at", TIMESTAMP),
        sa.Column("seconds", sa.Float),
        sa.Column("done", sa.Text, nullable=False, server_default="{}"),
        sa.Column("error", sa.Text),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="maintenance_jobs_name_length"),
        *_within_time("maintenance_jobs", "due_at", "held_until", "ran_at"),
    )


def _make_holds() -> None:
    readable = sa.CheckConstraint(IS_READABLE_TIME.format("created_at"), name="holds_created_at")
    op.create_table(
        "holds",
        sa.Column("id", ID, primary_key=True),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("run_id", sa.BigInteger),
        sa.Column("task", NAME, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("created_by", sa.Text),
        sa.CheckConstraint("(task_id IS NULL) <> (run_id IS NULL)", name="holds_task_or_run"),
        *([readable] if _is_sqlite() else []),
        *_within_time("holds", "created_at"),
        sqlite_autoincrement=True,
    )
    for name, column in (("holds_task", "task_id"), ("holds_run", "run_id")):
        where = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, "holds", [column], unique=True, postgresql_where=where, sqlite_where=where)


def _make_statistics() -> None:
    op.create_table(
        "daily_statistics",
        sa.Column("task_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("day", NAME, primary_key=True),
        sa.Column("task", NAME, nullable=False),
        *(sa.Column(state, sa.BigInteger, nullable=False, server_default="0") for state in STATES),
        sa.Column("seconds", sa.Float, nullable=False, server_default=sa.text("0")),
        sa.Column("longest", sa.Float),
        sa.Column("late_seconds", sa.Float, nullable=False, server_default=sa.text("0")),
        sa.Column("latest", sa.Float),
        sa.Column("buckets", sa.Text, nullable=False, server_default="{}"),
        _is_day("daily_statistics"),
    )
    op.create_index("daily_statistics_of_day", "daily_statistics", ["day"])
    op.create_table(
        "summed_days",
        sa.Column("day", NAME, primary_key=True),
        sa.Column("summed_at", TIMESTAMP, nullable=False),
        sa.Column("archived_at", TIMESTAMP),
        sa.Column("pruned_at", TIMESTAMP),
        _is_day("summed_days"),
        *_within_time("summed_days", "summed_at", "archived_at", "pruned_at"),
    )


def _make_archives() -> None:
    op.create_table(
        "archives",
        sa.Column("id", ID, primary_key=True),
        sa.Column("day", NAME, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("first_run", "last_run", "runs")),
        sa.Column("url", sa.Text, nullable=False, unique=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        _is_day("archives"),
        *_within_time("archives", "created_at"),
        sqlite_autoincrement=True,
    )
    op.create_index("archives_of_day", "archives", ["day"])
    op.create_index("archives_of_run", "archives", ["first_run", "last_run"])


def _limit_ids() -> None:
    """Reject the greatest ids: after such a row SQLite inserts no other one (see 0009)."""
    for table in ("holds", "archives"):
        for act, when in (("INSERT", "insert"), ("UPDATE OF id", "update")):
            op.execute(
                f"CREATE TRIGGER {table}_id_{when} BEFORE {act} ON {table} WHEN NEW.id > {MOST_ID}"
                f" BEGIN SELECT RAISE(ABORT, '{table}.id: {MOST_ID} is the most there can be'); END"
            )


def _postpone_pruning() -> None:
    # The first round does not trust the clock, and waits for another day: a week in all.
    six_days = "datetime('now', '+6 days')" if _is_sqlite() else "now() + interval '6 days'"
    has_history = "EXISTS (SELECT 1 FROM runs)"
    op.execute(f"INSERT INTO maintenance_jobs (name, due_at) SELECT 'prune', {six_days} WHERE {has_history}")


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"


def _is_day(table: str) -> sa.CheckConstraint:
    lite, other = "typeof(day) = 'text' AND date(day) IS day", r"day ~ '^\d{4}-\d{2}-\d{2}$'"
    return sa.CheckConstraint(lite if _is_sqlite() else other, name=f"{table}_day")


def _within_time(table: str, *columns: str) -> list[sa.CheckConstraint]:
    """Return the checks of Postgres that these columns hold times that Python can represent."""
    if _is_sqlite():
        return []
    within = f"BETWEEN '{FIRST_TIME}' AND '{LAST_TIME}'"
    return [sa.CheckConstraint(f"{column} {within}", name=f"{table}_{column}_range") for column in columns]
