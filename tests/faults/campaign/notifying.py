"""Notifications by a channel whose senders are killed."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select

from dcron.model import Definition
from dcron.schema.tables import nodes, notifications
from dcron.services.settings import SharedSettings
from tests.faults.campaign.ledger import USUAL
from tests.faults.campaign.playing import Figures, fault
from tests.faults.campaign.stage import LEASES, Stage

MOST_A_MINUTE = 3
PAUSE = 25
"""Seconds between two messages: at most three in each minute."""
ALL_SENT_WITHIN = 500.0
"""Seconds; a sender that was killed is succeeded after a minute."""
RECEIVE = "s=0.$(($$ % 10)); sleep $s; cat > {0}/new.$$; mv {0}/new.$$ {0}/$DCRON_MESSAGE_ID.$$; sleep $s"
"""Keep a message in a file of its own: it is there as a whole, or not at all."""


@fault("notifications")
def failing_at_once(stage: Stage) -> Figures:
    """kill -9 of agents while 1,000 tasks fail in one second (200 when it is to be short)."""
    count, most_senders = (1_000, 3) if stage.seconds >= 20 else (200, 1)
    received = _give_channel(stage)
    SharedSettings(stage.cluster.crontab).set("notify.pause", f"{PAUSE}s")
    stage.load(USUAL[:1])
    for name in LEASES:
        stage.start(name)
    stage.cluster.wait_until_alive(len(LEASES), within=60)
    stage.cluster.crontab.import_tasks(_failing(stage, count))
    kills = 0
    for _ in stage.pauses(1.0, 3.0):
        kills += _kill_one(stage)
    deadline, senders = time.monotonic() + ALL_SENT_WITHIN, 0
    while _unsent(stage) or _count(stage) < count:
        if time.monotonic() > deadline:
            stage.require(False, f"{_unsent(stage)} of {_count(stage)} are not sent")
            break
        if senders < most_senders:
            senders += _kill_sender(stage)
        stage.restart_dead()
        time.sleep(0.05)
    messages = _messages(received)
    _require_exactly_once(stage, messages)
    _require_slow(stage)
    repeated = len(messages) - len({message["id"] for message in messages})
    return {
        "kills": kills,
        "senders killed": senders,
        "notified": _count(stage),
        "messages": len(messages),
        "repeated": repeated,
    }


def _give_channel(stage: Stage) -> Path:
    """Let all agents have the channel `ledger`; return the directory of what it receives."""
    received = stage.directory / "received"
    received.mkdir()
    config = stage.directory / "channels.toml"
    command = json.dumps(RECEIVE.format(received))
    config.write_text(f'[notify.ledger]\nkind = "command"\nformat = "json"\ncommand = {command}\n')
    for name in LEASES:
        stage.environments[name] = {"DCRON_CONFIG": str(config)}
    return received


def _failing(stage: Stage, count: int) -> list[Definition]:
    due = stage.cluster.crontab.now().replace(microsecond=0) + timedelta(seconds=5 + count // 100)
    usual: dict[str, Any] = {"timezone": "UTC", "command": "exit 1", "notify": ("ledger",)}
    schedule = f"@at {due:%Y-%m-%dT%H:%M:%SZ}"
    return [Definition(name=f"failing-{number}", schedule=schedule, **usual) for number in range(count)]


def _kill_one(stage: Stage) -> int:
    agent = stage.some()
    if agent:
        agent.kill()
    stage.restart_dead()
    return 1 if agent else 0


def _kill_sender(stage: Stage) -> int:
    """Kill the agent that is sending, soon after it has begun; return whether one is."""
    sending = select(notifications.c.holder).where(notifications.c.holder.is_not(None)).limit(1)
    with stage.cluster.database.read() as connection:
        holder = connection.scalar(sending)
        pid = connection.scalar(select(nodes.c.pid).where(nodes.c.id == holder)) if holder else None
    agent = next((each for each in stage.living() if each.process.pid == pid), None)
    if agent is None:
        return 0
    time.sleep(stage.chance.uniform(0.0, 2.0))
    agent.kill()
    return 1


def _messages(received: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in received.iterdir() if not path.name.startswith("new.")]


def _count(stage: Stage) -> int:
    return len(_rows(stage))


def _unsent(stage: Stage) -> int:
    return sum(row.sent_at is None for row in _rows(stage))


def _rows(stage: Stage) -> Sequence[Any]:
    with stage.cluster.database.read() as connection:
        return connection.execute(select(notifications).order_by(notifications.c.sent_at)).all()


def _require_exactly_once(stage: Stage, messages: list[dict[str, Any]]) -> None:
    """Every notification is in exactly one message, which may have been repeated with the same ID."""
    contents: dict[str, set[int]] = {}
    for message in messages:
        ids = {each["id"] for each in message["notifications"]}
        stage.require(contents.setdefault(message["id"], ids) == ids, f"{message['id']} has two contents")
    times = Counter(each for ids in contents.values() for each in ids)
    rows = _rows(stage)
    for row in rows:
        stage.require(times[row.id] == 1, f"notification {row.id} is in {times[row.id]} messages")
    tasks = Counter(row.task_id for row in rows if row.kind == "opened")
    stage.require(set(tasks.values()) == {1}, "a task was notified of twice")


def _require_slow(stage: Stage) -> None:
    """No minute has more than three messages, repetitions aside."""
    sent = sorted({row.sent_at for row in _rows(stage) if row.sent_at})
    for first, later in zip(sent, sent[MOST_A_MINUTE:], strict=False):
        stage.require(later - first >= timedelta(minutes=1), "more than three messages in a minute")
