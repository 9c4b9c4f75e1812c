"""Notifications: messages to be sent by channels, written in the transaction of their cause.

A node that has the channel claims its waiting notifications, and sends them as one message. Until
`held_until`, no other node sends them. A claim ends in one of three ways:

- sent: the rows have `sent_at`;
- failed: they wait again, until `due_at`, without a holder;
- unknown, because the node died or the channel did not answer: they keep their holder. After `held_until`, a
  node sends exactly these rows again, so the message has the same ID and its receiver can drop the second.

A node sends the output of each run as a message of its own, without a pause, as cron does.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    func,
    insert,
    not_,
    or_,
    select,
    text,
    update,
)

from dcron.config.channels import MAIL_PREFIX, MAILTO
from dcron.database import Database
from dcron.fields.kinds import NONE
from dcron.model import Notification, NotificationKind
from dcron.policy.starting import retries
from dcron.schema.conditions import UNSENT
from dcron.schema.tables import notifications
from dcron.schema.types import Instant
from dcron.settings.registry import SETTINGS
from dcron.store.tasks import settings

DEFAULT_PAUSE = 60.0
GATHER = 10.0
"""Seconds that the first notification waits for others that belong in the same message."""
HOLD = 60.0
"""Seconds for which a node holds what it sends."""
MOST_GROUPED = 1000
"""Notifications in one message; the others are in the next."""
MOST_OUTPUTS = 50
"""Outputs of runs in one claim."""
GIVE_UP = timedelta(hours=24)
_FAR = timedelta(hours=1)
"""Nothing is due or held for longer. What seems to be was written while the database's clock was ahead."""
_LONGEST_ERROR = 300
OUTPUT = "output"
TEST = "test"
"""The fact of a notification that only tests its channel; its value is the actor."""
COLUMNS = [notifications.c[name] for name in Notification.__dataclass_fields__]


def for_channels(
    channels: Iterable[str],
    kind: NotificationKind,
    now: datetime,
    *,
    alert_id: int | None = None,
    run_id: int | None = None,
    task_id: int | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the values of a notification for each channel. It is due now."""
    about = {"kind": kind, "alert_id": alert_id, "run_id": run_id, "task_id": task_id}
    times = {"created_at": now, "due_at": now}
    return [{"channel": name, **about, **times, "facts": dict(facts or {})} for name in channels]


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert notifications, given as values of their columns."""
    if rows:
        connection.execute(insert(notifications), rows)


def from_row(row: Row[Any]) -> Notification:
    """Return the notification of a row that has COLUMNS."""
    return Notification(**row._mapping)


def is_waiting() -> ColumnElement[bool]:
    """Return whether a notification waits for one of the channels. The parameters are `waiting_values`."""
    return select(notifications.c.id).where(text(UNSENT), _offered(), _READY).exists()


def waiting_values(channels: Collection[str], now: datetime) -> dict[str, Any]:
    """Return the parameters of `is_waiting`. `channels` are the names that a node offers."""
    named = [name for name in channels if name != MAILTO]
    return {"now": now, "far": now + _FAR, "channels": named, "mails": MAILTO in channels}


def waiting_channels(connection: Connection, channels: Collection[str], now: datetime) -> list[str]:
    """Return which of the channels something waits for."""
    rows = notifications.c
    query = select(rows.channel).distinct().where(text(UNSENT), _offered(), _READY).order_by(rows.channel)
    return list(connection.scalars(query, waiting_values(channels, now)))


def _offered() -> ColumnElement[bool]:
    rows = notifications.c
    named = rows.channel.in_(bindparam("channels", expanding=True))
    return or_(named, and_(bindparam("mails", type_=Boolean()), rows.channel.like(f"{MAIL_PREFIX}%")))


def _is_due(now: Any, far: Any) -> ColumnElement[bool]:
    """Return whether it is due. A time too far ahead is of a clock that was ahead."""
    return or_(notifications.c.due_at <= now, notifications.c.due_at > far)


def _is_over(now: Any, far: Any) -> ColumnElement[bool]:
    """Return whether the hold is over and the holder has recorded no result."""
    rows = notifications.c
    is_past = or_(rows.held_until.is_(None), rows.held_until < now, rows.held_until > far)
    return and_(rows.holder.is_not(None), is_past)


def _is_ready(now: Any, far: Any) -> ColumnElement[bool]:
    """Return whether a node may try to send it."""
    return or_(and_(notifications.c.holder.is_(None), _is_due(now, far)), _is_over(now, far))


_READY = _is_ready(bindparam("now", type_=Instant()), bindparam("far", type_=Instant()))


@dataclass(frozen=True)
class Claim:
    """Notifications that one node holds."""

    channel: str
    holder: str
    rows: Sequence[Notification]
    """In the order of their IDs."""
    is_repeated: bool = False
    """Whether they were sent before, but it is not known whether they arrived."""

    @property
    def ids(self) -> list[int]:
        """The IDs of the notifications."""
        return [row.id for row in self.rows]


def claim_alerts(
    connection: Connection, database: Database, channel: str, holder: str, now: datetime, pause: float
) -> Claim:
    """Claim what the next message about alerts says, if the channel was silent for `pause` seconds.

    The first notification waits `GATHER` seconds for others. After a failure, all wait for the next try.
    """
    database.lock_channel(connection, channel)
    rows = notifications.c
    of_channel = and_(rows.channel == channel, text(UNSENT), rows.kind != OUTPUT)
    sent = and_(rows.channel == channel, rows.kind != OUTPUT, rows.sent_at > now - timedelta(seconds=pause))
    sent = and_(sent, rows.sent_at <= now)  # later ones were sent while the clock was ahead
    if _exists(connection, select(rows.id).where(sent)):
        return Claim(channel, holder, ())
    far = now + _FAR
    repeated = _hold(connection, select(rows.id).where(of_channel, _is_over(now, far)), holder, now)
    if repeated:
        return Claim(channel, holder, repeated, is_repeated=True)
    is_due = _is_due(now, far)
    blocked = or_(rows.holder.is_not(None), and_(rows.tries > 0, not_(is_due)))
    ripe = or_(_is_due(now - timedelta(seconds=GATHER), far), and_(rows.tries > 0, is_due))
    if _exists(connection, select(rows.id).where(of_channel, blocked)) or not _exists(
        connection, select(rows.id).where(of_channel, ripe)
    ):
        return Claim(channel, holder, ())
    waiting = select(rows.id).where(of_channel, is_due).order_by(rows.id).limit(MOST_GROUPED)
    return Claim(channel, holder, _hold(connection, waiting, holder, now))


def claim_outputs(
    connection: Connection, database: Database, channel: str, holder: str, now: datetime
) -> Claim:
    """Claim outputs of runs, each of which is a message."""
    database.lock_channel(connection, channel)
    rows = notifications.c
    of_channel = and_(rows.channel == channel, text(UNSENT), rows.kind == OUTPUT)
    waiting = select(rows.id).where(of_channel, _is_ready(now, now + _FAR))
    waiting = waiting.order_by(rows.id).limit(MOST_OUTPUTS)
    return Claim(channel, holder, _hold(connection, waiting, holder, now))


def _exists(connection: Connection, query: Select[Any]) -> bool:
    return connection.execute(query.limit(1)).first() is not None


def _hold(connection: Connection, ids: Select[Any], holder: str, now: datetime) -> list[Notification]:
    taken = update(notifications).where(notifications.c.id.in_(ids.scalar_subquery()))
    taken = taken.values(
        holder=holder, held_until=now + timedelta(seconds=HOLD), tries=notifications.c.tries + 1
    )
    found = map(from_row, connection.execute(taken.returning(*COLUMNS)))
    return sorted(found, key=lambda row: row.id)


def sent(connection: Connection, claim: Claim, ids: Collection[int], now: datetime) -> bool:
    """Record that they were sent; return False if another node has taken them meanwhile."""
    values = {"sent_at": now, "sent_by": claim.holder, "error": None, **_FREE}
    return connection.execute(_held(claim, ids).values(values)).rowcount == len(ids)


def failed(
    connection: Connection,
    claim: Claim,
    ids: Collection[int],
    now: datetime,
    error: str,
    retry_after: float | None = None,
) -> None:
    """Record that they were not sent, and when the next try is due: in `retry_after` seconds or later."""
    asked = timedelta(seconds=min(retry_after or 0.0, _FAR.total_seconds()))
    due_at = now + max(_backoff(claim, ids), asked)
    connection.execute(_held(claim, ids).values(due_at=due_at, error=error[:_LONGEST_ERROR], **_FREE))


def unknown(connection: Connection, claim: Claim, ids: Collection[int], now: datetime, error: str) -> None:
    """Record that they may have been sent. They are sent again as the same message."""
    until = now + _backoff(claim, ids)
    connection.execute(_held(claim, ids).values(held_until=until, error=error[:_LONGEST_ERROR]))


def release(connection: Connection, claim: Claim) -> None:
    """Give back the notifications of a claim that were not tried. Another node may claim them at once."""
    free = {"held_until": None} if claim.is_repeated else _FREE
    connection.execute(_held(claim, claim.ids).values(tries=notifications.c.tries - 1, **free))


def pause(connection: Connection) -> float:
    """Return the shortest time between two messages by one channel, in seconds."""
    value = settings.read(connection, SETTINGS["notify.pause"])
    return DEFAULT_PAUSE if value is None else float(value)


def give_up(
    connection: Connection, now: datetime, channel: str | None = None
) -> list[tuple[str, str | None]]:
    """Give up what could not be sent for a day, of one channel or of all; return channels and last errors.

    The channel of the setting `notify.fallback` gets the notifications, unless it is the one that failed.
    """
    rows = notifications.c
    old = to_give_up(now)
    if channel is not None:
        old = old.where(rows.channel == channel)
    ids = old.order_by(rows.channel, rows.due_at).limit(MOST_GROUPED).scalar_subquery()
    gone = update(notifications).where(rows.id.in_(ids)).values(gave_up_at=now, **_FREE)
    given_up = [from_row(row) for row in connection.execute(gone.returning(*COLUMNS))]
    fallback = settings.read(connection, SETTINGS["notify.fallback"]) if given_up else None
    if fallback not in (None, NONE):
        copies = [_copy(row, fallback, now) for row in given_up if row.channel != fallback]
        if copies:
            connection.execute(insert(notifications), copies)
    return sorted({row.channel: row.error for row in given_up}.items())


def to_give_up(now: datetime) -> Select[tuple[int]]:
    """Select the ids of notifications that could not be sent for a day."""
    rows = notifications.c
    free = or_(rows.holder.is_(None), rows.held_until < now)
    return select(rows.id).where(text(UNSENT), rows.created_at < now - GIVE_UP, free)


def _copy(row: Notification, channel: str, now: datetime) -> dict[str, Any]:
    about = {name: getattr(row, name) for name in ("alert_id", "run_id", "task_id", "kind")}
    known = row.facts if isinstance(row.facts, Mapping) else {}  # a row edited by hand may hold anything
    facts = {**known, "undeliverable": row.channel}
    return {**about, "channel": channel, "created_at": now, "due_at": now, "facts": facts}


def add_test(connection: Connection, channel: str, actor: str, now: datetime) -> int:
    """Insert the notification of a test, which waits for no others; return its ID."""
    values = {"channel": channel, "kind": OUTPUT, "created_at": now, "due_at": now, "facts": {TEST: actor}}
    inserted = insert(notifications).values(values).returning(notifications.c.id)
    return int(connection.execute(inserted).scalar_one())


def withdraw(connection: Connection, notification_id: int, now: datetime) -> None:
    """Do not send it, unless it was sent already."""
    unsent = update(notifications).where(notifications.c.id == notification_id, text(UNSENT))
    connection.execute(unsent.values(gave_up_at=now, **_FREE))


def by_id(connection: Connection, notification_id: int) -> Notification | None:
    """Return a notification; None if it is gone."""
    row = connection.execute(select(*COLUMNS).where(notifications.c.id == notification_id)).first()
    return from_row(row) if row else None


@dataclass(frozen=True)
class ChannelFigures:
    """How many notifications wait for one channel, and the last success or failure."""

    waiting: int = 0
    sent_at: datetime | None = None
    """When the last one was sent."""
    error: str | None = None
    """Why the last try failed, unless everything was sent since then."""


def figures(connection: Connection, channels: Iterable[str]) -> dict[str, ChannelFigures]:
    """Return the figures of these channels, and of all others for which something waits."""
    rows = notifications.c
    waiting = select(rows.channel, func.count()).where(text(UNSENT)).group_by(rows.channel)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(waiting)}
    found = {}
    for name in sorted({*channels, *counts}):
        of_channel = rows.channel == name
        last = connection.scalar(select(func.max(rows.sent_at)).where(of_channel, rows.sent_at.is_not(None)))
        failed = select(rows.error).where(of_channel, rows.sent_at.is_(None), rows.error.is_not(None))
        if last:  # errors of what was given up before that are over
            failed = failed.where(or_(rows.gave_up_at.is_(None), rows.gave_up_at > last))
        error = connection.scalar(failed.order_by(rows.id.desc()).limit(1))
        found[name] = ChannelFigures(counts.get(name, 0), last, error)
    return found


_FREE: Mapping[str, Any] = {"holder": None, "held_until": None}


def _held(claim: Claim, ids: Collection[int]) -> Update:
    rows = notifications.c
    return update(notifications).where(rows.id.in_(ids), rows.holder == claim.holder, text(UNSENT))


def _backoff(claim: Claim, ids: Collection[int]) -> timedelta:
    return retries.notification_delay(max(row.tries for row in claim.rows if row.id in ids))
