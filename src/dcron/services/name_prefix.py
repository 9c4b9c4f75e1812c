"""Match typed text with names: reading verbs accept a unique beginning, other verbs only a whole name.

`require_exact` raises `NotExact` for the beginning of a name. A verb that changes or starts something may
then ask the user to confirm the only name that begins with it.
"""

from collections.abc import Sequence

from dcron.errors import NotFound, UsageError
from dcron.presentation.humanize import first_few

SHOWN = 5
ENOUGH = SHOWN + 1
"""Names to look up: those that a message shows, and one to see whether there are more."""


class NotExact(NotFound):
    """What was typed is only the beginning of names; the verb needs a whole name."""

    def __init__(self, what: str, beginning: str, names: Sequence[str]) -> None:
        """`what` is the kind of thing: a task, a node, a calendar. The names are in order, at most ENOUGH."""
        known = first_few(names, SHOWN)
        super().__init__(f"there is no {what} {beginning!r}; this verb takes the whole name: {known}")
        self.names = names


def unique_match(beginning: str, names: Sequence[str]) -> str | None:
    """Return the name that a reading verb means; None if there is none. All `names` begin with `beginning`.

    An exact match wins. Raises UsageError if several names match and none exactly.
    """
    if len(names) > 1 and beginning not in names:
        raise UsageError(f"{beginning!r} begins several names: {first_few(names, SHOWN)}; write more of it")
    return beginning if beginning in names else next(iter(names), None)


def require_exact(what: str, typed: str, names: Sequence[str]) -> str | None:
    """Return the name if it was typed in full; None if no name begins with it. Raises NotExact otherwise."""
    if typed in names:
        return typed
    if names:
        raise NotExact(what, typed, names)
    return None
