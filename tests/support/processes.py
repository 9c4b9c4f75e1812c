"""Programs that a test runs to their end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.patience import PATIENCE


def outcome(
    words: Sequence[str | Path], *, timeout: float = PATIENCE, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program; return what it wrote and how it ended. It has no input unless `options` give it one."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False, **options)
