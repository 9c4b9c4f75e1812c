"""Describe the policies of a task in words. Defaults go without saying."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from dcron.fields import FIELDS, Field
from dcron.model import DEFINITION_FIELDS, Definition

WIDTH = 90
_BOUNDS = ("timeout", "max_running")
"""Fields that a view of one task shows in lines of their own."""
Describe = Callable[[Definition], str]


def lines(line: Definition) -> list[str] | None:
    """Return all of them, wrapped: `up to 3 tries, 1s apart; queue mail`. None where there are none."""
    sentences = [_sentence(FIELDS[name], line) for name in DEFINITION_FIELDS if _is_said(name, line)]
    return textwrap.wrap("; ".join(sentences), WIDTH, break_long_words=False, break_on_hyphens=False) or None


def asked(line: Definition) -> Iterator[tuple[str, str]]:
    """Return each policy that is no default, but the bounds: its label, and what it says."""
    for name in DEFINITION_FIELDS:
        if name not in _BOUNDS and _is_said(name, line):
            yield FIELDS[name].fact, _phrase(FIELDS[name], line)


def _is_said(name: str, line: Definition) -> bool:
    if name in _TOGETHER:
        return any(FIELDS[each].is_given(line) for each in _TOGETHER[name])
    return bool(FIELDS[name].phrase) and FIELDS[name].is_given(line)


def _sentence(field: Field, line: Definition) -> str:
    phrase = _phrase(field, line)
    return f"{field.fact} {phrase}" if field.phrase == "{}" and field.name not in _DESCRIBE else phrase


def _phrase(field: Field, line: Definition) -> str:
    describe = _DESCRIBE.get(field.name)
    if describe:
        return describe(line)
    value = getattr(line, field.name)
    text = (
        ", ".join(field.kind.split(field.kind.format(value)))
        if field.kind.is_many
        else field.kind.format(value)
    )
    return field.phrase.format(text)


def _max_running(line: Definition) -> str:
    return (
        "any number alive at once" if line.max_running is None else f"up to {line.max_running} alive at once"
    )


def _overlap(line: Definition) -> str:
    if line.overlap == "queue":
        return "a run that comes due while so many are alive is queued"
    return "a run that comes due while so many are alive replaces the oldest"


def _tries(line: Definition) -> str:
    if line.tries == 1:
        return "1 try, so its backoff has no effect (--tries N for more)"
    return f"up to {line.tries} tries, {_delays(line)}"


def _delays(line: Definition) -> str:
    if line.backoff == 0:
        return "one right after the other"
    backoff, factor, most = (_value(name, line) for name in ("backoff", "backoff_factor", "backoff_max"))
    apart = f"{backoff} apart"
    if line.tries == 2 or line.backoff_factor == 1:
        return apart
    growing = "doubling" if line.backoff_factor == 2 else f"each {factor} times longer"
    return f"{apart} and {growing}, to {most}"


def _catch_up(line: Definition) -> str:
    within = f" within {_value('catch_up_window', line)}" if line.catch_up_window else ""
    return {
        "skip": "missed runs are not caught up on",
        "all": f"all missed runs{within} are caught up on",
    }.get(line.catch_up, f"the last missed run{within} is caught up on")


def _value(name: str, line: Definition) -> str:
    return FIELDS[name].kind.format(getattr(line, name))


_TOGETHER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tries": ("tries", "backoff", "backoff_factor", "backoff_max"),
        "catch_up": ("catch_up", "catch_up_window"),
    }
)
"""Fields that one sentence describes."""
_DESCRIBE: Mapping[str, Describe] = MappingProxyType(
    {
        "max_running": _max_running,
        "overlap": _overlap,
        "tries": _tries,
        "catch_up": _catch_up,
    }
)
"""Fields whose sentence depends on the value, or on other fields."""
