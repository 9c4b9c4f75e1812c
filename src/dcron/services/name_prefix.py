"""Names as people type them: which verb takes the beginning of a name, and which only a whole one.

Reading verbs take a beginning that only one name has. A verb that changes or starts something takes whole
names: `whole` raises `NotExact` for a beginning, and only a person who was asked about the one name that
begins so may go on with it.
"""

from collections.abc import Sequence

from dcron.errors import NotFound, UsageError

SHOWN = 5
ENOUGH = SHOWN + 1
"""Names that have to be looked up to show which there are, and whether there are more."""


class NotExact(NotFound):
    """What was typed only begins names, and a whole name is needed."""

    def __init__(self, what: str, beginning: str, names: Sequence[str]) -> None:
        """`what` is the kind of thing: a task, a node, a calendar. The names are in order, ENOUGH at most."""
        begun = f"{_shown(names)} {'begins' if len(names) == 1 else 'begin'} so"
        super().__init__(f"there is no {what} {beginning!r}; {begun}: this verb takes the whole name")
        self.names = names


def unique_match(beginning: str, names: Sequence[str]) -> str | None:
    """Return the name that a reading verb means, of those that begin so, in order; None if there is none.

    A whole name is always meant. Raises UsageError where several names begin so.
    """
    if len(names) > 1 and beginning not in names:
        raise UsageError(f"{beginning!r} begins several names: {_shown(names)}; write more of it")
    return beginning if beginning in names else next(iter(names), None)


def require_exact(what: str, typed: str, names: Sequence[str]) -> str | None:
    """Return the name if it was typed in full; None if no name begins so. Raises NotExact for a beginning."""
    if typed in names:
        return typed
    if names:
        raise NotExact(what, typed, names)
    return None


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
