"""The outbox: what waits for a channel is one message, sent by one node, at least once, with a stable ID."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from dcron.agent import notifier as notifier_module
from dcron.agent.notifier import MOST_AT_ONCE, Notifier
from dcron.config.channels import Channel
from dcron.errors import DatabaseError, NotFound
from dcron.model import Notification
from dcron.notifying import Message, Outcome, Result
from dcron.schema.tables import alerts, nodes, notifications
from dcron.services.channels import Channels
from dcron.services.settings import SharedSettings
from dcron.store.alerts import notifications as outbox
from dcron.store.upkeep import steps as upkeep
from tests.support.cluster import wait_for
from tests.support.stage import Stage

GOOD = Result(Outcome.SENT)
BAD = Result(Outcome.FAILED, "the pager is off", "a detail")
SILENT = Result(Outcome.UNKNOWN, "no answer within 30 seconds")
OPS = Channel("ops", "command", {"command": "page"})
MAIL = Channel("post", "mail", {"to": "ops@example.org"})


class Outside:
    """What the channels have received, and what they answer."""

    def __init__(self) -> None:
        self.received: list[tuple[str, Message]] = []
        self.answer: Callable[[Message], Result] = lambda _: GOOD

    @property
    def ids(self) -> list[str]:
        return [message.id for _, message in self.received]

    @property
    def notified(self) -> list[list[int]]:
        """The IDs of the notifications in each message."""
        return [[each["id"] for each in message.facts["notifications"]] for _, message in self.received]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    """The world outside; no process is started."""
    outside = Outside()

    class FakeDelivery:
        pid = 1

        def __init__(
            self, name: str, kind: str, options: Mapping[str, Any], messages: Sequence[Message], limit: float
        ) -> None:
            self._name, self._messages = name, messages

        def results(self, _: Callable[[], bool]) -> list[Result]:
            outside.received += [(self._name, message) for message in self._messages]
            return [outside.answer(message) for message in self._messages]

    monkeypatch.setattr("dcron.agent.notifier.Delivery", FakeDelivery)
    return outside


def notifier(stage: Stage, name: str = "web-1", *channels: Channel) -> Notifier:
    """Return the notifier of a node with the channel `ops`, or with these."""
    return Notifier(stage.database, name, channels or (OPS,))


def step(node: Notifier) -> None:
    """Let a node send what waits."""
    node.step(threading.Event())
    node.join()


def notify(
    stage: Stage, count: int = 1, channel: str = "ops", kind: str = "opened", **values: Any
) -> list[int]:
    """Insert notifications, and an alert for each."""
    ids = []
    with stage.database.write() as connection:
        for number in range(count):
            times = {"opened_at": stage.now, "last_at": stage.now}
            about = {"kind": "failing", "subject": f"task:{number}", "task": f"backup-{number}"}
            alert = insert(alerts).values(**about, **times, closed_at=stage.now)
            alert_id = connection.execute(alert.returning(alerts.c.id)).scalar_one()
            row = {"alert_id": alert_id, "channel": channel, "kind": kind}
            row |= {"created_at": stage.now, "due_at": stage.now, **values}
            added = insert(notifications).values(row).returning(notifications.c.id)
            ids.append(int(connection.execute(added).scalar_one()))
    return ids


def rows(stage: Stage) -> list[Notification]:
    """Return all notifications."""
    with stage.database.read() as connection:
        found = connection.execute(select(*outbox.COLUMNS).order_by(notifications.c.id))
        return [outbox.from_row(row) for row in found]


def test_notifications_gather_into_one_message(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    first = notify(stage, 3)
    stage.forward(seconds=9)
    second = notify(stage, 2)
    step(node)
    assert outside.received == [], "the first one waits for others"
    stage.forward(seconds=1)
    step(node)
    assert outside.notified == [[*first, *second]]
    assert {(row.sent_at, row.sent_by, row.holder, row.tries) for row in rows(stage)} == {
        (stage.now, "web-1", None, 1)
    }
    ((_, message),) = outside.received
    assert message.subject == "[dcron] 5 tasks FAILING"


def test_a_channel_pauses_between_messages(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    notify(stage)
    stage.forward(seconds=10)
    step(node)
    later = notify(stage, 2)
    stage.forward(seconds=59)
    step(node)
    assert len(outside.received) == 1
    stage.forward(seconds=2)
    step(node)
    assert outside.notified[1:] == [later]
    SharedSettings(stage.crontab).set("notify.pause", "10m")
    notify(stage)
    stage.forward(seconds=300)
    step(node)
    assert len(outside.received) == 2
    stage.forward(seconds=301)
    step(node)
    assert len(outside.received) == 3


def test_channels_do_not_wait_for_each_other(stage: Stage, outside: Outside) -> None:
    node = notifier(stage, "web-1", OPS, MAIL)
    for channel in ("ops", "post", "mailto:ann@example.org", "elsewhere"):
        notify(stage, channel=channel)
    stage.forward(seconds=10)
    step(node)
    assert sorted((name, message.to) for name, message in outside.received) == [
        ("mailto:ann@example.org", ("ann@example.org",)),
        ("ops", ()),
        ("post", ()),
    ]
    assert [row.channel for row in rows(stage) if not row.sent_at] == ["elsewhere"]


class Hanging:
    """An answer that some channels do not give before the test says so."""

    def __init__(self, outside: Outside, *channels: str) -> None:
        self.go_on = threading.Event()
        self.under_way: list[str] = []
        self._outside, self._channels = outside, channels
        outside.answer = self._answer

    def _answer(self, message: Message) -> Result:
        name = next(name for name, each in self._outside.received if each.id == message.id)
        if not self._channels or name in self._channels:
            self.under_way.append(name)
            assert self.go_on.wait(60)
        return GOOD


def test_a_channel_that_hangs_delays_no_other(stage: Stage, outside: Outside) -> None:
    hanging = Hanging(outside, "ops")
    node, stop = notifier(stage, "web-1", OPS, MAIL), threading.Event()
    notify(stage, channel="ops")
    stage.forward(seconds=10)
    node.step(stop)
    wait_for(lambda: hanging.under_way, 60, "the first channel hangs")
    notify(stage, channel="post", kind="output")
    notify(stage, channel="mailto:ann@example.org", kind="output")
    node.step(stop)
    wait_for(lambda: [row.sent_at for row in rows(stage)[1:]] == [stage.now] * 2, 60, "the others send")
    assert rows(stage)[0].holder == "web-1"
    hanging.go_on.set()
    node.join()
    assert all(row.sent_at for row in rows(stage))


def test_a_few_channels_send_at_once_and_the_others_follow(stage: Stage, outside: Outside) -> None:
    hanging = Hanging(outside)
    names = [f"c{number}" for number in range(MOST_AT_ONCE + 3)]
    channels = [Channel(name, "command", {"command": "page"}) for name in names]
    node = notifier(stage, "web-1", *channels)
    for name in names:
        notify(stage, channel=name)
    stage.forward(seconds=10)
    node.step(threading.Event())
    wait_for(lambda: len(hanging.under_way) == MOST_AT_ONCE, 60, "a few channels send")
    node.step(threading.Event())  # no channel is asked twice
    assert sorted(hanging.under_way) == names[:MOST_AT_ONCE]
    hanging.go_on.set()
    node.join()
    assert sorted(hanging.under_way) == names
    assert {(row.tries, row.sent_by) for row in rows(stage)} == {(1, "web-1")}


def test_all_addresses_send_by_one_mail_server_in_turn(stage: Stage, outside: Outside) -> None:
    hanging = Hanging(outside)
    node = notifier(stage, "web-1", OPS, MAIL)
    for name in ("mailto:ann@example.org", "mailto:bob@example.org", "post", "ops"):
        notify(stage, channel=name)
    stage.forward(seconds=10)
    node.step(threading.Event())
    wait_for(lambda: len(hanging.under_way) == 2, 60, "both channels send")
    assert sorted(hanging.under_way) == ["mailto:ann@example.org", "ops"]
    hanging.go_on.set()
    node.join()
    assert len(outside.received) == 4


@pytest.mark.parametrize("drains", [False, True])
def test_a_node_that_ends_begins_no_further_channel(stage: Stage, outside: Outside, drains: bool) -> None:
    hanging = Hanging(outside)
    node, stop = notifier(stage, "web-1", OPS, MAIL), threading.Event()
    for name in ("ops", "post", "mailto:ann@example.org"):
        notify(stage, channel=name)
    stage.forward(seconds=10)
    node.step(stop)
    wait_for(lambda: len(hanging.under_way) == 2, 60, "both channels send")
    node.draining = drains
    if not drains:
        stop.set()
    hanging.go_on.set()
    node.join()
    waiting = [row for row in rows(stage) if row.sent_at is None]
    assert [(row.tries, row.holder) for row in waiting] == [(0, None)], "what is under way is sent"


def test_many_are_sent_in_parts(stage: Stage, outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_GROUPED", 3)
    node = notifier(stage)
    ids = notify(stage, 5)
    stage.forward(seconds=10)
    step(node)
    stage.forward(seconds=61)
    step(node)
    assert outside.notified == [ids[:3], ids[3:]]


def test_two_nodes_send_no_message_twice(stage: Stage, outside: Outside) -> None:
    nodes = [notifier(stage, f"web-{number}") for number in range(4)]
    ids = notify(stage, 40)
    stage.forward(seconds=10)
    threads = [threading.Thread(target=step, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outside.notified == [ids]


def test_a_failure_is_tried_again_later_each_time(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    (first,) = notify(stage)
    stage.forward(seconds=10)
    outside.answer = lambda _: BAD
    pauses = []
    for _ in range(6):
        step(node)
        (row,) = rows(stage)
        assert (row.error, row.holder, row.sent_at) == ("the pager is off", None, None)
        pauses.append((row.due_at - stage.now).total_seconds())
        stage.now = row.due_at - timedelta(seconds=1)
        step(node)
        stage.forward(seconds=1)
    assert pauses == [30, 120, 480, 1920, 1920, 1920]
    assert len(outside.received) == 6
    notify(stage)
    outside.answer = lambda _: GOOD
    step(node)
    assert outside.notified[-1] == [first, first + 1], "what has come meanwhile goes with it"
    assert {row.error for row in rows(stage)} == {None}


def test_a_receiver_that_asks_for_time_gets_it(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    notify(stage)
    stage.forward(seconds=10)
    for asked, wait in ((600.0, 600), (5.0, 120), (86_400.0, 3600)):
        outside.answer = lambda _, asked=asked: replace(BAD, retry_after=asked)  # type: ignore[misc]
        tried = len(outside.received)
        step(node)
        assert len(outside.received) == tried + 1
        stage.forward(seconds=wait - 1)
        step(node)
        assert len(outside.received) == tried + 1
        stage.forward(seconds=1)


def test_new_notifications_wait_for_a_channel_that_fails(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    notify(stage)
    stage.forward(seconds=10)
    outside.answer = lambda _: BAD
    step(node)
    notify(stage)
    stage.forward(seconds=20)
    step(node)
    assert len(outside.received) == 1
    stage.forward(seconds=10)
    step(node)
    assert len(outside.notified[1]) == 2
    assert outside.ids[0] != outside.ids[1], "another message has another ID"


def test_without_an_answer_the_same_message_is_sent_again(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    ids = notify(stage, 2)
    stage.forward(seconds=10)
    outside.answer = lambda _: SILENT
    step(node)
    notify(stage)
    stage.forward(seconds=31)
    outside.answer = lambda _: GOOD
    step(node)
    assert outside.notified == [ids, ids], "a receiver may drop the second one"
    assert outside.ids[0] == outside.ids[1]


def test_a_sender_that_died_is_succeeded(stage: Stage, outside: Outside) -> None:
    ids = notify(stage, 2)
    stage.forward(seconds=10)
    with stage.database.write() as connection:
        claim = outbox.claim_alerts(connection, stage.database, "ops", "dead-1", stage.now, 60)
    assert claim.ids == ids
    notify(stage)
    node = notifier(stage)
    stage.forward(seconds=59)
    step(node)
    assert outside.received == [], "nothing else is sent while the other node may be sending"
    stage.forward(seconds=2)
    step(node)
    assert outside.notified == [ids]
    with stage.database.write() as connection:
        assert not outbox.sent(connection, claim, ids, stage.now), "too late: another node has sent them"
    assert [row.sent_by for row in rows(stage)] == ["web-1", "web-1", None]


def test_after_a_day_a_channel_gives_up(stage: Stage, outside: Outside) -> None:
    SharedSettings(stage.crontab).set("notify.fallback", "post")
    node = notifier(stage, "web-1", OPS, MAIL)
    ids = notify(stage, 2)
    outside.answer = lambda message: GOOD if message.to or "post" in message.subject else BAD
    stage.forward(seconds=10)
    step(node)
    stage.forward(hours=24)
    step(node)
    assert [row.gave_up_at for row in rows(stage)[:2]] == [stage.now, stage.now]
    copies = rows(stage)[2:]
    assert [(row.channel, row.facts) for row in copies] == [("post", {"undeliverable": "ops"})] * 2
    assert [row.alert_id for row in copies] == [row.alert_id for row in rows(stage)[:2]]
    stage.forward(hours=24, seconds=10)
    outside.answer = lambda _: BAD
    step(node)
    stage.forward(hours=1)
    step(node)
    assert len(rows(stage)) == len(ids) * 2, "the fallback has no fallback"
    assert open_alerts(stage) == {"channel:ops": "the pager is off", "channel:post": "the pager is off"}
    outside.answer = lambda _: GOOD
    notify(stage)
    stage.forward(seconds=61)
    step(node)
    assert list(open_alerts(stage)) == ["channel:post"]


def test_a_fallback_of_none_gets_no_copies(stage: Stage, outside: Outside) -> None:
    SharedSettings(stage.crontab).set("notify.fallback", "none")
    node = notifier(stage, "web-1", OPS)
    (waiting,) = notify(stage)
    outside.answer = lambda _: BAD
    stage.forward(hours=24, seconds=10)
    step(node)
    assert [(row.id, row.gave_up_at) for row in rows(stage)] == [(waiting, stage.now)]


def open_alerts(stage: Stage) -> dict[str, Any]:
    """Return the errors of the open alerts about channels, by subject."""
    with stage.database.read() as connection:
        still_open = select(alerts).where(alerts.c.closed_at.is_(None)).order_by(alerts.c.subject)
        found = connection.execute(still_open).all()
    assert {row.kind for row in found} <= {"undeliverable"}
    return {row.subject: row.facts["error"] for row in found}


def test_the_alert_about_a_channel_is_not_sent_by_it(stage: Stage, outside: Outside) -> None:
    SharedSettings(stage.crontab).set("notify.default", "ops,post")
    notify(stage)
    stage.forward(hours=24, seconds=1)
    outside.answer = lambda _: BAD
    step(notifier(stage))
    (_, added) = rows(stage)
    assert (added.channel, added.kind) == ("post", "opened")


def test_outputs_are_messages_of_their_own_without_a_pause(stage: Stage, outside: Outside) -> None:
    node = notifier(stage, "web-1", MAIL)
    channel = "mailto:ann@example.org"
    first = notify(stage, 3, channel, "output")
    outside.answer = lambda message: BAD if message.id.startswith(f"{first[1]}-") else GOOD
    step(node)
    second = notify(stage, 1, channel, "output")
    step(node)
    assert outside.notified == [[each] for each in (*first, *second)]
    assert [row.sent_at is None for row in rows(stage)] == [False, True, False, False]
    stage.forward(seconds=30)
    outside.answer = lambda _: GOOD
    step(node)
    assert outside.ids[-1] == outside.ids[1]


def test_a_draining_node_claims_nothing(stage: Stage, outside: Outside) -> None:
    node = notifier(stage)
    notify(stage)
    stage.forward(seconds=10)
    node.draining = True
    step(node)
    assert (outside.received, rows(stage)[0].tries) == ([], 0)


@pytest.mark.parametrize("drains", [False, True])
def test_a_node_that_ends_returns_what_it_has_not_tried(stage: Stage, outside: Outside, drains: bool) -> None:
    node, stop = notifier(stage), threading.Event()
    notify(stage)
    stage.forward(seconds=10)
    with stage.database.write() as connection:
        claim = outbox.claim_alerts(connection, stage.database, "ops", "web-1", stage.now, 60)
    node.draining = drains
    if not drains:
        stop.set()
    node._send(claim, stop)
    (row,) = rows(stage)
    assert (outside.received, row.tries, row.holder) == ([], 0, None)


def test_a_channel_that_cannot_be_read_is_a_failure(stage: Stage, outside: Outside, tmp_path: Path) -> None:
    gone = Channel("ops", "apprise", {"url_file": str(tmp_path / "gone")})
    node = notifier(stage, "web-1", gone)
    notify(stage)
    stage.forward(seconds=10)
    step(node)
    assert (
        str(rows(stage)[0].error) == f"channel ops: url_file {tmp_path / 'gone'}: No such file or directory"
    )


def test_a_result_that_cannot_be_recorded_at_once_is_recorded_later(
    stage: Stage, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcron.agent.notifier._PAUSES", (0.0, 0.0))
    failures = [DatabaseError("away"), DatabaseError("away")]
    real = outbox.sent

    def sent(*given: Any) -> bool:
        if failures:
            raise failures.pop()
        return real(*given)

    monkeypatch.setattr(outbox, "sent", sent)
    notify(stage)
    stage.forward(seconds=10)
    step(notifier(stage))
    assert rows(stage)[0].sent_at == stage.now


def test_times_of_a_clock_that_was_ahead_delay_nothing(stage: Stage, outside: Outside) -> None:
    notify(stage, sent_at=stage.now + timedelta(days=400))
    notify(stage, holder="dead-1", held_until=stage.now + timedelta(days=400))
    stage.forward(seconds=11)
    step(notifier(stage))
    stage.forward(seconds=1)
    step(notifier(stage))
    assert len(outside.received) == 1


def test_the_heartbeat_finds_what_waits(stage: Stage) -> None:
    stage.node()
    (node_id,) = stage_nodes(stage)

    def waits(*channels: str) -> bool:
        with stage.database.read() as connection:
            database, now = stage.database, stage.now
            found = upkeep.take_upkeep(connection, database, node_id, now, (), (), channels)
            return found.has_notifications

    assert not waits("ops", "mailto")
    notify(stage, channel="mailto:ann@example.org")
    assert not waits("ops")
    assert not waits()
    assert waits("ops", "mailto")
    notify(stage, channel="ops")
    assert waits("ops")
    stage.execute(update(notifications).values(holder="x", held_until=stage.now + timedelta(seconds=5)))
    assert not waits("ops", "mailto")
    stage.forward(seconds=6)
    assert waits("ops")


def stage_nodes(stage: Stage) -> list[str]:
    """Return the IDs of all nodes."""
    with stage.database.read() as connection:
        return list(connection.scalars(select(nodes.c.id)))


def offer(stage: Stage, *channels: str) -> None:
    """Let the node have these channels."""
    stage.execute(update(nodes).values(channels=list(channels)))


def test_channels_are_listed_with_their_nodes(stage: Stage, outside: Outside) -> None:
    stage.node()
    offer(stage, "ops", "mailto")
    notify(stage)
    stage.forward(seconds=10)
    step(notifier(stage))
    sent_at = stage.now
    notify(stage, 2)
    notify(stage, channel="gone", error="no such thing")
    notify(stage, channel="mailto:ann@example.org")
    found = {row.name: row for row in Channels(stage.crontab).every(["local"])}
    assert list(found) == ["gone", "local", "mailto", "mailto:ann@example.org", "ops"]
    assert [bool(row.nodes) for row in found.values()] == [False, False, True, True, True]
    assert (found["ops"].figures.waiting, found["ops"].figures.sent_at) == (2, sent_at)
    assert (found["gone"].figures.waiting, found["gone"].figures.error) == (1, "no such thing")
    assert found["local"].figures == outbox.ChannelFigures()


def test_a_test_message_goes_out_at_once(stage: Stage, outside: Outside) -> None:
    stage.node()
    channels = Channels(stage.crontab)
    with pytest.raises(NotFound, match="no living node has the channel 'ops'"):
        channels.request_test("ops")
    offer(stage, "ops")
    test = channels.request_test("ops")
    step(notifier(stage))
    ((_, message),) = outside.received
    assert message.subject == "[dcron] test of the channel ops"
    assert "ann@desk tests the channel ops" in message.text
    found = channels.test_result(test)
    assert found is not None
    assert found.sent_by == "web-1"
    second = channels.request_test("ops")
    channels.withdraw_test(second)
    step(notifier(stage))
    assert len(outside.received) == 1


def test_an_error_of_a_channel_is_recorded_whatever_it_contains(stage: Stage, outside: Outside) -> None:
    outside.answer = lambda _: Result(Outcome.FAILED, "a\x00b\x1b[31mc\udc80")
    notify(stage)
    stage.forward(seconds=10)
    step(notifier(stage))
    (row,) = rows(stage)
    assert str(row.error).startswith("a␀b")
    assert "\x1b" not in str(row.error)


def test_an_output_that_cannot_be_read_does_not_hold_up_others(
    stage: Stage, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = "mailto:ann@example.org"
    first, second = notify(stage, 2, channel, "output")
    real = notifier_module._message

    def message(connection: Any, name: str, group: Any, *given: Any) -> Message:
        if group[0].id == first:
            raise ValueError("not JSON")
        return real(connection, name, group, *given)

    monkeypatch.setattr(notifier_module, "_message", message)
    step(notifier(stage, "web-1", MAIL))
    assert outside.notified == [[second]]
    assert [row.error for row in rows(stage)] == ["ValueError: not JSON", None]


def test_an_unexpected_error_ends_no_loop(
    stage: Stage, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(stage)
    stage.forward(seconds=10)
    monkeypatch.setattr(outbox, "claim_alerts", lambda *_: 1 / 0)
    step(notifier(stage))
    assert outside.received == []
