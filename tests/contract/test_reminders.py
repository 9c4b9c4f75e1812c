"""Reminders on their way: days pass by the clock of the database, and messages are sent about what lasts."""

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from dcron.agent.notifier import Notifier
from dcron.config.channels import Channel
from dcron.model import RunState
from dcron.notifying import Message, Outcome, Result
from dcron.services.alerts import Alerts
from dcron.services.settings import SharedSettings
from tests.support.watching import WatchedStage, stage

__all__ = ["stage"]

OPS = Channel("ops", "command", {"command": "page"})


class Sent:
    """Takes the place of the child process, and notes when each message was sent."""

    pid = 1
    messages: list[Message] = []  # noqa: RUF012

    def __init__(
        self, name: str, kind: str, options: Mapping[str, Any], messages: Sequence[Message], limit: float
    ) -> None:
        self._count = len(messages)
        Sent.messages += messages

    def results(self, _: object) -> list[Result]:
        return [Result(Outcome.SENT)] * self._count


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """The messages that were sent."""
    monkeypatch.setattr("dcron.agent.notifier.Delivery", Sent)
    monkeypatch.setattr(Sent, "messages", [])
    return Sent.messages


def fail(stage: WatchedStage, name: str) -> str:
    """Let a run of this task fail; return the node that ran it."""
    node = stage.node(lease=10_000_000)
    run_id = stage.crontab.run(stage.crontab.find(name)).id
    stage.take(node)
    stage.finish(node, run_id, RunState.FAILED)
    return node


def watch_and_send(stage: WatchedStage, notifier: Notifier) -> None:
    """Do a round of the job, and send what follows from it."""
    stage.look()
    stage.forward(seconds=15)  # what is new waits for others
    notifier.step(threading.Event())
    notifier.join()


@pytest.mark.slow
def test_what_lasts_is_repeated_after_each_day(stage: WatchedStage, sent: list[Message]) -> None:
    stage.task("backup", "@on never", notify=("ops",))
    fail(stage, "backup")
    began, notifier, hours = stage.now, Notifier(stage.database, "web-1", [OPS]), list[float]()
    for hour in (0, 12, 23.9, 24, 36, 47.9, 48, 50):
        stage.now = began + timedelta(hours=hour, seconds=30)
        watch_and_send(stage, notifier)
        hours += [hour] * (len(sent) - len(hours))
    assert hours == [0, 24, 48]
    assert [message.facts["notifications"][0]["kind"] for message in sent] == ["opened", *["reminder"] * 2]
    assert all("backup" in message.subject for message in sent)
    assert len({message.id for message in sent}) == 3


@pytest.mark.slow
def test_the_setting_says_when_and_a_success_ends_it(stage: WatchedStage, sent: list[Message]) -> None:
    SharedSettings(stage.crontab).set("notify.again", "10m")
    stage.task("backup", "@on never", notify=("ops",))
    node = fail(stage, "backup")
    notifier = Notifier(stage.database, "web-1", [OPS])
    for _ in range(7):
        watch_and_send(stage, notifier)
        stage.forward(minutes=5)
    kinds = [message.facts["notifications"][0]["kind"] for message in sent]
    assert kinds == ["opened", "reminder", "reminder", "reminder"]
    run_id = stage.crontab.run(stage.crontab.find("backup")).id
    stage.take(node)
    stage.finish(node, run_id)
    for _ in range(5):
        watch_and_send(stage, notifier)
        stage.forward(minutes=5)
    assert [message.facts["notifications"][0]["kind"] for message in sent] == [*kinds, "closed"]


def test_what_is_acknowledged_is_not_repeated(stage: WatchedStage, sent: list[Message]) -> None:
    stage.task("backup", "@on never", notify=("ops",))
    fail(stage, "backup")
    notifier = Notifier(stage.database, "web-1", [OPS])
    watch_and_send(stage, notifier)
    alerts = Alerts(stage.crontab)
    alerts.acknowledge(alerts.find("backup"))
    stage.forward(hours=25)
    watch_and_send(stage, notifier)
    assert len(sent) == 1
