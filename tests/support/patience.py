"""How long a test waits for what must come true."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds, however soon it comes true on a quiet machine: others are slow and busy."""


def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Poll until the condition holds; return its result. Fail after PATIENCE, or after more `seconds`."""
    deadline = time.monotonic() + max(seconds, PATIENCE)
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)
    return found
