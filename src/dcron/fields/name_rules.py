"""The rule for names of tasks, queues and calendars, and the kinds of fields that hold one."""

import re
from typing import Any

from dcron.errors import UsageError
from dcron.fields.kinds import NONE, Kind, Problem, reference_problem, required, short

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
"""The names of tasks, queues and calendars."""
NAME_RULE = "1 to 100 of A-Z a-z 0-9 . _ -"
"""The same for people."""


class TaskName(Kind):
    """The name of a task."""

    def parse(self, text: str, timezone: str = "UTC") -> str:
        """Return the name."""
        return str(self.require(text))

    def problem(self, value: Any) -> Problem:
        """Return what a name looks like, for any other text."""
        if isinstance(value, str) and NAME.fullmatch(value):
            return None
        return f"{value!r} cannot be a task's name: use {NAME_RULE}"

    def problem_of_new(self, name: str) -> Problem:
        """Return why no task gets this name any more; tasks that have such a name keep it."""
        if name.isdigit():
            return f"{name!r} cannot be a new name: a number is a run's; add a letter, as in task-{name}"
        if name[0] in "-.":
            return (
                f"{name!r} cannot be a new name: what begins with a dash is an option, and what begins with a"
                f" dot a hidden file; {name.lstrip('-.') or 'task'!r} would do"
            )
        return None


class QueueName(Kind):
    """The name of a queue."""

    def read(self, word: str | None) -> str:
        """Return the name. A directive refuses a bad one, so that the message has its line."""
        return str(self.require(required(word)))

    def problem(self, value: Any) -> Problem:
        """Return what a name looks like, for any other value."""
        if isinstance(value, str) and NAME.fullmatch(value):
            return None
        return f"{short(value)} cannot be a queue's name: use {NAME_RULE}"


class CalendarName(Kind):
    """The name of a calendar, or none."""

    def parse(self, text: str, timezone: str = "UTC") -> str | None:
        """Return the name, or None for `none`."""
        return None if text == NONE else text

    def read(self, word: str | None) -> str:
        """Return the name."""
        if not NAME.fullmatch(required(word)):
            raise UsageError(f"{short(required(word))} cannot be a calendar's name: use {NAME_RULE}")
        return required(word)

    def problem(self, value: Any) -> Problem:
        """Return what keeps this from being a calendar's name."""
        return reference_problem(value)
