"""Names as people type them: a beginning is enough, where no other name has it."""

from collections.abc import Sequence

from dcron.errors import UsageError

SHOWN = 5
ENOUGH = SHOWN + 1
"""Names that have to be looked up to tell people which there are, and whether there are more."""


def only_one(beginning: str, names: Sequence[str]) -> str | None:
    """Of the names that begin so, in order: the one that is meant, or None if there is none.

    One whole name is always meant. Raises UsageError where several begin so.
    """
    if len(names) > 1 and beginning not in names:
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        raise UsageError(f"{beginning!r} begins several names: {shown}; write more of it")
    return beginning if beginning in names else next(iter(names), None)
