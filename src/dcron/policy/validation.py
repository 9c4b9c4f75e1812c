"""The rules for whole tasks: what agents can run, and what may be written. Rules of one field: `fields/`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from dcron.errors import ScheduleError, UsageError
from dcron.fields import FIELDS
from dcron.fields.kinds import short, text_problem
from dcron.fields.name_rules import NAME, TaskName
from dcron.fields.registry import MAX_COMMAND
from dcron.model import COMMAND_FIELDS, REQUIRED_FIELDS, Definition
from dcron.policy.starting import occurrences
from dcron.schedule.kinds import Schedule
from dcron.schedule.next_run import require_fires
from dcron.schedule.zones import zone
from dcron.values.quantities import format_duration

MOST_RUNNING = 1_000_000
"""The highest limit of a queue."""
LONGEST_KEY = 200
LONGEST_EVENT = 100
_EVENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,99}")


class _Checks:
    """The checks of some fields. Defaults are valid and need none; nothing equals that of a required field.

    Agents check every task before they plan it, and most of them have defaults only.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._fields = [field for name, field in FIELDS.items() if name in names]
        self._values = itemgetter(*(field.name for field in self._fields))
        self._defaults = tuple(
            object() if field.name in REQUIRED_FIELDS else field.default for field in self._fields
        )

    def require(self, task: Definition) -> None:
        """Raise UsageError for the first value that is not valid."""
        values = self._values(vars(task))
        if values == self._defaults:
            return
        for field, value, default in zip(self._fields, values, self._defaults, strict=True):
            if value != default and (problem := field.kind.problem(value)):
                raise UsageError(f"{field.option}: {problem}", field=field.name)


# The message about a name has words of its own.
_REQUIRED_CHECKS = _Checks(set(REQUIRED_FIELDS) - {"name"})
_OPTIONAL_CHECKS = _Checks(FIELDS.keys() - set(REQUIRED_FIELDS))
_COMMAND_CHECKS = _Checks(COMMAND_FIELDS)


def require_valid(task: Definition, now: datetime, before: Definition | None = None) -> None:
    """Raise UsageError, saying what is wrong and what would be right, unless agents can run this task.

    Also refuse an option that another one leaves without a meaning; agents accept it. `before` is the task as
    it was: where its times do not change, they may be in the past.
    """
    require_runnable(task)
    if before is None or before.name != task.name:
        require_new_name(task.name)
    _require_sense(task)
    if before and occurrences.same_times(task, before.name, before.spec()):
        return
    if occurrences.is_timed(task) and not occurrences.fires_soon(task, now):
        schedule = occurrences.schedule_of(task)
        require_fires(schedule, zone(task.timezone), now, occurrences.rules_of(task))


def require_runnable(task: Definition) -> None:
    """Raise UsageError unless agents can run this task, should its time ever come.

    Agents check every task before they plan it: it may have been written by hand, in SQL.
    """
    require_name(task.name)
    zone(task.timezone)
    _require_sources(task, occurrences.schedule_of(task))
    _REQUIRED_CHECKS.require(task)
    _OPTIONAL_CHECKS.require(task)
    _require_command(task)
    if task.not_before and task.not_after and task.not_after < task.not_before:
        raise UsageError("not-after: it is before not-before, so nothing would run", field="not_after")
    if task.on_lost == "retry" and task.tries == 1:
        raise UsageError("on-lost retry needs tries of 2 or more: a lost attempt counts", field="on_lost")


def require_command(spec: Mapping[str, Any]) -> None:
    """Raise UsageError unless a node can execute what a run's copy of its task says.

    Agents check every run before they hand it to the warden: the copy may have been written by hand.
    """
    given = {name: spec[name] for name in COMMAND_FIELDS if name in spec}
    _require_shape("argv", given.get("argv"), list, "a list of words")
    _require_shape("env", given.get("env"), dict, "names and values")
    _require_shape("limit", given.get("limit"), dict, "names and numbers")
    task = Definition(**{"name": "run", "schedule": "", "timezone": "", "command": "", **given})
    _COMMAND_CHECKS.require(task)
    _require_command(task)


def require_name(name: str) -> None:
    """Raise UsageError unless this can be the name of a task."""
    if problem := FIELDS["name"].kind.problem(name):
        raise UsageError(problem, field="name")


def require_new_name(name: str) -> None:
    """Raise UsageError unless a task may get this name now; tasks that have another one already keep it."""
    require_name(name)
    if problem := TaskName().problem_of_new(name):
        raise UsageError(problem, field="name")


def require_queue(what: str, queue: Any) -> None:
    """Raise UsageError unless this can be the name of a queue. `what` is named in the message."""
    _require("queue", what, queue)


def require_tags(what: str, tags: Sequence[Any]) -> None:
    """Raise UsageError unless a node can have these tags, or a task require them."""
    _require("require", what, tags)


def require_amounts(what: str, amounts: Mapping[str, Any]) -> None:
    """Raise UsageError unless a node can have, and a task need, as much of these."""
    _require("need", what, amounts)


def require_text(what: str, value: Any) -> None:
    """Raise UsageError unless databases and commands can take this text."""
    if problem := text_problem(value):
        raise UsageError(f"{what}: {problem}")


def _require(name: str, what: str, value: Any) -> None:
    """Raise UsageError unless the value would be valid for the field of this name."""
    if problem := FIELDS[name].kind.problem(value):
        raise UsageError(f"{what}: {problem}")


def require_event(name: str, key: str | None) -> None:
    """Raise UsageError unless an event can be called so, and have this key."""
    if not _EVENT.fullmatch(name):
        raise UsageError(f"{short(name)} cannot be an event's name: write letters, digits and . _ - : / @ +")
    if key is not None:
        require_text("key", key)
        if not 1 <= len(key) <= LONGEST_KEY:
            raise UsageError(f"key: give 1 to {LONGEST_KEY} characters")


def _require_sources(task: Definition, schedule: Schedule) -> None:
    """Check the events and tasks that start the task."""
    if task.name in schedule.after:
        raise ScheduleError(
            f"{task.schedule!r}: {task.name} cannot come after itself; name the tasks that run before it"
        )
    for name in schedule.after:
        if not NAME.fullmatch(name):
            raise ScheduleError(f"{task.schedule!r}: {short(name)} cannot be the name of a task")
    if schedule.event and len(schedule.event) > LONGEST_EVENT:
        raise ScheduleError(f"@on: the name of an event has at most {LONGEST_EVENT} characters")


def _require_shape(what: str, value: Any, kind: type, right: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{what}: {short(value)} is not {right}")


def _require_command(task: Definition) -> None:
    if not task.command.strip() and not task.argv:
        raise UsageError("the command is empty", field="command")
    if task.argv and not task.argv[0]:
        raise UsageError("the command's first word is empty: it has to name a program", field="command")
    longest = max(len(word.encode()) for word in task.argv or (task.command,))
    if longest > MAX_COMMAND:
        text = f"the command has {longest:,} bytes; {MAX_COMMAND:,} is the most that can be run"
        raise UsageError(text, field="command")


def _require_sense(task: Definition) -> None:
    """Refuse options that others leave without a meaning."""
    schedule = occurrences.schedule_of(task)
    given = [
        FIELDS[name] for name in ("catch_up", "catch_up_window", "jitter") if FIELDS[name].is_given(task)
    ]
    if given and not schedule.timed:
        option = given[0].option
        missing = "starts to spread" if option == "jitter" else "missed occurrences to catch up on"
        raise UsageError(
            f"{option}: {task.schedule} has no times of its own, so there are no {missing};"
            f" leave it out (`set`: --clear {option})",
            field=given[0].name,
        )
    if task.catch_up == "skip" and task.catch_up_window is not None:
        raise UsageError(
            "catch-up-window: with catch-up skip no run is caught up on; leave it out, or use last or all",
            field="catch_up_window",
        )
    if task.backoff > task.backoff_max:
        raise UsageError(
            f"backoff: {format_duration(task.backoff)} is longer than backoff-max,"
            f" {format_duration(task.backoff_max)}; give a longer backoff-max too",
            field="backoff",
        )
