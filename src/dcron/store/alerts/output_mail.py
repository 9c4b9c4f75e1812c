"""The output of runs as notifications, for tasks that mail what they print, as cron does.

The notification is written in the transaction of the end, whose node knows all that it needs: a run of
another task costs no statement more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from dcron.model import Task
from dcron.policy.channels import joined
from dcron.policy.conditions.rules import rules_of
from dcron.schema.tables import runs
from dcron.store.alerts import notifications
from dcron.store.alerts.notifications import OUTPUT
from dcron.store.runs import output
from dcron.store.tasks import settings


@dataclass(frozen=True)
class OutputMail:
    """The mail about the output of a run that has ended."""

    task: Task
    facts: Mapping[str, Any]
    """`host`, `user` and `env`, as `presentation.cron_mail` takes them."""


@dataclass(frozen=True)
class RunOutput:
    """The output of a run, and the command that wrote it."""

    command: str
    env: Mapping[str, str]
    data: bytes
    """Its first bytes."""
    total_bytes: int


def add(connection: Connection, mails: Mapping[int, OutputMail], now: datetime) -> None:
    """Insert the notifications of ended runs, by run id: one mail to all addresses of the task."""
    stored = {each.name: each.value for each in settings.every(connection)}
    rows: list[dict[str, Any]] = []
    for run_id, mail in mails.items():
        channels = joined(rules_of(stored, mail.task).channels_for(OUTPUT))
        rows += notifications.for_channels(
            channels, "output", now, run_id=run_id, task_id=mail.task.id, facts=mail.facts
        )
    notifications.add(connection, rows)


def read(connection: Connection, run_id: int, most: int) -> RunOutput | None:
    """Return about `most` bytes of the output of a run; None if the run is pruned."""
    spec = connection.scalar(select(runs.c.spec).where(runs.c.id == run_id))
    if spec is None:
        return None
    data, offset = b"", 0
    while len(data) < most and (chunks := output.read(connection, run_id, offset, limit=1)):
        data += chunks[0].data
        offset = chunks[0].end
    size = output.size(connection, run_id)
    facts = spec if isinstance(spec, Mapping) else {}  # a row edited by hand may hold anything
    env = facts.get("env")
    variables = {str(name): str(value) for name, value in env.items()} if isinstance(env, Mapping) else {}
    return RunOutput(str(facts.get("command", "")), variables, data[:most], size)
