"""`channel`: list the channels that notifications are sent by, and test one."""

import os
import secrets
import time
from datetime import datetime
from typing import Annotated

from dcron import config, policy, presentation, services
from dcron.cli.asking.options import Db, Json, Verb, argument, group
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab
from dcron.errors import Refused, UsageError
from dcron.presentation import humanize
from dcron.values.safe_text import safe

COLUMNS = [
    TableColumn("CHANNEL", least=8),
    TableColumn("KIND"),
    TableColumn("NODES", least=8),
    TableColumn("WAITING", right=True),
    TableColumn("LAST SENT", right=True),
    TableColumn("ERROR", least=12),
]
_LONGEST_TEST = 120.0
"""Seconds to wait for a node that sends a test message."""
_LOOK = 0.5
_MOST_NODES = 3
command = group("List the channels that notifications are sent by, and test one.")


@command.command("list", cls=Verb)
def list_channels(as_json: Json = False, db: Db = None) -> None:
    """List the channels of living nodes and of this machine's config file.

    KIND is known for the channels of this machine: other nodes only publish names.
    """
    own = config.files.load_config().notify
    with opened_crontab(db) as crontab:
        found = services.channels.Channels(crontab).every(own)
        now = crontab.now()
    kinds = {name: channel.kind for name, channel in own.items()}
    if as_json:
        console.emit_list(make("channel", row, kind=kinds.get(row.name)) for row in found)
    elif not print_table(COLUMNS, (_row(row, kinds.get(row.name), now) for row in found)):
        console.note("no channels yet; give an agent one: a table [notify.NAME] in its config file")


@command.command("test", cls=Verb)
def send_test(
    name: Annotated[str, argument("CHANNEL", "Name of the channel, or mailto:ADDRESS.")],
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Send a test message by a channel.

    \b
    dcron channel test ops

    A channel of this machine's config file sends it now; for another, a node that has it does.
    """
    from dcron.fields.channel_kinds import channel_problem

    own = config.files.load_config().notify
    if name.partition(":")[0] == config.channels.MAILTO:
        if problem := channel_problem(name):
            raise UsageError(problem)
        channel = next((each for each in own.values() if each.kind == "mail"), None)
    else:
        channel = own.get(name)
    sent_by = _send(channel, name) if channel else _send_by_node(name, db)
    if as_json:
        console.emit(make("sent", channel=name, sent_by=sent_by))
    else:
        console.data(f"channel {name}: sent by {sent_by}")


def _send(channel: "config.channels.Channel", name: str) -> str:
    """Send a test message from this machine, and return who sent it. Raises Refused if it fails."""
    from dataclasses import replace

    from dcron.notifying import Outcome, deliver

    options = channel.resolved(os.environ, strict=os.geteuid() == config.trust.ROOT)
    message = replace(
        presentation.alert_message.compose_test(name, config.files.actor()),
        id=f"test.{secrets.token_hex(8)}",
        to=policy.channels.addresses_of(name),
    )
    (result,) = deliver(name, channel.kind, options, [message])
    if result.outcome is not Outcome.SENT:
        detail = f": {safe(result.detail)}" if result.detail else ""
        raise Refused(f"channel {name}: not sent: {safe(result.error or '')}{detail}")
    return "this machine"


def _send_by_node(name: str, db: str | None) -> str:
    """Let a node that has the channel send a test message, and return which. Raises Refused if it fails."""
    with opened_crontab(db) as crontab:
        channels = services.channels.Channels(crontab)
        test = channels.request_test(name)
        console.note(f"this machine does not have the channel {name}: a node that has it sends the message")
        deadline = time.monotonic() + _LONGEST_TEST
        try:
            while time.monotonic() < deadline:
                found = channels.test_result(test)
                if found and found.sent_at:
                    return found.sent_by or "a node"
                if found is None or found.error:
                    raise Refused(f"channel {name}: not sent: {found.error if found else 'it was deleted'}")
                time.sleep(_LOOK)
            raise Refused(f"channel {name}: no node has sent the message within {_LONGEST_TEST:g} seconds")
        finally:
            channels.withdraw_test(test)


def _row(row: "services.channels.ChannelRow", kind: str | None, now: datetime) -> list[str]:
    is_any_address = row.name == config.channels.MAILTO  # each address has figures of its own
    named = ", ".join(row.nodes[:_MOST_NODES])
    more = f" and {len(row.nodes) - _MOST_NODES} more" if len(row.nodes) > _MOST_NODES else ""
    figures = row.figures
    return [
        f"{config.channels.MAILTO}:ADDRESS" if is_any_address else row.name,
        "mail" if is_any_address else kind or "",
        f"{named}{more}" or AlarmCell("none"),
        f"{figures.waiting:,}",
        humanize.ago(figures.sent_at, now) if figures.sent_at else "" if is_any_address else "never",
        AlarmCell(figures.error) if figures.error else "",
    ]
