"""Handle the signals that stop an agent outside of signal handlers."""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STDIN = 0

_BURST = 0.1
"""Seconds in which several signals count as one: `timeout`, or a terminal with a wrapper, sends two."""


@contextmanager
def stopping(stop: Callable[[], None], reload: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Call `stop` in a separate thread for each burst of signals. Outside of the main thread, do nothing.

    SIGHUP alone calls `reload` instead, unless the process began at a terminal, which is gone then.

    Python runs a handler wherever the main thread is, even while it holds the lock that the handler needs;
    two signals could then deadlock. So the handlers do nothing, and a thread reads the byte that the
    interpreter writes for each signal. The handlers stay installed: a late signal ends nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _STOPPING:
        signal.signal(number, lambda *_: None)
    if os.isatty(_STDIN):
        reload = stop
    threading.Thread(target=_read_signals, args=(reader, stop, reload), name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # the thread reads the end of the pipe and ends


def _read_signals(reader: int, stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """Call `stop` for each burst of signal bytes, until the other end is closed, or `reload`."""
    try:
        while numbers := os.read(reader, 4096):
            if set(numbers) == {signal.SIGHUP}:
                reload()
                continue
            stop()
            time.sleep(_BURST)
            while select.select([reader], [], [], 0)[0] and os.read(reader, 4096):
                pass  # the rest of the burst
    finally:
        os.close(reader)
