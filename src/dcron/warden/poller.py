"""Call a handler for each file descriptor that is ready."""

import select
from collections.abc import Callable

Handler = Callable[[int], None]
"""Takes the epoll events of its descriptor."""


class Poller:
    """File descriptors in one epoll set, each with its handler."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}

    def __len__(self) -> int:
        return len(self._handlers)

    def watch(self, fd: int, handler: Handler) -> None:
        """Call the handler whenever the descriptor is readable."""
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def replace(self, fd: int, handler: Handler) -> None:
        """Give a watched descriptor another handler."""
        self._handlers[fd] = handler

    def await_room(self, fd: int, *, waits: bool) -> None:
        """Call the handler also when the descriptor is writable, if it `waits` for that."""
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if waits else 0))

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor that stays open. One that is not watched is ignored."""
        if self._handlers.pop(fd, None):
            self._epoll.unregister(fd)

    def closed(self, fd: int) -> None:
        """Forget a descriptor that was closed: the kernel has taken it out of the epoll set already."""
        del self._handlers[fd]

    def poll(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds (None: without limit) and call the handlers of what is ready."""
        for fd, events in self._epoll.poll(timeout):
            handler = self._handlers.get(fd)
            if handler is not None:  # an earlier handler may have closed it
                handler(events)
