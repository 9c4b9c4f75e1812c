"""Alerts, notifications, and what tasks expect and notify."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
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
OPEN = "closed_at IS NULL"


def upgrade() -> None:
    """Add the columns and the tables: no row is read."""
    for column, default in (("notify", "[]"), ("notify_on", "[]"), ("expect", "{}")):
        check = f" CONSTRAINT crontab_{column} CHECK (typeof({column}) = 'text')" if _is_sqlite() else ""
        op.execute(f"ALTER TABLE crontab ADD COLUMN {column} TEXT DEFAULT '{default}' NOT NULL{check}")
    within = "CONSTRAINT crontab_notify_after CHECK (notify_after BETWEEN 1 AND 1000)"
    op.execute(f"ALTER TABLE crontab ADD COLUMN notify_after INTEGER {within}")
    op.execute("ALTER TABLE crontab ADD COLUMN ping TEXT")
    op.execute("ALTER TABLE nodes ADD COLUMN channels TEXT DEFAULT '[]' NOT NULL")
    _index("crontab_expecting", "crontab", ["id"], "expect <> '{}'")
    _make_alerts()
    _make_notifications()
    if _is_sqlite():
        _limit_ids()


def _make_alerts() -> None:
    times = ("opened_at", "last_at", "notified_at", "remind_at", "silent_until", "closed_at")
    op.create_table(
        "alerts",
        sa.Column("id", ID, primary_key=True),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("subject", NAME, nullable=False),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("task", NAME),
        sa.Column("opened_at", TIMESTAMP, nullable=False),
        sa.Column("run_id", sa.BigInteger),
        sa.Column("times", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("last_at", TIMESTAMP, nullable=False),
        sa.Column("last_run_id", sa.BigInteger),
        sa.Column("notified_at", TIMESTAMP),
        sa.Column("remind_at", TIMESTAMP),
        sa.Column("acknowledged_by", sa.Text),
        sa.Column("acknowledged_at", TIMESTAMP),
        sa.Column("acknowledged_note", sa.Text),
        sa.Column("silent_until", TIMESTAMP),
        sa.Column("closed_at", TIMESTAMP),
        sa.Column("facts", sa.Text, nullable=False, server_default="{}"),
        sa.CheckConstraint("length(kind) BETWEEN 1 AND 40", name="alerts_kind_length"),
        sa.CheckConstraint("length(subject) BETWEEN 1 AND 300", name="alerts_subject_length"),
        *_times("alerts", times, "acknowledged_at"),
        sqlite_autoincrement=True,
    )
    _index("alerts_open", "alerts", ["kind", "subject"], OPEN, unique=True)
    _index("alerts_open_of_task", "alerts", ["task_id"], OPEN)
    _index("alerts_remind", "alerts", ["remind_at"], f"{OPEN} AND remind_at IS NOT NULL")
    _index("alerts_closed", "alerts", ["closed_at"], "closed_at IS NOT NULL")


def _make_notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", ID, primary_key=True),
        sa.Column("alert_id", sa.BigInteger),
        sa.Column("run_id", sa.BigInteger),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("channel", NAME, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False),
        sa.Column("due_at", TIMESTAMP, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("holder", sa.Text),
        sa.Column("held_until", TIMESTAMP),
        sa.Column("sent_at", TIMESTAMP),
        sa.Column("sent_by", sa.Text),
        sa.Column("gave_up_at", TIMESTAMP),
        sa.Column("error", sa.Text),
        sa.Column("facts", sa.Text, nullable=False, server_default="{}"),
        sa.CheckConstraint("length(channel) BETWEEN 1 AND 300", name="notifications_channel_length"),
        *_times("notifications", ("created_at", "due_at", "held_until", "sent_at", "gave_up_at")),
        sqlite_autoincrement=True,
    )
    unsent = "sent_at IS NULL AND gave_up_at IS NULL"
    _index("notifications_waiting", "notifications", ["channel", "due_at"], unsent)
    _index("notifications_sent", "notifications", ["channel", "sent_at"], "sent_at IS NOT NULL")
    _index("notifications_of_alert", "notifications", ["alert_id"], "alert_id IS NOT NULL")


def _limit_ids() -> None:
    """Reject the greatest ids: after such a row SQLite inserts no other one (see 0009)."""
    for table in ("alerts", "notifications"):
        for act, when in (("INSERT", "insert"), ("UPDATE OF id", "update")):
            op.execute(
                f"CREATE TRIGGER {table}_id_{when} BEFORE {act} ON {table} WHEN NEW.id > {MOST_ID}"
                f" BEGIN SELECT RAISE(ABORT, '{table}.id: {MOST_ID} is the most there can be'); END"
            )


def _index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _times(table: str, columns: tuple[str, ...], *unchecked: str) -> list[sa.CheckConstraint]:
    """Return the checks of times. SQLite checks those that are compared, in one rule; Postgres checks all."""
    if _is_sqlite():
        return [
            sa.CheckConstraint(" AND ".join(map(IS_READABLE_TIME.format, columns)), name=f"{table}_times")
        ]
    within = f"BETWEEN '{FIRST_TIME}' AND '{LAST_TIME}'"
    return [
        sa.CheckConstraint(f"{column} {within}", name=f"{table}_{column}_range")
        for column in (*columns, *unchecked)
    ]


def _is_sqlite() -> bool:
    return op.get_bind().dialect.name == "sqlite"
