"""The columns of the full schedule language: rules for clock changes, windows, calendars, tzdata versions."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Add the columns and the table. Existing rows keep their meaning."""
    _add_choice("gap", "after", "'after', 'skip'")
    _add_choice("fold", "first", "'first', 'both'")
    for column in ("not_before", "not_after"):
        _add_time(column)
    for column in ("except_calendar", "only_calendar"):
        where = sa.text(f"{column} IS NOT NULL")
        op.add_column("crontab", sa.Column(column, NAME))
        op.create_index(f"crontab_{column}", "crontab", [column], postgresql_where=where, sqlite_where=where)
    op.add_column("runs", sa.Column("tzdata", sa.Text))
    op.add_column("nodes", sa.Column("tzdata_fingerprint", sa.Text))
    op.create_table(
        "calendars",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("changed_at", TIMESTAMP, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="calendars_name_length"),
    )


# Raw SQL: SQLite accepts a constraint on a new column only together with the column.


def _add_choice(column: str, default: str, values: str) -> None:
    op.execute(
        f"ALTER TABLE crontab ADD COLUMN {column} TEXT DEFAULT '{default}' NOT NULL"
        f" CONSTRAINT crontab_{column} CHECK ({column} IN ({values}))"
    )


def _add_time(column: str) -> None:
    if op.get_context().dialect.name == "postgresql":
        op.add_column("crontab", sa.Column(column, TIMESTAMP))
        return
    op.execute(
        f"ALTER TABLE crontab ADD COLUMN {column} DATETIME CONSTRAINT crontab_{column} CHECK ("
        f"datetime(substr({column}, 1, 19)) IS substr({column}, 1, 19)"
        f" AND substr({column}, 20, 1) IN ('', '.')"
        f" AND ltrim(substr({column}, 21), '0123456789') = '')"
    )
