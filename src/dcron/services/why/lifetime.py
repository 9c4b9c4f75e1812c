"""The life of a line: when it came, was changed, rested and went, by the record of changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dcron.model import DEFINITION_FIELDS, TIMES_FIELDS, Definition, Task
from dcron.policy import INSTANT
from dcron.store.history import AuditEntry
from dcron.unreadable import Unreadable

_TIMES = ("not_before", "not_after")
_TUPLES = ("argv", "require")


@dataclass(frozen=True)
class Lifetime:
    """What is on record of a line's life."""

    changes: Sequence[AuditEntry]
    """The oldest first."""
    present: Task | None
    """The line as it is now; None when it is gone."""

    def definition_at(self, moment: datetime) -> Definition | None:
        """The line by which a turn of then was planned; None when there was none.

        A turn lies strictly after the change that brought it.
        """
        before = self.last_until(moment - INSTANT)
        after = self.first_after(moment - INSTANT)
        if after is None:
            # Also what was written by hand, of which there is no record.
            return self.present or (None if before is None or _ends(before) else _line(before.after))
        if before is not None and _ends(before):
            return None
        # A record that somebody has spoilt tells nothing; the line was much as it is.
        return _line(after.before) or (None if after.action == "add" else self.present)

    def last_until(self, moment: datetime, *actions: str) -> AuditEntry | None:
        """The latest change up to then, of these kinds if any are given."""
        found = [each for each in self.changes if each.at <= moment]
        return next((each for each in reversed(found) if not actions or each.action in actions), None)

    def first_after(self, moment: datetime, *actions: str) -> AuditEntry | None:
        """The first change after then, of these kinds if any are given."""
        found = (each for each in self.changes if each.at > moment)
        return next((each for each in found if not actions or each.action in actions), None)

    def removal(self) -> AuditEntry | None:
        """The change by which the line went, if it was somebody's."""
        last = self.changes[-1] if self.changes else None
        return last if last and _ends(last) else None

    def edits_since(self, moment: datetime) -> list[AuditEntry]:
        """The edits after then."""
        return [each for each in self.changes if each.at > moment and each.action == "set"]

    def stretches(self, first: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, Definition]]:
        """The line from `first` up to but without `end`, piece by piece: beginning, end, and what it was."""
        start = first
        for stop in [*(each.at + INSTANT for each in self.changes if first <= each.at < end), end]:
            if line := self.definition_at(start):
                yield start, stop, line
            start = stop


def lines_of(change: AuditEntry) -> tuple[Definition | None, Definition | None]:
    """The line before and after the change."""
    return _line(change.before), _line(change.after)


def changed_fields(change: AuditEntry) -> list[str]:
    """What an edit has changed."""
    before, after = change.before or {}, change.after or {}
    return [name for name in DEFINITION_FIELDS if before.get(name) != after.get(name)]


def changes_times(change: AuditEntry) -> bool:
    """Whether an edit bears on when the line runs."""
    return any(name in (*TIMES_FIELDS, "name") for name in changed_fields(change))


def _ends(change: AuditEntry) -> bool:
    return change.action == "rm"


def _line(written: Mapping[str, Any] | None) -> Definition | None:
    """The line as a change has it; None where it has something else."""
    if written is None or isinstance(written, Unreadable) or "schedule" not in written:
        return None
    values = {name: written[name] for name in DEFINITION_FIELDS if name in written}
    for name in _TIMES:
        if values.get(name):
            values[name] = datetime.fromisoformat(values[name])
    for name in _TUPLES:
        if values.get(name) is not None:
            values[name] = tuple(values[name])
    return Definition(**values)
