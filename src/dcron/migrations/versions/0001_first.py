"""The tables of the first release. Never change this revision: add a new one."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text(collation="C").with_variant(sa.Text(), "sqlite")
TIMESTAMP = sa.DateTime(timezone=True)
ALIVE = "state IN ('claimed', 'running')"


def upgrade() -> None:
    """Create the tables."""
    _make_crontab()
    _make_runs()
    _make_nodes()
    _make_output()
    _make_changes()


def _make_crontab() -> None:
    op.create_table(
        "crontab",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", NAME, nullable=False, unique=True),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False, server_default="UTC"),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("argv", sa.Text),
        sa.Column("shell", sa.Text, nullable=False, server_default="/bin/sh"),
        sa.Column("stdin", sa.Text),
        sa.Column("env", sa.Text, nullable=False, server_default="{}"),
        sa.Column("cwd", sa.Text),
        sa.Column("user", sa.Text),
        sa.Column("timeout", sa.Float),
        sa.Column("max_running", sa.Integer, server_default="1"),
        sa.Column("describe", sa.Text),
        sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.text("true")),
        sa.Column("paused_reason", sa.Text),
        sa.Column("paused_by", sa.Text),
        sa.Column("paused_at", TIMESTAMP),
        sa.Column("paused_until", TIMESTAMP),
        sa.Column("once", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("error", sa.Text),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
        sa.Column("planned_version", sa.Integer, nullable=False, server_default="0"),
        sa.Column("changed_at", TIMESTAMP, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("changed_by", sa.Text),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 100", name="crontab_name_length"),
        sa.CheckConstraint("length(schedule) BETWEEN 1 AND 256", name="crontab_schedule_length"),
        sa.CheckConstraint("length(command) > 0", name="crontab_command_given"),
        sa.CheckConstraint("timeout > 0 AND timeout <= 3155760000", name="crontab_timeout_range"),
        sa.CheckConstraint("max_running >= 1", name="crontab_max_running_positive"),
        sa.CheckConstraint(
            "NOT enabled OR (paused_at IS NULL AND paused_until IS NULL)", name="crontab_paused"
        ),
        *(_crontab_checks_of_sqlite() if _is_sqlite() else _crontab_checks_of_postgres()),
        sqlite_autoincrement=True,
    )
    unplanned = "CASE WHEN planned_version <> version THEN 1 ELSE 0 END = 1"
    _index("crontab_unplanned", "crontab", ["id"], unplanned)
    _index("crontab_paused_until", "crontab", ["paused_until"], "paused_until IS NOT NULL")
    _index("crontab_reboot", "crontab", ["id"], "schedule LIKE '%@reboot%'")
    _index("crontab_once", "crontab", ["id"], "once")


def _crontab_checks_of_postgres() -> list[sa.CheckConstraint]:
    return [sa.CheckConstraint("name ~ '^[A-Za-z0-9._-]+$'", name="crontab_name_letters")]


def _crontab_checks_of_sqlite() -> list[sa.CheckConstraint]:
    letters = "name NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(name, char(0)) = 0"
    texts = ("name", "schedule", "timezone", "command", "shell", "env")
    optional_texts = ("argv", "stdin", "cwd", '"user"', "describe")
    more_optional_texts = ("paused_reason", "paused_by", "error", "changed_by")
    types = [
        *(f"typeof({column}) IN ('text')" for column in texts),
        *(f"typeof({column}) IN ('text', 'null')" for column in optional_texts + more_optional_texts),
        *(f"typeof({column}) IN ('integer')" for column in ("version", "planned_version")),
        "typeof(max_running) IN ('integer', 'null')",
        "typeof(timeout) IN ('real', 'null')",
        "enabled IN (0, 1)",
        "once IN (0, 1)",
    ]
    times = [_is_time(column) for column in ("paused_at", "paused_until", "changed_at")]
    return [
        sa.CheckConstraint(letters, name="crontab_name_letters"),
        sa.CheckConstraint(" AND ".join(types), name="crontab_types"),
        sa.CheckConstraint(" AND ".join(times), name="crontab_times"),
    ]


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("task", NAME, nullable=False),
        sa.Column("trigger", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
        sa.Column("retry_of", sa.BigInteger),
        sa.Column("scheduled_for", TIMESTAMP, nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("for_node", sa.Text),
        sa.Column("claimed_at", TIMESTAMP),
        sa.Column("started_at", TIMESTAMP),
        sa.Column("finished_at", TIMESTAMP),
        sa.Column("owner", sa.Text),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Integer),
        sa.Column("dead_at", TIMESTAMP),
        sa.Column("cancel_requested_by", sa.Text),
        sa.Column("payload", sa.Text),
        sa.Column("spec", sa.Text, nullable=False),
        sa.CheckConstraint(
            "state IN ('waiting', 'claimed', 'running',"
            " 'succeeded', 'failed', 'lost', 'skipped', 'cancelled')",
            name="runs_state_known",
        ),
        sa.CheckConstraint("trigger IN ('schedule', 'manual', 'reboot')", name="runs_trigger_known"),
        sa.CheckConstraint("attempt >= 1", name="runs_attempt_positive"),
        sa.CheckConstraint(
            f"NOT ({ALIVE}) OR (owner IS NOT NULL AND claimed_at IS NOT NULL)", name="runs_alive_owned"
        ),
        sa.CheckConstraint("state <> 'running' OR started_at IS NOT NULL", name="runs_running_started"),
        sa.CheckConstraint("state <> 'waiting' OR owner IS NULL", name="runs_waiting_free"),
        sa.CheckConstraint(
            "(state IN ('succeeded', 'failed', 'lost', 'skipped', 'cancelled')) = (finished_at IS NOT NULL)",
            name="runs_final_finished",
        ),
        sa.CheckConstraint("state <> 'skipped' OR reason IS NOT NULL", name="runs_skipped_reason"),
        sa.CheckConstraint("dead_at IS NULL OR state IN ('failed', 'lost')", name="runs_dead_failed"),
        *(_runs_checks_of_sqlite() if _is_sqlite() else []),
        sqlite_autoincrement=True,
    )
    _index(
        "runs_next",
        "runs",
        ["task_id"],
        "trigger = 'schedule' AND state IN ('waiting', 'claimed')",
        unique=True,
    )
    _index("runs_retry", "runs", ["retry_of"], "retry_of IS NOT NULL", unique=True)
    _index("runs_due", "runs", ["due_at", "id"], "state = 'waiting'")
    _index("runs_waiting", "runs", ["task_id"], "state = 'waiting'")
    _index("runs_for_node", "runs", ["for_node"], "state = 'waiting' AND for_node IS NOT NULL")
    _index("runs_owned", "runs", ["owner"], ALIVE)
    _index("runs_alive", "runs", ["task_id"], ALIVE)
    op.create_index("runs_of_task", "runs", ["task_id", "id"])
    _index("runs_unhappy", "runs", ["state", "id"], "state IN ('failed', 'lost', 'skipped', 'cancelled')")
    _index("runs_finished", "runs", ["finished_at"], "finished_at IS NOT NULL")
    _index("runs_dead", "runs", ["id"], "dead_at IS NOT NULL")


def _runs_checks_of_sqlite() -> list[sa.CheckConstraint]:
    times = [_is_time(column) for column in ("scheduled_for", "due_at")]
    return [sa.CheckConstraint(" AND ".join(times), name="runs_times")]


def _make_nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("tzdata", sa.Text, nullable=False),
        sa.Column("started_at", TIMESTAMP, nullable=False),
        sa.Column("alive_until", TIMESTAMP, nullable=False),
        sa.Column("draining", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("died_at", TIMESTAMP),
        sa.Column("died_how", sa.Text),
        sa.Column("clock_offset", sa.Float),
        sa.CheckConstraint("slots >= 1", name="nodes_slots_positive"),
        sa.CheckConstraint("(died_at IS NULL) = (died_how IS NULL)", name="nodes_died_how"),
        sa.CheckConstraint("died_how IN ('stopped', 'dead')", name="nodes_died_how_known"),
    )
    _index("nodes_alive", "nodes", ["alive_until"], "died_at IS NULL")
    _index("nodes_died", "nodes", ["died_at"], "died_at IS NOT NULL")


def _make_output() -> None:
    op.create_table(
        "output",
        sa.Column("run_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("byte_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("at", TIMESTAMP, nullable=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.CheckConstraint("stream IN ('out', 'err')", name="output_stream_known"),
    )


def _make_changes() -> None:
    op.create_table(
        "changes",
        sa.Column("id", ID, primary_key=True),
        sa.Column("at", TIMESTAMP, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("task", NAME),
        sa.Column("version", sa.Integer),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
        sqlite_autoincrement=True,
    )
    op.create_index("changes_of_task", "changes", ["task", "id"])
    op.create_index("changes_of_line", "changes", ["task_id", "id"])


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _is_time(column: str) -> str:
    return (
        f"datetime(substr({column}, 1, 19)) IS substr({column}, 1, 19)"
        f" AND substr({column}, 20, 1) IN ('', '.') AND ltrim(substr({column}, 21), '0123456789') = ''"
    )


def _is_sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
