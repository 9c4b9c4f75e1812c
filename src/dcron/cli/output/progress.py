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
    begun = shown = time.monotonic()
    width = 0
    try:
        for number, item in enumerate(items, 1):
            now = time.monotonic()
            if now - begun > PATIENCE and now - shown > EVERY:
                shown = now
                line = f"{what}: {number:,}" + (f" of {total:,}" if total else "")
                sys.stderr.write(f"\r{line:<{width}}")
                sys.stderr.flush()
                width = len(line)
            yield item
    finally:
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")
            sys.stderr.flush()


@contextmanager
def counting(what: str) -> Iterator[Callable[[str], None]]:
    """Return a function that prints on stderr how far the block has come.

    A terminal shows one line that changes; a log gets one line every half minute.
    """
    is_terminal = sys.stderr.isatty()
    next_at = time.monotonic() + (PATIENCE if is_terminal else EVERY_IN_A_LOG)

    def show(how_far: str) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + (EVERY if is_terminal else EVERY_IN_A_LOG)
            sys.stderr.write(f"\r{what}: {how_far}\033[K" if is_terminal else f"{what}: {how_far}\n")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@contextmanager
def ticking(what: str, expected: float) -> Iterator[None]:
    """While the block runs, print on stderr how long it has taken and the `expected` seconds.

    A terminal shows one line that changes; a log gets one line every half minute.
    """
    is_terminal = sys.stderr.isatty()
    over = threading.Event()

    def tick() -> None:
        began = time.monotonic()
        while not over.wait(PATIENCE if is_terminal else EVERY_IN_A_LOG):
            line = f"{what}: {rough_span(time.monotonic() - began)} of about {rough_span(expected)}"
            sys.stderr.write(f"\r{line}  " if is_terminal else f"{line}\n")
            sys.stderr.flush()

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        over.set()
        ticker.join()
        if is_terminal:
            sys.stderr.write("\r\033[K")
