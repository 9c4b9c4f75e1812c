"""What the doctor finds, for people and for programs."""

from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 3
"""Names in one sentence."""


@dataclass(frozen=True)
class Finding:
    """Something that needs an operator's attention."""

    code: str
    """A word that never changes (docs/operations.md)."""
    problem: str
    effect: str
    """What the problem causes."""
    advice: str
    """What to type, or to do."""
    subjects: Sequence[str] = ()
    """The tasks, nodes, tables or files that it is about."""

    @property
    def sentence(self) -> str:
        """Return the finding as one line."""
        return f"{self.problem}; {self.effect}; {self.advice}"


def named(names: Sequence[str]) -> str:
    """Return `a, b, c and 4 more`."""
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown
