"""The source of a task; and no control characters in texts that must fit on one line of a crontab file."""

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
    """Add the column and the constraint, after the rows that break it are cleaned."""
    _clean()
    if _is_sqlite():
        # The constraint of a new column may also check other columns, so the table need not be created again.
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
    """Replace each control character by a question mark.

    A schedule, zone, account or calendar with a control character is invalid, and is so with a question mark:
    such a task does not run before or after. Planning it again shows the error.
    """
    connection = op.get_bind()
    for column in ONE_LINE[:-1]:
        rows = connection.execute(
            sa.text(f"SELECT id, {column} AS value FROM crontab WHERE NOT {_is_one_line(column)}")
        )
        for row in rows.all():
            update = f"UPDATE crontab SET {column} = :value, planned_version = 0 WHERE id = :id"
            connection.execute(sa.text(update), {"value": CONTROL.sub("?", row.value), "id": row.id})


def _rule() -> str:
    return " AND ".join(_is_one_line(column) for column in ONE_LINE)


def _is_one_line(column: str) -> str:
    if not _is_sqlite():
        return rf"{column} !~ '[\x01-\x08\x0a-\x1f\x7f]'"
    signs = "char(1) || '-' || char(8) || char(10) || '-' || char(31) || char(127)"
    return f"({column} NOT GLOB '*[' || {signs} || ']*' AND instr({column}, char(0)) = 0)"


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
