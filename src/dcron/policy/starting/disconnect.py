"""What becomes of the command of a node that cannot reach the database: it is ended, or it goes on."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from dcron.model import Definition
from dcron.settings.labels import for_labels
from dcron.settings.registry import KEEP_RUNNING, ON_DISCONNECT

LONGEST_KILL_GRACE = 10.0
"""Most seconds between SIGTERM and SIGKILL for a command that takes too long."""
_CLOCK_RATES = 0.01
"""By which part of a duration two clocks may differ at its end."""


def keeps(task: Definition, settings: Mapping[str, Any]) -> bool:
    """Return whether a command of the task goes on while its node is cut off."""
    choice = task.on_disconnect or for_labels(settings, task.labels).get(ON_DISCONNECT.name)
    return choice == KEEP_RUNNING


def endless(task: Definition, settings: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """Return the doubt about a kept task without a timeout; None for others."""
    if task.timeout is not None or not keeps(task, settings):
        return None
    return (
        "its command goes on while its node is cut off, and nothing but a person ends the wait if the node is"
        " gone for good: give it a --timeout"
    )


def lost_after(started_at: datetime, spec: Any, lease: float | None) -> datetime | None:
    """Return when an unheard run is over for sure; None without a timeout, or if the lease is unknown.

    Its warden ends it at its timeout, however long the node is cut off. The command may have begun up to a
    lease after the recorded start, and another lease is for the clocks.
    """
    timeout = spec.get("timeout") if isinstance(spec, Mapping) else None
    if lease is None or isinstance(timeout, bool) or not isinstance(timeout, int | float):
        return None
    longest = timeout * (1 + _CLOCK_RATES) + LONGEST_KILL_GRACE + 2 * lease
    return started_at + timedelta(seconds=longest)
