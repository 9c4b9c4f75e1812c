"""Report to the service manager how the agent is: the protocol of sd_notify(3), one datagram a message.

A unit of `Type=notify` gets READY=1 once the node is registered, a STATUS line, and WATCHDOG=1 while the
agent is healthy. As long as an agent waits for its database at the start, it asks for more time.
"""

import os
import socket
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress

from dcron.agent.health import MonitoredAgent, why_stalled, why_unhealthy

_INTERVAL = 10.0
"""Seconds between two messages."""
_START_TIME = 60.0
"""Seconds that a starting agent asks for."""
_SEND_TIMEOUT = 1.0


class ServiceManager:
    """The service manager that started this process; without one, messages go nowhere."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        """Take its variables out of the environment: they are not meant for child processes."""
        path = environment.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        own = environment.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        seconds = environment.pop("WATCHDOG_USEC", "")
        self.watchdog = int(seconds) / 1e6 if own and seconds.isdigit() else None
        """Seconds within which it wants to hear that the agent is healthy; None if it does not."""

        self.is_ready = False
        """Whether it knows that the agent has started."""

    def ready(self) -> None:
        """Report that the agent has started."""
        self.is_ready = True
        self.send(READY=1)

    @property
    def listens(self) -> bool:
        """Whether there is one."""
        return bool(self._address)

    def send(self, **states: object) -> None:
        """Send states such as `READY=1`. A service manager that does not take them is ignored."""
        if not self._address:
            return
        text = "".join(f"{name}={value}\n" for name, value in states.items())
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_TIMEOUT)
            sender.sendto(text.encode(), self._address)


@contextmanager
def reporting(agent: MonitoredAgent, manager: ServiceManager) -> Iterator[None]:
    """Report how the agent is while the block runs, from a thread that no loop of the agent can hold up."""
    if not manager.listens:
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_report, args=(agent, manager, stop), name="dcron-status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        manager.send(STOPPING=1, STATUS="stopped")


def _report(agent: MonitoredAgent, manager: ServiceManager, stop: threading.Event) -> None:
    interval = min(_INTERVAL, (manager.watchdog or _INTERVAL) / 3)
    before = None
    while not stop.is_set():
        status = status_of(agent)
        if status != before:
            manager.send(STATUS=status)
            before = status
        if not manager.is_ready:
            manager.send(EXTEND_TIMEOUT_USEC=int(_START_TIME * 1e6))
        if manager.watchdog and why_stalled(agent) is None:  # alerts that are late end no runs
            manager.send(WATCHDOG=1)
        stop.wait(interval)


def status_of(agent: MonitoredAgent) -> str:
    """Return the line that `systemctl status` shows."""
    if reason := why_unhealthy(agent):
        return reason
    session = agent.session
    if session is None or not session.is_registered:
        return "waits for the database"
    running = f"{session.node.active_runs.count} of {agent.settings.slots} slots used"
    if reason := session.why_not_ready():
        return f"{running}; {reason.removeprefix('it ')}"
    next_due = session.dispatcher.next_due
    return f"{running}; next run due {next_due:%Y-%m-%d %H:%M:%S} UTC" if next_due else running
