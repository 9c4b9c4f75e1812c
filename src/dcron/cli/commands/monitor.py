"""`monitor`: serve the figures of the crontab to a monitoring system."""

import threading
from typing import Annotated

from dcron.cli.asking.options import Db, argument
from dcron.cli.output import console
from dcron.cli.running.context import opened_database
from dcron.errors import Refused


def command(
    address: Annotated[str, argument("[HOST:]PORT", "Where to listen.")],
    db: Db = None,
) -> None:
    """Serve the figures of the whole crontab to Prometheus, at /cluster.

    \b
    dcron monitor 9435

    A port alone listens on 127.0.0.1. The page shows names of tasks, nodes and queues, and no commands. It
    reads the database once in 15 seconds at most. An agent serves the same page: `dcron agent --monitor`.
    """
    from dcron.agent.signals import stopping
    from dcron.cli.running.agent_log import log_to_stderr
    from dcron.monitoring.address import parse_address
    from dcron.monitoring.cluster import ClusterPage
    from dcron.monitoring.server import MonitorServer

    stop = threading.Event()
    parsed = parse_address(address)
    log_to_stderr()
    with opened_database(db) as database:
        page = ClusterPage(database)
        try:
            server = MonitorServer(parsed, {"/cluster": page.page})
        except OSError as error:
            raise Refused(f"cannot listen on {parsed}: {error.strerror or error}") from None
        with server, stopping(stop.set):
            console.note(f"listens on {server.address}")
            stop.wait()
