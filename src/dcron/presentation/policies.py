"""Describe the policies of a task in words. Defaults are left out."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from dcron.fields import FIELDS, Field
from dcron.model import DEFINITION_FIELDS, Definition

WIDTH = 90
_BOUNDS = ("timeout", "max_running")
"""Fields that a view of one task shows on lines of their own."""
Describe = Callable[[Definition], str]


def lines(task: Definition) -> list[str] | None:
    """Return all policies as one wrapped text: `up to 3 tries, 1s apart; queue mail`. None for defaults."""
    sentences = [_sentence(FIELDS[name], task) for name in DEFINITION_FIELDS if _is_said(name, task)]
    return textwrap.wrap("; ".join(sentences), WIDTH, break_long_words=False, break_on_hyphens=False) or None


def asked(task: Definition) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each policy that is not a default, except the bounds."""
    for name in DEFINITION_FIELDS:
        if name not in _BOUNDS and _is_said(name, task):
            yield FIELDS[name].fact, _phrase(FIELDS[name], task)


def _is_said(name: str, task: Definition) -> bool:
    if name in _TOGETHER:
        return any(FIELDS[each].is_given(task) for each in _TOGETHER[name])
    return bool(FIELDS[name].phrase) and FIELDS[name].is_given(task)


def _sentence(field: Field, task: Definition) -> str:
    phrase = _phrase(field, task)
    return f"{field.fact} {phrase}" if field.phrase == "{}" and field.name not in _DESCRIBE else phrase


def _phrase(field: Field, task: Definition) -> str:
    describe = _DESCRIBE.get(field.name)
    if describe:
        return describe(task)
    value = getattr(task, field.name)
    text = (
        ", ".join(field.kind.split(field.kind.format(value)))
        if field.kind.is_many
        else field.kind.format(value)
    )
    return field.phrase.format(text)


def _max_running(task: Definition) -> str:
    return (
        "any number alive at once" if task.max_running is None else f"up to {task.max_running} alive at once"
    )


def _overlap(task: Definition) -> str:
    if task.overlap == "queue":
        return "a run that comes due while so many are alive is queued"
    return "a run that comes due while so many are alive replaces the oldest"


def _tries(task: Definition) -> str:
    if task.tries == 1:
        return "1 try, so its backoff has no effect (--tries N for more)"
    return f"up to {task.tries} tries, {_delays(task)}"


def _delays(task: Definition) -> str:
    if task.backoff == 0:
        return "one right after the other"
    backoff, factor, most = (_value(name, task) for name in ("backoff", "backoff_factor", "backoff_max"))
    apart = f"{backoff} apart"
    if task.tries == 2 or task.backoff_factor == 1:
        return apart
    growing = "doubling" if task.backoff_factor == 2 else f"each {factor} times longer"
    return f"{apart} and {growing}, to {most}"


def _catch_up(task: Definition) -> str:
    within = f" within {_value('catch_up_window', task)}" if task.catch_up_window else ""
    return {
        "skip": "missed runs are not caught up on",
        "all": f"all missed runs{within} are caught up on",
    }.get(task.catch_up, f"the last missed run{within} is caught up on")


def _value(name: str, task: Definition) -> str:
    return FIELDS[name].kind.format(getattr(task, name))


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
