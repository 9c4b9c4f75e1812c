"""The connections of the app: one for what is read all the time, one for changes and logs."""

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Dashboard


class Connections:
    """Opens the crontab for the threads. Every method is called in a thread."""

    def __init__(self, connect: "Callable[[], Crontab]") -> None:
        """`connect` opens the crontab."""
        self._connect = connect
        self._lock = Lock()
        self._shared: Crontab | None = None

    def dashboard(self) -> "Dashboard":
        """Connect for the thread that reads. Its change tokens belong to a connection of its own."""
        from dcron.services.dashboard import Dashboard

        with self._lock:
            self._shared = None  # if this thread has to connect again, the others have to, too
        return Dashboard(self._connect())

    def crontab(self) -> "Crontab":
        """Return the crontab for changes and logs."""
        with self._lock:
            if self._shared is None:
                self._shared = self._connect()
            return self._shared
