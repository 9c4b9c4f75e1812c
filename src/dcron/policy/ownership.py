"""Decide what applying a source does to each task: whose it is, and whether it was changed by hand.

A source is a file, or a folder of files, that owns tasks: only applying this source again changes them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any

from dcron.fields import FIELDS
from dcron.model import Definition, Task

IMPORT = "import:"
"""The beginning of the sources of imports. An import leaves hand edits alone, so it keeps no digest."""
_DIGEST = "1"
"""The way in which digests are computed. They begin with it."""
_DIGEST_LENGTH = 32


class Owner(StrEnum):
    """Whose a task is, seen from the source that is applied."""

    MISSING = "missing"
    """There is no such task."""
    OURS = "ours"
    """It belongs to this source."""
    HANDED_OVER = "handed over"
    """It belongs to the source from which this one takes tasks."""
    OTHERS = "others"
    """It belongs to another source."""
    UNOWNED = "unowned"
    """It belongs to no source: a person added it."""
    ONE_OFF = "one-off"
    """A person added it for one run."""


class InSource(Enum):
    """What the source says of a task."""

    MISSING = "missing"
    SAME = "same"
    DIFFERENT = "different"


class Decision(StrEnum):
    """What applying does to a task."""

    ADD = "add"
    CHANGE = "change"
    ADOPT = "adopt"
    """It belongs to this source from now on, and becomes what the source says."""
    REMOVE = "remove"
    NOTE = "note"
    """A person has made it what the source says: only the digest is written."""
    KEEP = "keep"
    """It is as the source says."""
    EXTRA = "extra"
    """The source does not have it any more, and it stays."""
    CONFLICT = "conflict"
    """A person has changed it since it was applied, and the source says something else."""
    REFUSE = "refuse"
    """Its name belongs to a task that this source may not change."""
    LEAVE = "leave"
    """It has nothing to do with this source."""

    @property
    def writes(self) -> bool:
        """Whether it writes to the task."""
        return self in (Decision.ADD, Decision.CHANGE, Decision.ADOPT, Decision.REMOVE, Decision.NOTE)


@dataclass(frozen=True)
class Permissions:
    """What the person who applies a source allows."""

    prune: bool = False
    """Remove the source's tasks that it does not have any more."""
    overwrite: bool = False
    """Discard changes by hand."""
    adopt: bool = False
    """Take over tasks of no source."""
    take_from: str | None = None
    """Take over tasks of this source."""


def decide(owner: Owner, in_source: InSource, *, drifted: bool, allowed: Permissions) -> Decision:
    """Return what applying does to a task. `drifted`: it was changed by hand since it was applied."""
    present = in_source is not InSource.MISSING
    discards = drifted and in_source is not InSource.SAME and not allowed.overwrite
    match owner:
        case Owner.MISSING:
            return Decision.ADD if present else Decision.LEAVE
        case Owner.OURS if present:
            if discards:
                return Decision.CONFLICT
            if in_source is InSource.DIFFERENT:
                return Decision.CHANGE
            return Decision.NOTE if drifted else Decision.KEEP
        case Owner.OURS:
            if not allowed.prune:
                return Decision.EXTRA
            return Decision.CONFLICT if discards else Decision.REMOVE
        case Owner.HANDED_OVER if present:
            return Decision.CONFLICT if discards else Decision.ADOPT
        case Owner.UNOWNED if present and allowed.adopt:
            return Decision.ADOPT
    return Decision.REFUSE if present else Decision.LEAVE


def owner_of(task: Task | None, source: str, allowed: Permissions) -> Owner:
    """Return whose the task is, seen from this source."""
    if task is None:
        return Owner.MISSING
    if task.source == source:
        return Owner.OURS
    if task.source is not None:
        return Owner.HANDED_OVER if task.source == allowed.take_from else Owner.OTHERS
    return Owner.ONE_OFF if task.once else Owner.UNOWNED


def is_owned(task: Task) -> bool:
    """Return whether the task belongs to a source that is applied, so that a change belongs there too."""
    return task.source is not None and not task.source.startswith(IMPORT)


def is_drifted(task: Task) -> bool:
    """Return whether an owned task was changed by hand since its source was applied."""
    return is_owned(task) and task.applied != digest(task)


def digest(definition: Definition) -> str:
    """Return a text that two definitions share if they are equal, on every database.

    Values that are defaults do not count, so a field that a later version adds changes no digest.
    """
    given = {
        field.key: _canonical(value)
        for name, field in FIELDS.items()
        if (value := getattr(definition, name)) != field.default
    }
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), default=str)
    return f"{_DIGEST}:{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]}"


def _canonical(value: Any) -> Any:
    """Return the value as JSON that is the same however the value was read."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    return value
