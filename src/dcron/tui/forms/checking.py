"""Read the texts of a form into a task, report what is wrong with which text, and preview the schedule.

`check` is called in a thread of the form. The preview of a form and its saving both use what it returns.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dcron.crontabfile.names import default_name
from dcron.errors import UsageError
from dcron.fields import FIELDS, Field
from dcron.model import REQUIRED_FIELDS, Definition, Task
from dcron.policy.forecast.start_load import OtherStarts, start_load
from dcron.policy.starting import occurrences
from dcron.policy.validation import require_valid
from dcron.presentation import next_runs
from dcron.schedule.zones import zone
from dcron.tui.forms.fields import WORDS, Texts, read, texts_of
from dcron.tui.forms.schedule_preview import Calendars, SchedulePreview, load_lines, preview, rules_of

GENERAL = ""
"""Key of an error that is about the task as a whole."""
Moved = Sequence[tuple[str, str | list[str] | None]]


@dataclass(frozen=True)
class FormState:
    """What is typed in a form at one time, and what is known for its check."""

    base: Definition
    """The task that is edited, or what a new one starts as."""
    is_new: bool
    began_as: Texts
    """The texts of `base`."""
    texts: Texts
    number: int = 0
    """Grows with every change."""
    calendars: Calendars = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Calendars that could not be read, with the reason."""
    others: OtherStarts | None = None
    """The starts of the other tasks; None until they are counted."""


@dataclass(frozen=True)
class Checked:
    """What the texts mean."""

    state: FormState
    task: Definition
    """The task. A text that cannot be read leaves its field unchanged."""
    errors: Mapping[str, str]
    """What is wrong and what would be right, by the names of fields."""
    preview: SchedulePreview | None = None
    """None if the schedule cannot be read."""
    moved: Moved = ()
    """The next runs before and after, if the task can be saved."""
    load: Sequence[tuple[str, str]] = ()
    """What the starts meet, in words and styles."""

    @property
    def named(self) -> bool:
        """Whether a name was state. If not, it is made from the command, and may get a number."""
        return bool(self.state.texts["name"].strip())


def check(state: FormState, now: datetime) -> Checked:
    """Read the texts, and preview the schedule if it can be read.

    It finds every error, but for those that only the database can find. `now` is the database's time.
    """
    task, errors = _task_of(state, now)
    for name in ("except_calendar", "only_calendar"):
        if (calendar := getattr(task, name)) in state.missing:
            errors.setdefault(name, state.missing[calendar])
    found: SchedulePreview | None = None
    load: Sequence[tuple[str, str]] = ()
    if not {"schedule", "timezone"} & errors.keys():
        try:
            found = preview(task, state.calendars, now)
            if state.others is not None and occurrences.schedule_of(task).timed:
                load = load_lines(start_load(task, state.others), zone(task.timezone))
        except UsageError as error:
            errors.setdefault(error.field or GENERAL, str(error))
    moved: Moved = ()
    if not errors:
        before, rules = None if state.is_new else state.base, rules_of(task, state.calendars)
        moved = list(next_runs.moved_runs(before, task, now, rules))
    return Checked(state, task, errors, found, moved, load)


def merged(base: Definition, mine: Definition, theirs: Definition) -> Definition:
    """Return `theirs` with the changes that `mine` makes to `base`."""
    return replace(theirs, **{name: getattr(mine, name) for name in changed_fields(base, mine)})


def changed_fields(before: Definition, after: Definition) -> list[str]:
    """Return the names of the fields that differ, in the order of the form."""
    return [name for name in FIELDS if getattr(before, name) != getattr(after, name)]


def _task_of(state: FormState, now: datetime) -> tuple[Definition, dict[str, str]]:
    """Return the task that the texts make of `base`, and the errors.

    A text that did not change leaves its field unchanged.
    """
    base, texts, before = state.base, state.texts, texts_of(state.base)
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, each in FIELDS.items():
        if texts[name] == before[name] and name not in ("name", "schedule", "timezone"):
            continue
        try:
            values[name] = _read(each, texts)
        except UsageError as error:
            errors[name] = str(error)
    values |= _command(base, texts, before, errors)
    if not texts["name"].strip():
        errors.pop("name", None)
        values["name"] = default_name(values.get("command", base.command) or "task")
    task = replace(base, **values)
    if not errors:
        try:
            require_valid(task, now, base if isinstance(base, Task) else None)
        except UsageError as error:
            errors = {error.field or GENERAL: str(error)}
    return task, errors


def _read(field: Field, texts: Texts) -> Any:
    if not texts[field.name].strip() and field.name not in REQUIRED_FIELDS:
        return field.default
    return read(field, texts)


def _command(base: Definition, texts: Texts, before: Texts, errors: dict[str, str]) -> dict[str, Any]:
    """Return the command and its words, which depend on each other."""
    if all(texts[name] == before[name] for name in ("command", "argv")):
        return {"command": base.command, "argv": base.argv}
    if texts["argv"] != WORDS:
        return {"command": texts["command"], "argv": None}
    try:
        words = tuple(shlex.split(texts["command"]))
    except ValueError as error:
        errors["command"] = f"{str(error).lower()}; the words are split as a shell splits them"
        return {}
    return {"command": shlex.join(words), "argv": words or None}
