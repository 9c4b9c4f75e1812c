"""Say which source a task belongs to: what a person changes here belongs there, too."""

from collections.abc import Iterable, Iterator
from typing import Any

from dcron.fields import FIELDS
from dcron.model import Task
from dcron.policy.ownership import is_drifted, is_owned


def source(task: Task) -> str | None:
    """Return the task's source, and whether a person has changed the task since it was applied."""
    return f"{task.source}, changed by hand since it was applied" if is_drifted(task) else task.source


def field_text(name: str, *values: Any) -> list[str]:
    """Return the name of the option for this field, and then each of the values as text."""
    field = FIELDS[name]
    return [
        field.option,
        *(field.kind.format(each) if each not in (None, {}, ()) else "none" for each in values),
    ]


def reminders(changed: Iterable[Task], act: str = "change") -> Iterator[str]:
    """Yield for each owned task that the change belongs to its source, too."""
    for task in changed:
        if is_owned(task):
            yield f"{task.name} belongs to {task.source}: {act} it there, too"
