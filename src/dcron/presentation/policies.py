"""What is asked for a task's runs, in words: only what was asked for, defaults go without saying."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dcron.model import SPEC_DEFAULTS, Definition
from dcron.quantities import format_amount, format_limit, format_number
from dcron.schedule import format_duration

WIDTH = 90
_NAMES = ("priority", "queue", "requires", "needs", "limits")
"""What is told by a name and a value."""
_OVERLAP = {
    "queue": "a turn that comes while so many are alive waits for its place",
    "replace": "a turn that comes while so many are alive stops the oldest, and runs",
}


def lines(line: Definition) -> list[str] | None:
    """All of it: `up to 3 tries, 1s apart and doubling, to 1h; queue mail; needs gpu=1`; None for nothing."""
    told = [text for _, text in _bounds(line)]
    told += [f"{what} {text}" if what in _NAMES else text for what, text in asked(line)]
    return textwrap.wrap("; ".join(told), WIDTH, break_long_words=False, break_on_hyphens=False) or None


def asked(line: Definition) -> Iterator[tuple[str, str]]:
    """Each policy of the line that is no default: what it is about, and what it says."""
    yield from _failures(line)
    yield from _turns(line)
    yield from _place(line)


def _bounds(line: Definition) -> Iterator[tuple[str, str]]:
    if line.timeout is not None:
        yield "timeout", f"stopped after {format_duration(line.timeout)}"
    if line.max_running is None:
        yield "max running", "any number alive at once"
    elif _is_given(line, "max_running"):
        yield "max running", f"up to {line.max_running} alive at once"


def _failures(line: Definition) -> Iterator[tuple[str, str]]:
    if line.tries > 1:
        yield "tries", f"up to {line.tries} tries, {_waits(line)}"
    elif any(_is_given(line, field) for field in ("backoff", "backoff_factor", "backoff_max")):
        yield "tries", "1 try, so its backoff waits for nothing (--tries N for more)"
    if line.on_lost == "retry":
        yield "when lost", "tried again when its node dies"


def _waits(line: Definition) -> str:
    if line.backoff == 0:
        return "one right after the other"
    apart = f"{format_duration(line.backoff)} apart"
    if line.tries == 2 or line.backoff_factor == 1:
        return apart
    growing = (
        "doubling" if line.backoff_factor == 2 else f"each {format_number(line.backoff_factor)} times longer"
    )
    return f"{apart} and {growing}, to {format_duration(line.backoff_max)}"


def _turns(line: Definition) -> Iterator[tuple[str, str]]:
    if line.overlap in _OVERLAP:
        yield "overlap", _OVERLAP[line.overlap]
    if line.deadline is not None:
        yield "deadline", f"skipped when not started within {format_duration(line.deadline)}"
    if line.catch_up != "last" or line.catch_up_window is not None:
        yield "catch up", _catch_up(line)
    if line.jitter is not None:
        yield "jitter", f"starts spread over {format_duration(line.jitter)}"
    if _is_given(line, "priority"):
        yield "priority", line.priority


def _catch_up(line: Definition) -> str:
    within = f" within {format_duration(line.catch_up_window)}" if line.catch_up_window else ""
    return {
        "skip": "missed turns are not made up for",
        "all": f"all missed turns{within} are made up for",
    }.get(line.catch_up, f"the last missed turn{within} is made up for")


def _place(line: Definition) -> Iterator[tuple[str, str]]:
    if _is_given(line, "queue"):
        yield "queue", line.queue
    if line.every_node:
        yield "every node", "once on every node that may run it"
    if _is_given(line, "require"):
        yield "requires", ", ".join(map(str, line.require))
    if _is_given(line, "need"):
        yield "needs", _list(format_amount, line.need)
    if _is_given(line, "limit"):
        yield "limits", _list(format_limit, line.limit)


def _list(write: Callable[[str, Any], str], values: Mapping[str, Any]) -> str:
    return ", ".join(write(name, value) for name, value in values.items())


def _is_given(line: Definition, field: str) -> bool:
    return bool(getattr(line, field) != SPEC_DEFAULTS[field])
