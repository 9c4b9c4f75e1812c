"""What can be expected of a task's runs, and how it is typed.

The settings `expect.*` and the task field `expect` share them. `start` and `success` are numbers of seconds,
`runtime` is a text such as `2m..1h`; `none` expects nothing.
"""

from collections.abc import Iterable
from typing import Any

from dcron.errors import UsageError
from dcron.fields.kinds import NONE, SHORTEST
from dcron.model import LONGEST_DURATION
from dcron.quantities import format_duration, parse_duration

START = "start"
"""How long after its due time a run starts."""
RUNTIME = "runtime"
"""How long a run takes."""
SUCCESS = "success"
"""How long ago the task succeeded last."""
NAMES = (START, RUNTIME, SUCCESS)
AUTO = "auto"
"""The runtime that earlier runs took."""
Value = float | str
Bounds = tuple[float | None, float | None]
"""The shortest and the longest expected runtime, in seconds."""
_RANGE = ".."


def parse_value(name: str, text: str) -> Value:
    """Return the value of `15m`, `none`, or for `runtime` of `2m..1h` or `auto`. Raises UsageError."""
    if text == NONE:
        return NONE
    if name != RUNTIME:
        value = parse_duration(text)
        require_value(name, value)
        return value
    if text == AUTO:
        return AUTO
    least, most = runtime_bounds(text)
    return _RANGE.join("" if bound is None else format_duration(bound) for bound in (least, most))


def format_value(name: str, value: Any) -> str:
    """Return the value as parse_value() reads it. A stored value that is no number stays as it is."""
    return format_duration(value) if _is_number(value) else str(value)


def require_value(name: str, value: Any) -> None:
    """Raise UsageError unless this is a valid value of this expectation."""
    if value == NONE:
        return
    if name == RUNTIME:
        if value != AUTO:
            runtime_bounds(value)
    elif not _is_number(value) or not SHORTEST <= value <= LONGEST_DURATION:
        raise UsageError(f"{name}: give a duration up to a century, such as 15m, or none, not {value!r:.60}")


def runtime_bounds(text: Any) -> Bounds:
    """Return the bounds of `2m..1h`, `2m..` or `..1h` in seconds. Raises UsageError."""
    least_text, dots, most_text = text.partition(_RANGE) if isinstance(text, str) else ("", "", "")
    if not dots or not (least_text or most_text):
        raise UsageError(
            f"{text!r:.60} is not a range of runtimes; write 2m..1h, ..1h, 2m.., {AUTO} or {NONE}"
        )
    least, most = (parse_duration(bound) if bound else None for bound in (least_text, most_text))
    if most is not None and most < max(least or 0.0, SHORTEST):
        raise UsageError(f"{text[:60]!r}: the longest runtime is shorter than the shortest")
    return least, most


def parse_expect(texts: Iterable[str]) -> dict[str, Value]:
    """Return the values of `start=15m`, `runtime=2m..1h` by name. Raises UsageError."""
    found: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{text[:60]!r}: write a name and a value, such as start=15m or runtime=2m..1h")
        if name in found:
            raise UsageError(f"{name} is given twice; give it once")
        _require_name(name)
        try:
            found[name] = parse_value(name, value)
        except UsageError as error:
            raise UsageError(f"{text[:60]!r}: {error}") from None
    return found


def format_expect(name: str, value: Any) -> str:
    """Return one value as parse_expect() reads it."""
    return f"{name}={format_value(name, value)}"


def require_expect(name: str, value: Any) -> None:
    """Raise UsageError unless this can be expected of a task's runs."""
    _require_name(name)
    require_value(name, value)


def _require_name(name: str) -> None:
    if name not in NAMES:
        raise UsageError(f"{name[:60]!r} cannot be expected; there are {', '.join(NAMES)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
