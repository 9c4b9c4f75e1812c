"""What follows the creation of the tables: triggers, for rules that no constraint can keep, and storage."""

from sqlalchemy import DDL, Column, MetaData, Table, event

from dcron.schema.constraints import check_on
from dcron.schema.types import Id

MOST_ID = 1 << 62

# JSON that cannot be read, or with a value that is no text, is a task without labels.
_READABLE = """CASE WHEN json_valid(NEW.labels) THEN
    CASE json_type(NEW.labels) WHEN 'object' THEN NEW.labels ELSE '{}' END ELSE '{}' END"""
_SQLITE_LABELS = f"""
    INSERT INTO task_labels (task_id, key, value)
    SELECT NEW.id, label.key, label.value FROM json_each({_READABLE}) AS label
    WHERE length(label.key) BETWEEN 1 AND 40 AND length(label.value) <= 60
    AND NOT EXISTS (SELECT 1 FROM json_each({_READABLE}) AS other WHERE other.type <> 'text')
    ON CONFLICT (task_id, key) DO UPDATE SET value = excluded.value;
"""
_POSTGRES_LABELS = """
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


def after_create(target: Table | MetaData, statement: str, database: str) -> None:
    """Execute a statement of one database when the table, or all of them, have been created."""
    ddl = DDL(statement.replace("%", "%%"))  # type: ignore[no-untyped-call]
    event.listen(target, "after_create", ddl.execute_if(dialect=database))


def store(table: Table, **parameters: float) -> None:
    """Set storage parameters of the table on Postgres.

    They are not options of the dialect: SQLAlchemy loads the driver to check one.
    """
    given = ", ".join(f"{name} = {value}" for name, value in parameters.items())
    after_create(table, f"ALTER TABLE {table.name} SET ({given})", "postgresql")


def limit_ids(table: Table) -> None:
    """Refuse the greatest ids on SQLite: after such a row it inserts no other one, even if it is deleted."""
    if "id" in table.c and table.c.id.type is Id:
        _refuse_on_sqlite(table.c.id, f"NEW.id > {MOST_ID}", f"{MOST_ID} is the most there can be")


def keep_inert(column: Column[str], letters: str, number: str) -> None:
    """Refuse texts with other letters: a shell or a terminal could take them for more than a name.

    `number` says how many letters Postgres takes. On SQLite other checks count them.
    """
    table, value = column.table, f"NEW.{column.name}"
    table.append_constraint(
        check_on(f"{table.name}_{column.name}", f"{column.name} ~ '^[{letters}]{number}$'", "postgresql")
    )
    bad = f"typeof({value}) = 'blob' OR instr({value}, char(0)) > 0 OR {value} GLOB '*[^{letters}]*'"
    _refuse_on_sqlite(column, bad, f"use only {letters}")


def _refuse_on_sqlite(column: Column[str], condition: str, message: str) -> None:
    name = f"{column.table.name}_{column.name}"
    for act, when in (("INSERT", "insert"), (f"UPDATE OF {column.name}", "update")):
        statement = (
            f"CREATE TRIGGER {name}_{when} BEFORE {act} ON {column.table.name} WHEN {condition}"
            f" BEGIN SELECT RAISE(ABORT, '{column.table.name}.{column.name}: {message}'); END"
        )
        after_create(column.table, statement, "sqlite")


def write_labels_by_row(metadata: MetaData) -> None:
    """Let the database write the table `task_labels` with each write of `crontab.labels`.

    dcron, agents of an earlier version and people with plain SQL write only the column.
    """
    # REPLACE deletes a row without its trigger: the insertion clears, too.
    forget = "DELETE FROM task_labels WHERE task_id = {0}.id;"
    for name, act, body in (
        ("insert", "INSERT", forget.format("NEW") + _SQLITE_LABELS),
        ("update", "UPDATE OF id, labels", forget.format("OLD") + _SQLITE_LABELS),
        ("delete", "DELETE", forget.format("OLD")),
    ):
        trigger = f"CREATE TRIGGER crontab_labels_{name} AFTER {act} ON crontab BEGIN {body} END"
        after_create(metadata, trigger, "sqlite")
    after_create(metadata, _POSTGRES_LABELS, "postgresql")
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
        trigger = f"CREATE TRIGGER crontab_labels_{name} AFTER {act} ON crontab {condition}"
        after_create(metadata, f"{trigger} EXECUTE FUNCTION crontab_labels()", "postgresql")
