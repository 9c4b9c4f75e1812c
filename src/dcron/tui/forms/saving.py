"""Save a form: one call of the service, with the version of the task that was read."""

from dataclasses import replace
from pathlib import Path

from dcron.crontabfile import write
from dcron.editor import TextFile
from dcron.errors import Conflict, NotFound
from dcron.model import Definition, Task
from dcron.services.changes.changeset import Overtaken, edited
from dcron.services.changes.text_edits import EditConflict
from dcron.services.crontab import Crontab
from dcron.tui.forms.checking import changed_fields
from dcron.tui.forms.equivalent import add_line, set_line
from dcron.tui.reads.acts import Outcome, done


def add(crontab: Crontab, definition: Definition, *, named: bool) -> Outcome:
    """Add a task; a name that was not typed may get a number. Raises UsageError or Refused."""
    task = crontab.add(definition, numbered=not named)
    return done(f"added {task.name}", add_line(replace(definition, name=task.name)))


def change(crontab: Crontab, task: Task, definition: Definition) -> Outcome:
    """Save the fields that differ, if the task is unchanged. Raises UsageError, Refused or EditConflict."""
    changed = {name: getattr(definition, name) for name in changed_fields(task, definition)}
    try:
        crontab.edit(task, changed)
    except (Conflict, NotFound) as error:
        theirs = crontab.tasks_by_id([task.id]).get(task.id)
        raise EditConflict([Overtaken(edited(task, changed), error, theirs)]) from None
    return done(f"changed {definition.name}", set_line(task, definition))


def keep(definition: Definition) -> Path:
    """Keep a task as text in a file that only its owner can read; return the path. Raises OSError."""
    with TextFile(write([definition])) as file:
        file.keep()
        return file.path
