"""An act: one call of a service, with the command line that does the same."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dcron.errors import Conflict, DcronError, NotFound, unexpected
from dcron.model import Task
from dcron.services.crontab import Crontab


@dataclass(frozen=True)
class Act:
    """A change that a person asked for."""

    title: str
    """Such as `pause backup`."""
    command: str
    """The command line that does the same."""
    do: Callable[[Crontab], Any]
    """Do it. Raises DcronError."""
    says: Callable[[Any], str] = str
    """Return what was done, from the result of `do`."""
    again: Callable[[Crontab], Any] | None = None
    """Do it to the task as it is now; used after a conflict."""
    task: Task | None = None
    """The task as it was read."""
    needs_consent: bool = True
    """Whether a protected context asks: it starts, changes or stops something."""


@dataclass(frozen=True)
class Outcome:
    """The result of an act."""

    act: Act
    message: str
    error: DcronError | None = None
    theirs: Task | None = None
    """After a conflict: the task as it is now."""


def done(message: str, command: str) -> Outcome:
    """Return the outcome of what was done otherwise than as an act."""
    return Outcome(Act(message, command, lambda _: message), message)


def on_task(
    task: Task,
    verb: str,
    words: Sequence[str],
    do: Callable[[Crontab, Task], Any],
    says: Callable[[Any], str] = str,
) -> Act:
    """Return an act on a task as it was read. After a conflict it may be repeated on the task as it is."""

    def again(crontab: Crontab) -> Any:
        now = crontab.tasks_by_id([task.id]).get(task.id)
        if now is None:
            raise NotFound(f"{task.name} was removed meanwhile")
        return do(crontab, now)

    command = shlex.join(["dcron", verb, task.name, *words])
    return Act(f"{verb} {task.name}", command, lambda crontab: do(crontab, task), says, again, task)


def perform(act: Act, crontab: Crontab) -> Outcome:
    """Do the act and return its outcome, whatever it is."""
    try:
        return Outcome(act, act.says(act.do(crontab)))
    except Conflict as error:
        theirs = crontab.tasks_by_id([act.task.id]) if act.task else {}
        return Outcome(act, str(error), error, next(iter(theirs.values()), None))
    except DcronError as error:
        return Outcome(act, str(error), error)
    except Exception as error:  # a bug must not leave the screen without an answer
        message = unexpected(error)
        return Outcome(act, message, DcronError(message))
