"""Read and drain the nodes of a crontab, and limit the queues that they share."""

from collections.abc import Iterable

from dcron.errors import NotFound, UsageError
from dcron.model import Node, Queue
from dcron.policy.validation import MOST_RUNNING, require_queue
from dcron.services import recorded_values
from dcron.services.name_prefix import ENOUGH, require_exact
from dcron.services.service import Service
from dcron.store.nodes import rows as nodes
from dcron.store.tasks import queues


class Fleet(Service):
    """The nodes and queues of a crontab. Every method is one transaction."""

    def living(self) -> list[Node]:
        """Return the nodes whose leases have not expired."""
        with self.database.read() as connection:
            return nodes.living(connection, self.database.now(connection))

    def find(self, name: str) -> list[Node]:
        """Return the living nodes of exactly this ID or name.

        Raises NotFound, as NotExact if names or IDs only begin with it.
        """
        with self.database.read() as connection:
            living = nodes.listing(connection, self.database.now(connection))
        if found := [node for node in living if name in (node.id, node.name)]:
            return found
        if name:
            require_exact("living node", name, _names_beginning(name, living)[:ENOUGH])
        raise NotFound(f"there is no living node {name!r}; `dcron nodes` shows those there are")

    def drain(self, name: str) -> list[Node]:
        """Stop the living nodes of this ID or name from claiming runs; their active runs continue.

        This lasts until `undrain`, or until their agents are restarted. Raises NotFound.
        """
        return self._mark(name, draining=True)

    def undrain(self, name: str) -> list[Node]:
        """Let the living nodes of this ID or name claim runs again. Raises NotFound."""
        return self._mark(name, draining=False)

    def _mark(self, name: str, *, draining: bool) -> list[Node]:
        found = self.find(name)
        with self.database.write() as connection:
            for node in found:
                recorded_values.change(connection, self, "node", node.id, {"draining": draining})
            self.database.notify(connection)
        return found

    def queues(self) -> list[Queue]:
        """Return the queues that have a limit or active runs, in the order of names."""
        with self.database.read() as connection:
            return queues.listing(connection)

    def set_queue(self, name: str, max_running: int | None) -> None:
        """Limit the runs of this queue that may be alive at once, over all nodes; None removes the limit.

        Active runs continue. Raises UsageError.
        """
        require_queue("queue", name)
        if max_running is not None and not 0 <= max_running <= MOST_RUNNING:
            raise UsageError(
                f"--max-running {max_running}: give 0 to {MOST_RUNNING:,}, or none for no limit;"
                " with 0 no run of the queue starts"
            )
        with self.database.write() as connection:
            recorded_values.change(connection, self, "queue", name, {"max_running": max_running})
            self.database.notify(connection)


def _names_beginning(beginning: str, living: Iterable[Node]) -> list[str]:
    """Return the names with this beginning, in order, and the IDs of nodes that only match by ID."""
    return sorted(
        {
            node.name if node.name.startswith(beginning) else node.id
            for node in living
            if node.name.startswith(beginning) or node.id.startswith(beginning)
        }
    )
