"""The policies of a task: limits, retries, routes, catch-up, events and dependencies."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
GOES_THROUGH_RUNS = True

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)
ALIVE = "state IN ('claimed', 'running')"
CENTURY = 3155760000
TRIGGERS = "'schedule', 'manual', 'reboot'"
MORE_TRIGGERS = f"{TRIGGERS}, 'retry', 'event', 'after', 'backfill', 'node'"


def upgrade() -> None:
    """Add the columns and tables. Existing tasks behave as before."""
    _widen_crontab()
    _widen_runs()
    for column, default in (("tags", "[]"), ("queues", "[]"), ("capacity", "{}")):
        op.add_column("nodes", sa.Column(column, sa.Text, nullable=False, server_default=default))
    _make_queues()
    _make_events()
    _make_subscriptions()
    # Tasks with events or other tasks in their schedules had an error until now: they are planned again.
    op.execute("UPDATE crontab SET planned_version = 0 WHERE error IS NOT NULL")


def _widen_crontab() -> None:
    for column, default, values in (
        ("overlap", "skip", "'skip', 'queue', 'replace'"),
        ("on_lost", "dead", "'dead', 'retry'"),
        ("catch_up", "last", "'skip', 'last', 'all'"),
        ("priority", "normal", "'high', 'normal', 'low'"),
    ):
        _add("crontab", column, "TEXT", default=f"'{default}'", check=f"{column} IN ({values})")
    counts: tuple[tuple[str, str, str | None, int, int], ...] = (
        ("tries", "INTEGER", "1", 1, 1000),
        ("backoff", "FLOAT", "1", 0, CENTURY),
        ("backoff_factor", "FLOAT", "2", 1, 1000),
        ("backoff_max", "FLOAT", "3600", 0, CENTURY),
        ("deadline", "FLOAT", None, 0, CENTURY),
        ("catch_up_window", "FLOAT", None, 0, CENTURY),
        ("jitter", "FLOAT", None, 0, 86400),
    )
    for column, kind, given, least, most in counts:
        _add("crontab", column, kind, default=given, check=f"{column} BETWEEN {least} AND {most}")
    if _is_sqlite():
        _add("crontab", "queue", "TEXT", default="'default'", check=_one_word("queue"))
        _add("crontab", "every_node", "BOOLEAN", default="false", check="every_node IN (0, 1)")
    else:
        _add("crontab", "queue", 'TEXT COLLATE "C"', default="'default'", check=_one_word("queue"))
        _add("crontab", "every_node", "BOOLEAN", default="false")
    for column, default in (("require", "[]"), ("need", "{}"), ("limit", "{}")):
        check = f"typeof({_quoted(column)}) = 'text'" if _is_sqlite() else None
        _add("crontab", column, "TEXT", default=f"'{default}'", check=check)


def _widen_runs() -> None:
    if _is_sqlite():
        _recreate_runs()
    else:
        op.drop_constraint("runs_trigger_known", "runs")
        op.create_check_constraint("runs_trigger_known", "runs", f"trigger IN ({MORE_TRIGGERS})")
    op.drop_index("runs_due", "runs")
    op.drop_index("runs_waiting", "runs")
    for column in ("lane", "queue"):
        op.add_column("runs", sa.Column(column, NAME, nullable=False, server_default="default"))
    words = "blocked IS NULL OR state = 'waiting' AND blocked IN ('paused', 'limit', 'delay')"
    _add("runs", "blocked", "TEXT", check=words)
    for column in ("expires_at", "backlog_until"):
        if _is_sqlite():
            _add("runs", column, "DATETIME", check=_is_time(column))
        else:
            op.add_column("runs", sa.Column(column, TIMESTAMP))
    op.add_column("runs", sa.Column("flow", sa.BigInteger))
    op.add_column("runs", sa.Column("event_id", sa.BigInteger))
    _index("runs_due", "runs", ["lane", "due_at", "id"], "state = 'waiting' AND blocked IS NULL")
    _index("runs_waiting", "runs", ["task_id", "due_at", "id"], "state = 'waiting'")
    _index("runs_dead_of", "runs", ["task_id", "id"], "dead_at IS NOT NULL")
    _index(
        "runs_blocked_of", "runs", ["task_id", "due_at", "id"], "state = 'waiting' AND blocked IS NOT NULL"
    )
    _index("runs_expiring", "runs", ["expires_at"], "state = 'waiting' AND expires_at IS NOT NULL")
    _index("runs_alive_of_queue", "runs", ["queue"], ALIVE)
    _index("runs_of_time", "runs", ["task_id", "scheduled_for"], "finished_at IS NOT NULL")
    _index("runs_of_flow", "runs", ["flow", "task_id"], "flow IS NOT NULL")
    once_a_flow = "trigger = 'after' AND state <> 'skipped'"
    _index("runs_once_a_flow", "runs", ["flow", "task_id"], once_a_flow, unique=True)
    _index("runs_once_an_event", "runs", ["event_id", "task_id"], "trigger = 'event'", unique=True)
    # A run for one node alone waits in that node's own lane.
    op.execute("UPDATE runs SET lane = 'default node=' || for_node WHERE for_node IS NOT NULL")


def _recreate_runs() -> None:
    """Create the table again and copy the rows: SQLite cannot change a constraint of an existing table."""
    connection = op.get_bind()
    of_runs = "FROM sqlite_master WHERE tbl_name = 'runs' AND sql IS NOT NULL AND type ="
    table = connection.scalar(sa.text(f"SELECT sql {of_runs} 'table'"))
    indexes = list(connection.scalars(sa.text(f"SELECT sql {of_runs} 'index'")))
    newest = connection.scalar(sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'runs'"))
    widened = table.replace(f"trigger IN ({TRIGGERS})", f"trigger IN ({MORE_TRIGGERS})")
    op.execute("ALTER TABLE runs RENAME TO runs_before")
    op.execute(sa.text(widened.replace(":", r"\:")))
    op.execute("INSERT INTO runs SELECT * FROM runs_before")
    op.execute("DROP TABLE runs_before")
    op.execute("DELETE FROM sqlite_sequence WHERE name = 'runs'")
    # Ids are never used again: they are fencing tokens.
    op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', {newest or 0:d})")
    for index in indexes:
        op.execute(sa.text(index.replace(":", r"\:")))


def _make_queues() -> None:
    op.create_table(
        "queues",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("max_running", sa.Integer),
        sa.Column("changed_at", TIMESTAMP, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("changed_by", sa.Text),
        sa.CheckConstraint("max_running BETWEEN 0 AND 1000000", name="queues_max_running"),
        sa.CheckConstraint(_one_word("name"), name="queues_name"),
        *_only_on_sqlite("queues_types", "typeof(max_running) IN ('integer', 'null')"),
    )


def _make_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("payload", sa.Text),
        sa.Column("key", sa.Text),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("created_by", sa.Text),
        sa.Column("handled_at", TIMESTAMP),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="events_name_length"),
        sa.CheckConstraint("length(key) BETWEEN 1 AND 200", name="events_key_length"),
        *_only_on_sqlite("events_times", f"{_is_time('created_at')} AND {_is_time('handled_at')}"),
        sqlite_autoincrement=True,
    )
    _index("events_unhandled", "events", ["id"], "handled_at IS NULL")
    _index("events_once", "events", ["name", "key"], "key IS NOT NULL", unique=True)


def _make_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("task_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("source", NAME, primary_key=True),
        sa.CheckConstraint("kind IN ('event', 'task')", name="subscriptions_kind"),
    )
    op.create_index("subscriptions_source", "subscriptions", ["kind", "source"])


def _add(table: str, column: str, kind: str, *, default: str | None = None, check: str | None = None) -> None:
    """Add a column by raw SQL: SQLite accepts a constraint on a new column only together with the column."""
    given = f" DEFAULT {default} NOT NULL" if default else ""
    rule = f" CONSTRAINT {table}_{column} CHECK ({check})" if check else ""
    op.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {_quoted(column)} {kind}{given}{rule}"))


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _only_on_sqlite(name: str, rule: str) -> list[sa.CheckConstraint]:
    """Return a constraint for SQLite only: it stores any value in any column, which Postgres does not."""
    return [sa.CheckConstraint(rule, name=name)] if _is_sqlite() else []


def _quoted(column: str) -> str:
    return f'"{column}"' if column == "limit" else column


def _one_word(column: str) -> str:
    if not _is_sqlite():
        return f"{column} ~ '^[A-Za-z0-9._-]{{1,100}}$'"
    letters = f"{column} NOT GLOB '*[^A-Za-z0-9._-]*' AND instr({column}, char(0)) = 0"
    return f"typeof({column}) = 'text' AND {letters} AND length({column}) BETWEEN 1 AND 100"


def _is_time(column: str) -> str:
    return (
        f"datetime(substr({column}, 1, 19)) IS substr({column}, 1, 19)"
        f" AND substr({column}, 20, 1) IN ('', '.') AND ltrim(substr({column}, 21), '0123456789') = ''"
    )


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
