"""What can be expected of a task's runs, and how it is typed.

The settings `expect.*` and the task field `expect` share them. `start` and `success` are numbers of seconds,
`runtime` is a text such as `2m..1h`; `none` expects nothing.
"""

from typing import Any

from dcron.errors import UsageError
from dcron.fields.kinds import NONE, SHORTEST
from dcron.fields.named_values import NamedValues, is_number
from dcron.model import LONGEST_DURATION
from dcron.values.quantities import format_duration, parse_duration

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
    return format_duration(value) if is_number(value) else str(value)


def require_value(name: str, value: Any) -> None:
    """Raise UsageError unless this is a valid value of this expectation."""
    if value == NONE:
        return
    if name == RUNTIME:
        if value != AUTO:
            runtime_bounds(value)
    elif not is_number(value) or not SHORTEST <= value <= LONGEST_DURATION:
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


EXPECT = NamedValues(
    NAMES,
    "cannot be expected",
    "start=15m or runtime=2m..1h",
    parse_value,
    format_value,
    require_value,
)
"""The field `expect`."""
