"""Differences for people: of tasks, of entries of the audit log, and of other values."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dcron.crontabfile.revising import difference
from dcron.model import DEFINITION_FIELDS, Task, TaskState
from dcron.policy.history import RecordedChange

LONGEST = 1_000
"""Characters of a line in a difference."""
FIELD_LINES = 12
VALUE_LENGTH = 300
"""Characters of a value in a difference of fields."""
_HIDDEN = ("env", "stdin")
"""Fields whose values may be secret: a difference of fields only names them."""


def shortened(lines: Iterable[str]) -> list[str]:
    """Return the lines of a difference, those over LONGEST cut."""
    return [line[:LONGEST] + ("…" if len(line) > LONGEST else "") for line in lines]


def what(change: RecordedChange) -> str:
    """Return what the change did, such as `set schedule, timeout` or `undo 812: set timeout`."""
    action = change.action if change.kind in ("task", "run", "freeze") else f"{change.kind} {change.action}"
    fields = ", ".join(change.fields) if change.action in ("set", "restore") and change.has_states else ""
    run = (change.after or {}).get("run") if change.kind == "run" else None
    if change.kind == "run" and (number := (change.after or {}).get("runs")) is not None:
        run = f"{number:,} run{'s' * (number != 1)}"
    if run is not None and (change.after or {}).get("trial"):
        run = f"{run} (trial)"
    text = f"{action} {fields}" if fields else f"{action} {run}" if run is not None else action
    return f"undo {change.undoes}: {text}" if change.undoes is not None else text


def of_change(change: RecordedChange, *, backwards: bool = False) -> list[str]:
    """Return the change as a unified diff: each line begins with a space, a minus or a plus.

    With `backwards`, of a change that is not of a task: what undoing it does.
    """
    if not change.has_states:
        values = (change.before or {}, change.after or {})
        lines = list(of_values(*(reversed(values) if backwards else values)))
    else:
        before, after = change.state_before, change.state_after
        lines = difference(*(state.definition if state else None for state in (before, after)))
        lines += _paused(before, after)
    return shortened(lines)


def pause_lines(before: Task | None, after: Task | None) -> list[str]:
    """Return the difference of the pauses of a task before and after a change."""
    return _paused(*(task.state() if task else None for task in (before, after)))


def _paused(before: TaskState | None, after: TaskState | None) -> list[str]:
    old, new = _pause(before), _pause(after)
    return [f"{sign}{text}" for sign, text in (("-", old), ("+", new)) if text] if old != new else []


def _pause(state: TaskState | None) -> str:
    """Return the pause of a task as a comment."""
    if state is None or state.pause is None:
        return ""
    until = f" until {state.pause.until:%Y-%m-%dT%H:%M:%SZ}" if state.pause.until else ""
    reason = f": {' '.join(state.pause.reason.split())}" if state.pause.reason else ""
    return f"# paused{until}{reason}"


def of_values(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that differ, but for the name: `-` before the old value, `+` before the new one."""
    for key in dict.fromkeys([*before, *after]):
        if key != "name" and before.get(key) != after.get(key):
            for sign, values in (("-", before), ("+", after)):
                if key in values:
                    yield f"{sign}{key}: {json.dumps(values[key], ensure_ascii=False)}"


def of_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the changed fields of a task, as the audit log has them: lines that begin with `-` and `+`."""
    lines: list[str] = []
    for field in sorted(
        after.keys() & before.keys() & set(DEFINITION_FIELDS), key=lambda each: (each != "command", each)
    ):
        old, new = before[field], after[field]
        if old == new or (field == "argv" and "command" in after):
            continue
        if field in _HIDDEN:
            lines.append(f"+ {field} changed")
        elif field == "command":
            lines += [f"- {_shown(old)}", f"+ {_shown(new)}"]
        else:
            lines += [f"- {field} {_shown(old)}", f"+ {field} {_shown(new)}"]
    return lines[:FIELD_LINES]


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, dict):
        text = ",".join(f"{key}={_shown(each)}" for key, each in value.items())
    elif isinstance(value, list | tuple):
        text = ",".join(map(_shown, value))
    elif isinstance(value, float) and value == int(value):
        text = str(int(value))
    else:
        text = str(value)
    return text if len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + "…"
