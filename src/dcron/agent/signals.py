"""Hear the signals that ask an agent to stop, outside of signal handlers."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_BURST = 0.1
"""Seconds in which several signals are one request: `timeout`, or a terminal with a wrapper, sends two."""


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` in a thread of its own for each burst of signals. Outside of the main thread, do nothing.

    A handler in Python runs wherever the main thread happens to be, also while it holds the lock that the
    handler needs: two signals at once would wait for each other for ever. So the handlers do nothing, and a
    thread reads what the interpreter writes for each signal. The handlers stay: a late signal ends nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _STOPPING:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=_hear, args=(reader, stop), name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # the thread reads the end, and ends


def _hear(reader: int, stop: Callable[[], None]) -> None:
    """Turn the bytes of signals into calls of `stop`, until the other end is closed."""
    try:
        while True:
            select.select([reader], [], [])
            time.sleep(_BURST)
            if not os.read(reader, 4096):
                return
            stop()
    finally:
        os.close(reader)
