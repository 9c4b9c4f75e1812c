"""How far a long computation is: one line on stderr, for a person who has waited a second."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 1.0
"""Seconds before anything is said."""
EVERY = 0.1
"""Seconds between two words."""


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """The same items; while they are long in coming, a terminal is told how many there were."""
    if not sys.stderr.isatty():
        yield from items
        return
    begun = told = time.monotonic()
    width = 0
    try:
        for number, item in enumerate(items, 1):
            now = time.monotonic()
            if now - begun > PATIENCE and now - told > EVERY:
                told = now
                line = f"{what}: {number:,}" + (f" of {total:,}" if total else "")
                sys.stderr.write(f"\r{line:<{width}}")
                sys.stderr.flush()
                width = len(line)
            yield item
    finally:
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")
            sys.stderr.flush()
