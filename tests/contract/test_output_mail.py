"""The output of runs becomes notifications, in the transaction of the end."""

import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from sqlalchemy import event, select

from dcron.agent import spool
from dcron.agent.execution import output_mail
from dcron.agent.notifier import Notifier
from dcron.config.channels import Channel
from dcron.errors import UsageError
from dcron.model import Notification, RunState
from dcron.notifying import Message, Outcome, Result
from dcron.schema.tables import notifications
from dcron.services.settings import SharedSettings
from dcron.store.alerts import notifications as outbox
from dcron.store.claims import finishing
from dcron.store.claims.finishing import RunResult
from dcron.store.runs import output
from dcron.values.lists import Chunk
from dcron.warden import journal
from tests.support.stage import Stage

NUMBERS = count()
ANN: dict[str, Any] = {"notify": ("mailto:ann@example.org",), "notify_on": ("output",)}


def result(run_id: int, *, printed: int = 5) -> journal.Result:
    return journal.Result(run_id, "", 0, None, None, None, 0.0, 0.0, 0.0, None, printed, 0)


def end(stage: Stage, name: str, *, printed: int = 5, runs: int = 1, **run: Any) -> tuple[list[int], int]:
    """End runs of a task; return their ids, and how many statements that took."""
    task = stage.crontab.find(name)
    node = stage.node(f"node-{next(NUMBERS)}")
    values = {"task_id": task.id, "task": name, "state": "running", "owner": node, **run}
    values |= {"trigger": "manual", "claimed_at": stage.now, "started_at": stage.now, "spec": task.spec()}
    ids = [stage.insert_run(**values) for _ in range(runs)]
    ends = []
    for run_id in ids:
        mail = output_mail(task, result(run_id, printed=printed))
        ends.append(RunResult(run_id, RunState.SUCCEEDED, stage.now, exit_code=0, mail=mail))
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(stage.database.engine, "before_cursor_execute", note)
    with stage.database.write() as connection:
        finishing.finish(connection, stage.database, node, ends, stage.now)
    event.remove(stage.database.engine, "before_cursor_execute", note)
    return ids, len(sent)


def rows(stage: Stage) -> list[Notification]:
    with stage.database.read() as connection:
        found = connection.execute(select(*outbox.COLUMNS).order_by(notifications.c.id))
        return [outbox.from_row(row) for row in found]


def test_a_run_that_printed_is_a_notification_for_each_channel(stage: Stage) -> None:
    stage.task("report", notify=("mailto:ann@example.org", "ops"), notify_on=("output",))
    (run_id,), _ = end(stage, "report")
    first, second = rows(stage)
    assert [first.channel, second.channel] == ["mailto:ann@example.org", "ops"]
    assert (first.kind, first.run_id, first.alert_id) == ("output", run_id, None)
    assert set(first.facts) == {"host", "user", "env"}


def test_several_addresses_are_one_mail_that_is_sent_again_as_one(
    stage: Stage, sent: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.task("report", notify=("mailto:ann@example.org", "ops", "mailto:bob"), notify_on=("output",))
    end(stage, "report")
    assert [row.channel for row in rows(stage)] == ["mailto:ann@example.org,bob", "ops"]
    with monkeypatch.context() as failing:
        failing.setattr(Sent, "outcome", Outcome.FAILED)
        deliver(stage)
    stage.forward(seconds=30)
    deliver(stage)
    assert [message.to for message in sent] == [("ann@example.org", "bob")] * 2
    assert len({message.id for message in sent}) == 1
    assert [row.tries for row in rows(stage)] == [2, 0]


def test_a_run_without_output_is_none_and_neither_is_a_task_that_mails_nothing(stage: Stage) -> None:
    stage.task("report", **ANN)
    stage.task("alerted", notify=("ops",), notify_on=("failing",))
    stage.task("default")
    end(stage, "report", printed=0)
    end(stage, "alerted")
    end(stage, "default")
    assert rows(stage) == []


def test_channels_are_those_of_the_settings_where_the_task_names_none(stage: Stage) -> None:
    SharedSettings(stage.crontab).set("notify.default", "ops,mailto:bob")
    stage.task("report", notify_on=("output",))
    stage.task("silent", notify=("none",), notify_on=("output",))
    end(stage, "report")
    end(stage, "silent")
    assert [row.channel for row in rows(stage)] == ["ops", "mailto:bob"]


def test_the_setting_for_all_tasks_takes_no_output(stage: Stage) -> None:
    with pytest.raises(UsageError, match="output is for single tasks: dcron set NAME --notify-on output"):
        SharedSettings(stage.crontab).set("notify.on", "failing,output")


def test_an_end_that_is_not_recorded_mails_nothing(stage: Stage) -> None:
    stage.task("report", **ANN)
    end(stage, "report", state="succeeded", finished_at=stage.now)
    assert rows(stage) == []


def test_runs_of_other_tasks_cost_no_statement_more(stage: Stage) -> None:
    stage.task("report", **ANN)
    stage.task("plain")
    stage.task("alerted", notify=("ops",), notify_on=("failing",))
    _, plain = end(stage, "plain", runs=5)
    assert end(stage, "alerted", runs=5)[1] == plain
    assert end(stage, "report", printed=0, runs=5)[1] == plain
    assert plain < end(stage, "report", runs=5)[1]


class Sent:
    """Takes the place of the child process."""

    pid = 1
    outcome = Outcome.SENT
    messages: list[Message] = []  # noqa: RUF012

    def __init__(self, name: str, kind: str, options: Any, messages: Sequence[Message], limit: float) -> None:
        self._count = len(messages)
        Sent.messages += messages

    def results(self, _: object) -> list[Result]:
        return [Result(self.outcome)] * self._count


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    monkeypatch.setattr("dcron.agent.notifier.Delivery", Sent)
    monkeypatch.setattr(Sent, "messages", [])
    return Sent.messages


def deliver(stage: Stage) -> None:
    """Let a node with a channel for mail send what waits."""
    mail = Channel("post", "mail", {"from": "dcron@example.org"})
    node = Notifier(stage.database, "web-1", [mail])
    node.step(threading.Event())
    node.join()


def test_each_run_is_a_mail_of_its_own_without_a_pause(stage: Stage, sent: list[Message]) -> None:
    stage.task("report", command="seq 2", **ANN)
    ids, _ = end(stage, "report", runs=3)
    with stage.database.write() as connection:
        for run_id in ids:
            output.append(connection, stage.database, [Chunk(run_id, 0, "out", stage.now, b"1\n")])
            output.append(connection, stage.database, [Chunk(run_id, 2, "err", stage.now, b"two\n")])
    deliver(stage)
    assert [message.text for message in sent] == ["1\ntwo\n"] * 3
    assert {message.to for message in sent} == {("ann@example.org",)}
    assert all(message.subject.endswith("> seq 2") for message in sent)
    assert dict(sent[0].headers)["From"] == "dcron@example.org"
    assert len({message.id for message in sent}) == 3


def test_a_burst_of_output_is_sent_in_parts(stage: Stage, sent: list[Message]) -> None:
    stage.task("report", **ANN)
    end(stage, "report", runs=outbox.MOST_OUTPUTS + 5)
    deliver(stage)
    assert len(sent) == outbox.MOST_OUTPUTS
    deliver(stage)
    assert len(sent) == outbox.MOST_OUTPUTS + 5


def test_a_run_that_is_gone_or_damaged_stops_no_other_mail(stage: Stage, sent: list[Message]) -> None:
    stage.task("report", command="seq 2", **ANN)
    ids, _ = end(stage, "report", runs=3)
    stage.sql("UPDATE notifications SET facts = '[]' WHERE run_id = :run", run=ids[0])
    stage.sql("UPDATE runs SET spec = '{\"env\": 3}' WHERE id = :run", run=ids[1])
    stage.sql("UPDATE notifications SET run_id = 999999 WHERE run_id = :run", run=ids[2])
    deliver(stage)
    assert [message.subject for message in sent][2] == "[dcron] the output of run 999999 is pruned"
    assert len(sent) == 3


@pytest.mark.slow
def test_an_end_out_of_the_spool_is_mailed_too(stage: Stage) -> None:
    task = stage.task("report", **ANN)
    node = stage.node("dead")
    values = {"task_id": task.id, "task": "report", "state": "lost", "owner": node, "finished_at": stage.now}
    run_id = stage.insert_run(**values, claimed_at=stage.now, started_at=stage.now, spec=task.spec())
    assert spool._deliver_result(stage.database, node, task.id, result(run_id)._replace(node_id=node))
    (row,) = rows(stage)
    assert (row.run_id, row.channel) == (run_id, "mailto:ann@example.org")
