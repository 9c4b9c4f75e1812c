"""An example of each optional field of a task, which differs from its default. Several tests use all."""

from datetime import timedelta
from typing import Any

from dcron.fields import OPTIONS, Field
from tests.support.stage import NOON

_CHOSEN: dict[str, Any] = {
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
    "keep": {"runs": 604800.0, "bad": "none", "last": 5.0, "output": 1800.5},
    "describe": "All of it\nand more",
}


def _example(field: Field) -> Any:
    """Return the example that the registry gives, or a choice that is not the default."""
    texts = field.kind.choices or field.example.split(", ")
    values = (
        field.kind.parse_many(field.kind.split(text)) if field.kind.is_many else field.kind.parse(text)
        for text in texts
    )
    return next(value for value in values if value != field.default)


EXAMPLES: dict[str, Any] = _CHOSEN | {
    field.name: _example(field) for field in OPTIONS if field.is_clearable and field.name not in _CHOSEN
}
