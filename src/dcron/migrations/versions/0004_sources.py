"""Where a task came from; and no control character where a text has to stay on one line of a crontab file."""

import re

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ONE_LINE = ("schedule", "timezone", '"user"', "except_calendar", "only_calendar", "source")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def upgrade() -> None:
    """Add the column and the rule; clean the rows that break it first."""
    _clean()
    if _is_sqlite():
        # A rule that comes with a new column may speak of others, so the table is not made anew.
        rule = f"CONSTRAINT crontab_one_line CHECK ({_rule()})"
        op.execute(sa.text(f"ALTER TABLE crontab ADD COLUMN source TEXT {rule}"))
    else:
        op.add_column("crontab", sa.Column("source", sa.Text))
        op.create_check_constraint("crontab_one_line", "crontab", sa.text(_rule()))
    with_source = sa.text("source IS NOT NULL")
    op.create_index(
        "crontab_source", "crontab", ["source"], postgresql_where=with_source, sqlite_where=with_source
    )


def _clean() -> None:
    """Put a question mark for each control character.

    A schedule, zone, account or calendar with one in it names nothing that exists, and neither does what
    replaces it: such a task did not run before and does not now. Planning it anew says why.
    """
    connection = op.get_bind()
    for column in ONE_LINE[:-1]:
        rows = connection.execute(
            sa.text(f"SELECT id, {column} AS said FROM crontab WHERE NOT {_clear(column)}")
        )
        for row in rows.all():
            update = f"UPDATE crontab SET {column} = :said, planned_version = 0 WHERE id = :id"
            connection.execute(sa.text(update), {"said": CONTROL.sub("?", row.said), "id": row.id})


def _rule() -> str:
    return " AND ".join(_clear(column) for column in ONE_LINE)


def _clear(column: str) -> str:
    if not _is_sqlite():
        return rf"{column} !~ '[\x01-\x08\x0a-\x1f\x7f]'"
    signs = "char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127)"
    return f"({column} NOT GLOB '*[' || {signs} || ']*' AND instr({column}, char(0)) = 0)"


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
