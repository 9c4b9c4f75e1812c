"""Show the progress of a long computation on stderr, after one second."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dcron.presentation.humanize import rough_span

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds before the first message."""
EVERY = 0.1
"""Seconds between two messages on a terminal."""
EVERY_IN_A_LOG = 30.0
"""Seconds between two messages elsewhere."""


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yield the items; on a terminal, show how many there were if they take long."""
    if not sys.stderr.isatty():
        yield from items
        return
    of_total = f" of {total:,}" if total else ""
    with counting(what) as show:
        for number, item in enumerate(items, 1):
            show(f"{number:,}{of_total}")
            yield item


@contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """Return a function that prints on stderr how far the block has come.

    A terminal shows one line that changes; a log gets one line every half minute.
    """
    is_terminal = sys.stderr.isatty()
    next_at = time.monotonic() + (PATIENCE if is_terminal else EVERY_IN_A_LOG)
    is_open = False

    def show(how_far: str) -> None:
        nonlocal next_at, is_open
        if (now := time.monotonic()) > next_at:
            next_at = now + (EVERY if is_terminal else EVERY_IN_A_LOG)
            is_open = is_terminal
            _write(f"\r{what}: {how_far}\033[K" if is_terminal else f"{what}: {how_far}\n")

    try:
        yield show
    finally:
        if is_open:
            _write("\r\033[K")


@contextmanager
def ticking(what: str, expected: float) -> Iterator[None]:
    """While the block runs, show how long it has taken and the `expected` seconds, as `counting` does."""
    over = threading.Event()

    def tick(show: Callable[[str], None]) -> None:
        began = time.monotonic()
        while not over.wait(EVERY):
            show(f"{rough_span(time.monotonic() - began)} of about {rough_span(expected)}")

    with counting(what) as show:
        ticker = threading.Thread(target=tick, args=[show], daemon=True)
        ticker.start()
        try:
            yield
        finally:
            over.set()
            ticker.join()


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
