"""Describe entries of the audit log: `history` and `undo`, and the same on the screen."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.store.changes import RecordedChange, TaskState

LONGEST = 1_000
"""Characters of a line in a difference."""


def what(change: "RecordedChange") -> str:
    """Return what the change did, such as `set schedule, timeout` or `undo 812: set timeout`."""
    action = change.action if change.kind in ("task", "run", "freeze") else f"{change.kind} {change.action}"
    fields = ", ".join(change.fields) if change.action in ("set", "restore") and change.has_states else ""
    run = (change.after or {}).get("run") if change.kind == "run" else None
    if run is not None and (change.after or {}).get("trial"):
        run = f"{run} (trial)"
    text = f"{action} {fields}" if fields else f"{action} {run}" if run is not None else action
    return f"undo {change.undoes}: {text}" if change.undoes is not None else text


def difference(change: "RecordedChange", *, backwards: bool = False) -> list[str]:
    """Return the change as a unified diff: each line begins with a space, a minus or a plus.

    With `backwards`, of a change that is not of a task: what undoing it does.
    """
    from dcron.crontabfile.revising import difference as task_difference

    if not change.has_states:
        lines = list(_other(change, backwards=backwards))
    else:
        before, after = change.state_before, change.state_after
        lines = task_difference(*(state.definition if state else None for state in (before, after)))
        lines += _paused(before, after)
    return [line[:LONGEST] + ("…" if len(line) > LONGEST else "") for line in lines]


def pause_lines(before: "Task | None", after: "Task | None") -> list[str]:
    """Return the difference of the pauses of a task before and after a change."""
    from dcron.store.changes import state_of

    return _paused(*(state_of(task) if task else None for task in (before, after)))


def _paused(before: "TaskState | None", after: "TaskState | None") -> list[str]:
    old, new = _pause(before), _pause(after)
    return [f"{sign}{text}" for sign, text in (("-", old), ("+", new)) if text] if old != new else []


def _pause(state: "TaskState | None") -> str:
    """Return the pause of a task as a comment."""
    if state is None or state.pause is None:
        return ""
    until = f" until {state.pause.until:%Y-%m-%dT%H:%M:%SZ}" if state.pause.until else ""
    reason = f": {' '.join(state.pause.reason.split())}" if state.pause.reason else ""
    return f"# paused{until}{reason}"


def _other(change: "RecordedChange", *, backwards: bool) -> Iterator[str]:
    before, after = change.before or {}, change.after or {}
    if backwards:
        before, after = after, before
    for key in dict.fromkeys([*before, *after]):
        if key != "name" and before.get(key) != after.get(key):
            for sign, values in (("-", before), ("+", after)):
                if key in values:
                    yield f"{sign}{key}: {json.dumps(values[key], ensure_ascii=False)}"
