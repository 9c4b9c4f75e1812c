"""Stand-ins for stored values that cannot be read: one such row must not fail the rows around it."""

from datetime import UTC, datetime
from typing import Any


class Unreadable(dict[str, Any]):
    """Stand in for stored JSON that cannot be read. It is empty, so it can be shown like any other value."""

    def __init__(self, stored: Any) -> None:
        """Keep the stored value, for the error message."""
        super().__init__()
        self.text = str(stored)

    def __eq__(self, other: object) -> bool:
        """Return False for an empty dict, so that writing one in its place counts as a change."""
        return self is other

    def __ne__(self, other: object) -> bool:
        """Return the opposite of `==`: dict has a method of its own for it."""
        return self is not other


class UnreadableTime(datetime):
    """Stand in for a stored time that cannot be read. It is long past, and keeps what was stored."""

    stored: str

    @classmethod
    def of(cls, stored: object) -> "UnreadableTime":
        """Return the stand-in for this stored value."""
        made = cls(1970, 1, 1, tzinfo=UTC)
        made.stored = str(stored)
        return made
