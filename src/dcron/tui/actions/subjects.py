"""Name what a question is about."""

from collections.abc import Sequence

from dcron.presentation.humanize import plural

MOST_LISTED = 8
"""Most things that a question lists."""


def subject(names: Sequence[str], kind: str) -> str:
    """Return the name if there is one, else the number of things of this kind: `3 runs`."""
    return names[0] if len(names) == 1 else plural(len(names), kind)


def listed(texts: Sequence[str]) -> list[str]:
    """Return the first texts, and how many others there are."""
    more = len(texts) - MOST_LISTED
    return [*texts[:MOST_LISTED], *([f"and {more:,} more"] if more > 0 else [])]
