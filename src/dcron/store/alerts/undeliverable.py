"""Channels that cannot be used: what they could not send for a day is given up, and an alert says so."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, select, text

from dcron.database import Database
from dcron.model import AlertKind
from dcron.policy.conditions.rules import Rules, rules_of
from dcron.schema.conditions import OPEN
from dcron.schema.tables import alerts
from dcron.store.alerts import notifications
from dcron.store.alerts.rows import Cause, close, read_settings, report


def give_up(connection: Connection, database: Database, now: datetime, channel: str | None = None) -> None:
    """Give up what could not be sent for a day, of one channel or of all; open alerts about the channels."""
    given_up = notifications.give_up(connection, now, channel)
    if not given_up:
        return
    rules = rules_of(read_settings(connection))
    causes = [
        Cause(
            AlertKind.UNDELIVERABLE,
            _subject(name),
            now,
            _without(rules, name),
            facts={"channel": name, "error": error},
        )
        for name, error in given_up
    ]
    report(connection, database, causes, now)


def close_alert(connection: Connection, database: Database, channel: str, now: datetime) -> None:
    """Close the alert of a channel: it has sent something."""
    of_channel = (alerts.c.kind == AlertKind.UNDELIVERABLE, alerts.c.subject == _subject(channel))
    close(connection, database, of_channel, now)


def since(connection: Connection) -> dict[str, datetime]:
    """Return since when channels have been unusable, by name: those that have not sent anything meanwhile."""
    open_ones = (alerts.c.kind == AlertKind.UNDELIVERABLE, text(OPEN))
    query = select(alerts.c.subject, alerts.c.opened_at).where(*open_ones).order_by(alerts.c.subject)
    return {row.subject.removeprefix("channel:"): row.opened_at for row in connection.execute(query)}


def _subject(channel: str) -> str:
    return f"channel:{channel}"[:_LONGEST_SUBJECT]


_LONGEST_SUBJECT = 300


def _without(rules: Rules, channel: str) -> Rules:
    """Return the rules without the channel that does not work."""
    return replace(rules, channels=tuple(name for name in rules.channels if name != channel))
