"""How a form is written: one call of the service, with the version that was read."""

from dataclasses import dataclass, replace
from pathlib import Path

from dcron.crontabfile import write
from dcron.editor import TextFile
from dcron.errors import Conflict, NotFound
from dcron.model import Definition, Task
from dcron.services.crontab import Crontab
from dcron.services.text_edits import ConflictingTask
from dcron.tui.forms.equivalent import add_line, set_line
from dcron.tui.forms.reading import changed_fields


@dataclass(frozen=True)
class Saved:
    """What was written, and the command line that does the same."""

    told: str
    command: str


class Overtaking(Conflict):
    """Somebody else was first; nothing was written."""

    def __init__(self, overtaken: ConflictingTask) -> None:
        """With this line."""
        super().__init__(overtaken.told)
        self.overtaken = overtaken


def add(crontab: Crontab, line: Definition, *, named: bool) -> Saved:
    """Write a new line; one whose name nobody typed may get a number. Raises UsageError or Refused."""
    task = crontab.add(line, numbered=not named)
    return Saved(f"added {task.name}", add_line(replace(line, name=task.name)))


def change(crontab: Crontab, task: Task, line: Definition) -> Saved:
    """Write what differs, if the line is still what it was. Raises UsageError, Refused, or Overtaking."""
    changed = {name: getattr(line, name) for name in changed_fields(task, line)}
    try:
        crontab.edit(task, changed)
    except (Conflict, NotFound) as error:
        theirs = crontab.tasks_by_id([task.id]).get(task.id)
        mine = replace(task.definition(), **changed)
        raise Overtaking(ConflictingTask(str(error), theirs, mine)) from None
    return Saved(f"changed {line.name}", set_line(task, line))


def keep(line: Definition) -> Path:
    """Keep a line as text in a file of its owner's alone; where. Raises OSError."""
    with TextFile(write([line])) as file:
        file.keep()
        return file.path
