"""The loop that sends notifications by the channels of its node.

Each channel that is sending has a thread, and a child process with a time limit sends each message: a channel
that hangs delays neither a heartbeat nor another channel. The heartbeat checks, in a statement that it sends
anyway, whether a notification waits. So an idle agent sends no statement for notifications.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any

from sqlalchemy import Connection

from dcron.agent.log import log
from dcron.config.channels import Channel, offered
from dcron.database import Database
from dcron.errors import ROW_ERRORS, DatabaseError, DcronError, NotFound, unexpected
from dcron.model import Notification
from dcron.notifying import Delivery, Message, Outcome, Result
from dcron.notifying.client import LIMIT
from dcron.policy.channels import addresses_of, is_mail
from dcron.presentation import alert_message, cron_mail
from dcron.presentation.humanize import plural
from dcron.store.alerts import facts as alert_facts
from dcron.store.alerts import listing as alert_list
from dcron.store.alerts import notifications, output_mail, undeliverable
from dcron.store.alerts.notifications import OUTPUT, Claim
from dcron.values.safe_text import safe

MOST_AT_ONCE = 4
"""Most channels by which one node sends at once. The others wait in the order in which they were found."""
_LAST_SECONDS = 5.0
"""Seconds that a stopping agent waits for a message on its way."""
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between tries to record the result of a message. Then another node sends it again."""
Group = Sequence[Notification]
"""The notifications of one message."""


class Notifier:
    """Sends the notifications of one node: by several channels at once, one message at a time by each."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        channels: Sequence[Channel] = (),
        *,
        strict: bool = False,
        limit: float = LIMIT,
    ) -> None:
        """With `strict`, files that other accounts can change are refused. `limit`: seconds for a message."""
        self._database = database
        self._node_id = node_id
        self._channels = {channel.name: channel for channel in channels}
        self._mail = next((channel for channel in channels if channel.kind == "mail"), None)
        self.names = offered(list(channels))
        self._strict = strict
        self._limit = limit
        self._wake = threading.Event()
        self._lock = threading.Lock()
        """Guards `_due`, `_senders` and `children`."""
        self._due: dict[str, None] = {}
        """The channels that wait for a thread, in the order in which they were found."""
        self._senders: dict[str, threading.Thread] = {}
        """The threads that send, by the `_route` of their channel."""
        self.children: frozenset[int] = frozenset()
        """The pids of child processes that only these threads wait for."""
        self._transaction = threading.Lock()
        """One transaction at a time: sending needs one connection, however many channels are under way."""
        self.draining = False
        """A draining node claims nothing new."""

    def wake(self) -> None:
        """Send what waits, as soon as there is time; or end."""
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Send what waits until `stop` is set and `wake` called. An error does not end the node."""
        while not stop.is_set():
            self._wake.wait()
            self._wake.clear()
            if not stop.is_set():
                self.step(stop)
        self.join()

    def step(self, stop: threading.Event) -> None:
        """Begin to send what waits: by each channel one message, and some outputs of runs."""
        try:
            with self._reading() as (connection, now):
                waiting = notifications.waiting_channels(connection, self.names, now)
            with self._lock:
                self._due |= dict.fromkeys(waiting)
                self._begin(stop)
        except Exception as error:  # the next heartbeat tries again
            _report_error(error)

    def join(self) -> None:
        """Wait until nothing is being sent any more."""
        while True:
            with self._lock:
                senders = list(self._senders.values())
            if not senders:
                return
            for sender in senders:
                sender.join()

    def _begin(self, stop: threading.Event) -> None:
        """Start a thread for each channel that may send now. The caller holds `_lock`."""
        for name in list(self._due):
            if len(self._senders) >= MOST_AT_ONCE:
                return
            if (route := self._route(name)) not in self._senders:
                del self._due[name]
                sender = threading.Thread(
                    target=self._serve, args=(name, route, stop), name=f"dcron-notifier-{route}", daemon=True
                )
                sender.start()
                self._senders[route] = sender

    def _route(self, name: str) -> str:
        """Return the configured channel by which a channel sends: one mail server serves all addresses."""
        return self._mail.name if self._mail and is_mail(name) else name

    def _serve(self, name: str, route: str, stop: threading.Event) -> None:
        """Send what waits for one channel; then let the next channel begin."""
        try:
            for claim in (self._claim_alerts, self._claim_outputs):
                if self._is_ending(stop):
                    break
                self._send(claim(name), stop)
        except Exception as error:  # the next heartbeat finds the rest
            _report_error(error)
        finally:
            with self._lock:
                del self._senders[route]
                if self._is_ending(stop):
                    self._due.clear()
                else:
                    self._begin(stop)

    def _is_ending(self, stop: threading.Event) -> bool:
        return stop.is_set() or self.draining

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, datetime]]:
        with self._transaction, self._database.read() as connection:
            yield connection, self._database.now(connection)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Connection, datetime]]:
        with self._transaction, self._database.write() as connection:
            yield connection, self._database.now(connection)

    def _claim_alerts(self, name: str) -> Claim:
        with self._writing() as (connection, now):
            pause = notifications.pause(connection)
            return notifications.claim_alerts(connection, self._database, name, self._node_id, now, pause)

    def _claim_outputs(self, name: str) -> Claim:
        with self._writing() as (connection, now):
            return notifications.claim_outputs(connection, self._database, name, self._node_id, now)

    def _send(self, claim: Claim, stop: threading.Event) -> None:
        """Send the claimed notifications, and record the results."""
        if not claim.rows:
            return
        began = monotonic()
        groups = _groups(claim.rows)
        try:
            results = self._results(claim, groups, began, stop)
        except DatabaseError as error:
            log.warning("notifications: %s", error, event="notification-failed")
            results = None
        except Exception as error:
            expected = isinstance(error, (DcronError, OSError))
            failure = Result(Outcome.FAILED, str(error) if expected else unexpected(error))
            results = [failure for _ in groups]
        if results is None:
            self._record(lambda connection, _: notifications.release(connection, claim), stop)
            return
        outcomes = list(zip(groups, results, strict=True))
        self._record(lambda connection, now: self._settle(connection, claim, outcomes, now), stop)
        for group, result in outcomes:
            _report(claim.channel, group, result)

    def _results(
        self, claim: Claim, groups: Sequence[Group], began: float, stop: threading.Event
    ) -> list[Result] | None:
        """Send the messages and return their results, or None if there is no time left to send them."""
        channel = self._mail if is_mail(claim.channel) else self._channels.get(claim.channel)
        if channel is None:
            raise NotFound(f"{self._node_id} has no channel {claim.channel}")
        options = channel.resolved(os.environ, strict=self._strict)
        results: list[Result | None] = [None] * len(groups)
        messages: dict[int, Message] = {}
        with self._reading() as (connection, now):
            for number, group in enumerate(groups):
                try:
                    messages[number] = _message(connection, claim.channel, group, now, options.get("from"))
                except ROW_ERRORS as error:  # rows edited by hand: they must not hold up the others
                    results[number] = Result(Outcome.FAILED, unexpected(error))
        if self._is_ending(stop) or monotonic() - began > notifications.HOLD - self._limit:
            return None  # the hold would be over before the result is known
        if messages:
            delivery = Delivery(claim.channel, channel.kind, options, list(messages.values()), self._limit)
            with self._lock:
                self.children |= {delivery.pid}
            try:
                found = delivery.results(_Patience(stop).is_over)
            finally:
                with self._lock:
                    self.children -= {delivery.pid}
            for number, result in zip(messages, found, strict=True):
                results[number] = _inert(result)
        return [result for result in results if result]

    def _settle(
        self,
        connection: Connection,
        claim: Claim,
        outcomes: Sequence[tuple[Group, Result]],
        now: datetime,
    ) -> None:
        for group, result in outcomes:
            ids, error = [row.id for row in group], result.error or ""
            if result.outcome is Outcome.SENT:
                notifications.sent(connection, claim, ids, now)
            elif result.outcome is Outcome.FAILED:
                notifications.failed(connection, claim, ids, now, error, result.retry_after)
            else:
                notifications.unknown(connection, claim, ids, now, error)
        if any(result.outcome is Outcome.SENT for _, result in outcomes):
            undeliverable.close_alert(connection, self._database, claim.channel, now)
        else:
            undeliverable.give_up(connection, self._database, now, claim.channel)

    def _record(self, write: Callable[[Connection, datetime], None], stop: threading.Event) -> None:
        """Record the results of a claim. If the database does not answer in time, the hold runs out."""
        for pause in (*_PAUSES, None):
            try:
                with self._writing() as (connection, now):
                    write(connection, now)
                return
            except DatabaseError as error:
                if pause is None or stop.wait(pause):
                    log.warning(
                        "notifications: not recorded, so they are sent again: %s",
                        error,
                        event="notification-not-recorded",
                    )
                    return


def _report_error(error: Exception) -> None:
    reason = error if isinstance(error, DcronError) else unexpected(error)
    log.warning("notifications: %s", reason, event="notification-failed")


def _inert(result: Result) -> Result:
    """Return the result with texts that are safe to print and to store, whatever the channel has answered."""
    return replace(
        result, error=result.error and safe(result.error), detail=result.detail and safe(result.detail)
    )


class _Patience:
    """How long a stopping agent waits for a message on its way."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._since: float | None = None

    def is_over(self) -> bool:
        """Return whether the agent has been stopping for too long."""
        if self._since is None and self._stop.is_set():
            self._since = monotonic()
        return self._since is not None and monotonic() - self._since > _LAST_SECONDS


def _groups(rows: Sequence[Notification]) -> list[Group]:
    """Group the notifications into messages: each output of a run is a message of its own."""
    outputs = [[row] for row in rows if row.kind == OUTPUT]
    alerts = [row for row in rows if row.kind != OUTPUT]
    return [*outputs, alerts] if alerts else list(outputs)


def _message(
    connection: Connection, channel: str, group: Group, now: datetime, sender: str | None
) -> Message:
    """Return the message about these notifications. Its ID is the same whichever node sends it."""
    if group[0].kind == OUTPUT and notifications.TEST not in group[0].facts:
        message = _output_message(connection, group[0], sender)
    else:
        message = alert_message.compose(alert_items(connection, group, now))
    return replace(
        message,
        id=message_id(group),
        to=addresses_of(channel) or message.to,
        facts={**message.facts, "notifications": [_facts(row) for row in group]},
    )


def alert_items(connection: Connection, rows: Group, now: datetime) -> list[alert_message.AlertItem]:
    """Return the notifications with what is known of their alerts. The number of statements is bounded."""
    found = alert_list.by_ids(connection, {row.alert_id for row in rows if row.alert_id is not None})
    is_detailed = len(found) <= alert_message.MOST_IN_FULL
    facts = alert_facts.read(connection, found, now, with_output=is_detailed)
    by_id = {each.alert.id: each for each in facts}
    return [alert_message.AlertItem(row, by_id.get(row.alert_id or 0), now) for row in rows]


def _output_message(connection: Connection, row: Notification, sender: str | None) -> Message:
    """Return the output of a run as cron mails it."""
    run_id = row.run_id or 0
    found = output_mail.read(connection, run_id, cron_mail.LONGEST_BODY)
    if found is None:
        return Message("", f"[dcron] the output of run {run_id} is pruned", "It was not sent in time.\n")
    facts = row.facts if isinstance(row.facts, Mapping) else {}  # a row edited by hand may hold anything
    mail = cron_mail.compose(found.command, found.env, facts, found.data, found.total_bytes, run_id, sender)
    return Message("", mail.subject, mail.text, headers=mail.headers)


def message_id(group: Group) -> str:
    """Return a name for exactly these notifications, which no other crontab has."""
    first, last = group[0], group[-1]
    return f"{first.id}-{last.id}.{int(first.created_at.timestamp() * 1_000_000):x}"


def _facts(row: Notification) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("id", "kind", "alert_id", "run_id", "task_id")}


def _report(channel: str, group: Group, result: Result) -> None:
    """Log the result of a message."""
    what = plural(len(group), "notification")
    if result.outcome is Outcome.SENT:
        level = logging.WARNING if result.detail else logging.INFO
        detail = f", but {result.detail}" if result.detail else ""
        log.log(level, "channel %s: sent %s%s", channel, what, detail, event="notification-sent")
        return
    log.warning(
        "channel %s: %s %s: %s%s",
        channel,
        what,
        "may not have arrived" if result.outcome is Outcome.UNKNOWN else "not sent",
        result.error,
        f" ({result.detail})" if result.detail else "",
        event="notification-failed",
    )
