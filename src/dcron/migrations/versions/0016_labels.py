"""Labels of tasks with their look-up table, the definition that `apply` wrote, and freezes.

The database itself keeps `task_labels` like `crontab.labels`: dcron, agents of an earlier version and people
with plain SQL write only the column.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)
MOST_ID = 1 << 62
FIRST_TIME, LAST_TIME = "0001-01-03 00:00:00+00", "9999-12-30 00:00:00+00"
IS_READABLE_TIME = (
    "datetime(substr({0}, 1, 19)) IS substr({0}, 1, 19)"
    " AND substr({0}, 20, 1) IN ('', '.') AND ltrim(substr({0}, 21), '0123456789') = ''"
)
FREEZE_TIMES = ("from_at", "until_at", "created_at", "thawed_at")

# JSON that cannot be read, or with a value that is no text, is a task without labels.
READABLE = """CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END"""
SQLITE_LABELS = f"""
    INSERT INTO task_labels (task_id, key, value)
    SELECT NEW.id, label.key, label.value FROM json_each({READABLE}) AS label
    WHERE length(label.key) BETWEEN 1 AND 40 AND length(label.value) <= 60
    AND NOT EXISTS (SELECT 1 FROM json_each({READABLE}) AS other WHERE other.type <> 'text')
    ON CONFLICT (task_id, key) DO UPDATE SET value = excluded.value;
"""
POSTGRES_LABELS = """
    CREATE FUNCTION crontab_labels() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        found jsonb;
    BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            EXECUTE format('DELETE FROM %I.task_labels', TG_TABLE_SCHEMA);
            RETURN NULL;
        END IF;
        IF TG_OP <> 'INSERT' THEN
            EXECUTE format('DELETE FROM %I.task_labels WHERE task_id = $1', TG_TABLE_SCHEMA) USING OLD.id;
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN NULL;
        END IF;
        BEGIN
            found := NEW.labels::jsonb;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            RETURN NULL;
        END;
        IF jsonb_typeof(found) <> 'object' THEN
            RETURN NULL;
        END IF;
        IF EXISTS (SELECT 1 FROM jsonb_each(found) AS label WHERE jsonb_typeof(label.value) <> 'string') THEN
            RETURN NULL;
        END IF;
        EXECUTE format(
            'INSERT INTO %I.task_labels (task_id, key, value) SELECT $1, key, value FROM jsonb_each_text($2)'
            ' WHERE length(key) BETWEEN 1 AND 40 AND length(value) <= 60'
            ' ON CONFLICT (task_id, key) DO UPDATE SET value = EXCLUDED.value', TG_TABLE_SCHEMA
        ) USING NEW.id, found;
        RETURN NULL;
    END $$
"""


def upgrade() -> None:
    """Add the columns and the tables: no row is read. No task has labels yet."""
    check = " CONSTRAINT crontab_labels CHECK (typeof(labels) = 'text')" if _is_sqlite() else ""
    op.execute(f"ALTER TABLE crontab ADD COLUMN labels TEXT DEFAULT '{{}}' NOT NULL{check}")
    op.add_column("crontab", sa.Column("applied", sa.Text))
    op.create_table(
        "task_labels",
        sa.Column("task_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", NAME, primary_key=True),
        sa.Column("value", NAME, nullable=False),
    )
    op.create_index("task_labels_tasks", "task_labels", ["key", "value", "task_id"])
    _keep_labels()
    _make_freezes()


def _keep_labels() -> None:
    """Have the database write the table `task_labels` whenever it writes the column `crontab.labels`."""
    if _is_sqlite():
        # REPLACE deletes a row without its trigger: the insertion clears, too.
        forget = "DELETE FROM task_labels WHERE task_id = {0}.id;"
        for name, act, body in (
            ("insert", "INSERT", forget.format("NEW") + SQLITE_LABELS),
            ("update", "UPDATE OF id, labels", forget.format("OLD") + SQLITE_LABELS),
            ("delete", "DELETE", forget.format("OLD")),
        ):
            op.execute(f"CREATE TRIGGER crontab_labels_{name} AFTER {act} ON crontab BEGIN {body} END")
        return
    op.execute(POSTGRES_LABELS)
    for name, act, condition in (
        ("insert", "INSERT", "FOR EACH ROW WHEN (NEW.labels <> '{}')"),
        (
            "update",
            "UPDATE OF id, labels",
            "FOR EACH ROW WHEN (OLD.labels <> NEW.labels OR OLD.id <> NEW.id)",
        ),
        ("delete", "DELETE", "FOR EACH ROW WHEN (OLD.labels <> '{}')"),
        ("truncate", "TRUNCATE", ""),
    ):
        op.execute(
            f"CREATE TRIGGER crontab_labels_{name} AFTER {act} ON crontab {condition}"
            " EXECUTE FUNCTION crontab_labels()"
        )


def _make_freezes() -> None:
    op.create_table(
        "freezes",
        sa.Column("id", ID, primary_key=True),
        sa.Column("from_at", TIMESTAMP, nullable=False),
        sa.Column("until_at", TIMESTAMP),
        sa.Column("reason", sa.Text),
        sa.Column("selector", sa.Text),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("created_by", sa.Text),
        sa.Column("thawed_at", TIMESTAMP),
        sa.Column("thawed_by", sa.Text),
        *_checks_of_freezes(),
        sqlite_autoincrement=True,
    )
    not_thawed = sa.text("thawed_at IS NULL")
    op.create_index(
        "freezes_not_thawed", "freezes", ["id"], postgresql_where=not_thawed, sqlite_where=not_thawed
    )
    if not _is_sqlite():
        return
    for act, when in (("INSERT", "insert"), ("UPDATE OF id", "update")):
        op.execute(
            f"CREATE TRIGGER freezes_id_{when} BEFORE {act} ON freezes WHEN NEW.id > {MOST_ID}"
            f" BEGIN SELECT RAISE(ABORT, 'freezes.id: {MOST_ID} is the most there can be'); END"
        )


def _checks_of_freezes() -> list[sa.CheckConstraint]:
    if _is_sqlite():
        readable = " AND ".join(map(IS_READABLE_TIME.format, FREEZE_TIMES))
        return [sa.CheckConstraint(readable, name="freezes_times")]
    within = f"BETWEEN '{FIRST_TIME}' AND '{LAST_TIME}'"
    return [
        sa.CheckConstraint(f"{column} {within}", name=f"freezes_{column}_range") for column in FREEZE_TIMES
    ]


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
