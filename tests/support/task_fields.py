"""One example of each optional field of a task. A new field needs a row: several tests use all."""

from datetime import timedelta
from typing import Any

from tests.support.stage import NOON

EXAMPLES: dict[str, Any] = {
    "argv": ("tar", "c", "/srv"),
    "shell": "/bin/bash",
    "stdin": "ünï\n",
    "env": {"LANG": "C", "EMPTY": "", "A": "\t"},
    "cwd": "/srv",
    "user": "backup",
    "timeout": 90.5,
    "max_running": None,
    "overlap": "queue",
    "tries": 3,
    "backoff": 0.5,
    "backoff_factor": 1.5,
    "backoff_max": 60.25,
    "on_lost": "retry",
    "deadline": 7200.0,
    "catch_up": "all",
    "catch_up_window": 86400.0,
    "jitter": 30.0,
    "priority": "high",
    "queue": "mail",
    "require": ("ssd", "zone=eu-1"),
    "every_node": True,
    "need": {"gpu": 1.5, "mem": 2**30},
    "limit": {"files": 100, "mem": 2**31, "core": 0},
    "gap": "skip",
    "fold": "both",
    "not_before": NOON - timedelta(days=300, microseconds=1),
    "not_after": NOON + timedelta(days=300, milliseconds=250),
    "except_calendar": "holidays",
    "only_calendar": "work",
    "describe": "All of it\nand more",
}
"""Each differs from its default."""
