"""Values that are typed with their names, such as `runs=7d last=100`: what fields of such values share."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from dcron.errors import UsageError


@dataclass(frozen=True)
class NamedValues:
    """The values of one field. Each function takes the name of the value first."""

    names: Collection[str]
    wrong_name: str
    """What to say of another name, such as `cannot be expected`."""
    example: str
    """What is typed, for messages."""
    parse_value: Callable[[str, str], Any]
    """Return the value of a text. Raises UsageError."""
    format_value: Callable[[str, Any], str]
    """Return the value as `parse_value` reads it."""
    require_value: Callable[[str, Any], None]
    """Raise UsageError unless this is a valid value."""

    def parse(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the values of `runs=7d`, `last=100` by name. Raises UsageError."""
        found: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"{text[:60]!r}: write a name and a value, such as {self.example}")
            if name in found:
                raise UsageError(f"{name} is given twice; give it once")
            self._require_name(name)
            try:
                found[name] = self.parse_value(name, value)
            except UsageError as error:
                raise UsageError(f"{text[:60]!r}: {error}") from None
        return found

    def format(self, name: str, value: Any) -> str:
        """Return one value as `parse` reads it."""
        return f"{name}={self.format_value(name, value)}"

    def require(self, name: str, value: Any) -> None:
        """Raise UsageError unless the field can have this value."""
        self._require_name(name)
        self.require_value(name, value)

    def _require_name(self, name: str) -> None:
        if name not in self.names:
            raise UsageError(f"{name[:60]!r} {self.wrong_name}; there are {', '.join(self.names)}")


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)
