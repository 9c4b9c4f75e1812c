"""Show and test the channels by which notifications are sent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dcron.errors import NotFound
from dcron.model import Node, Notification
from dcron.policy import channels as policy
from dcron.services.service import Service
from dcron.store.alerts import notifications
from dcron.store.alerts.notifications import ChannelFigures
from dcron.store.nodes import rows as nodes


@dataclass(frozen=True)
class ChannelRow:
    """A channel: which nodes can send by it, and whether its notifications were sent."""

    name: str
    nodes: tuple[str, ...]
    """The names of the living nodes that have it."""
    figures: ChannelFigures


class Channels(Service):
    """The channels of a crontab's nodes. Every method is one transaction."""

    def every(self, also: Iterable[str] = ()) -> list[ChannelRow]:
        """Return the channels of living nodes, those for which something waits, and `also` these, by name."""
        with self.database.read() as connection:
            living = nodes.living(connection, self.database.now(connection))
            names = {*also, *(name for node in living for name in node.channels)}
            figures = notifications.figures(connection, names)
        return [ChannelRow(name, _having(living, name), each) for name, each in figures.items()]

    def unsendable(self, channels: Iterable[str]) -> list[str]:
        """Return those of the channels by which no living node can send."""
        with self.database.read() as connection:
            return policy.unsendable(channels, nodes.living(connection, self.database.now(connection)))

    def request_test(self, channel: str) -> int:
        """Let a node send a test message; return the ID of its notification. Raises NotFound."""
        with self.database.write() as connection:
            now = self.database.now(connection)
            if not _having(nodes.living(connection, now), channel):
                raise NotFound(f"no living node has the channel {channel!r}; `dcron channel list` shows all")
            return notifications.add_test(connection, channel, self.actor, now)

    def test_result(self, notification_id: int) -> Notification | None:
        """Return the notification of a test; None if it is gone."""
        with self.database.read() as connection:
            return notifications.by_id(connection, notification_id)

    def withdraw_test(self, notification_id: int) -> None:
        """Do not send the test any more."""
        with self.database.write() as connection:
            notifications.withdraw(connection, notification_id, self.database.now(connection))


def _having(living: Sequence[Node], channel: str) -> tuple[str, ...]:
    """Return the names of the nodes that can send by the channel."""
    return tuple(sorted({node.name for node in living if policy.is_offered(channel, node.channels)}))
