"""Parse a schedule's text. docs/schedules.md defines each form.

An error names the field, the term, its column, and what would be right.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

from dcron.errors import ScheduleError, UsageError
from dcron.schedule.cron_expression import WORDS, Cron, read_cron
from dcron.schedule.kinds import After, At, Delay, Every, Form, OnEvent, Reboot, Schedule
from dcron.schedule.meant import hint
from dcron.schedule.rrule import read_recurrence
from dcron.schedule.time_parser import parse_timestamp
from dcron.values.quantities import parse_duration
from dcron.values.similar import did_you_mean

LONGEST = 256
"""Most characters in a schedule."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]*", re.ASCII)


def parse(text: str, *, name: str = "") -> Schedule:
    """Parse a schedule. `name` is the task's, which `H` and `~` hash. Raises ScheduleError."""
    _check_characters(text)
    return _parse(text, name)


def is_hashed(schedule: Schedule) -> bool:
    """Return whether the task's name decides some of its times (`H`, `~`)."""
    crons = [form for form in schedule.forms if isinstance(form, Cron)]
    return any(values.hashed for cron in crons for _, values in cron.columns())


def _check_characters(text: str) -> None:
    if len(text) > LONGEST:
        raise ScheduleError(f"a schedule has at most {LONGEST} characters; this one has {len(text)}")
    for column, character in enumerate(text, 1):
        if character != "\t" and not (character.isascii() and character.isprintable()):
            raise ScheduleError(f"{character!a} is not a plain ASCII character (column {column})")
    if not text.strip():
        raise ScheduleError("the schedule is empty; write for example '0 9 * * mon-fri' or @daily")


@lru_cache(maxsize=4096)
def _parse(text: str, name: str) -> Schedule:
    forms = []
    column = 1
    for part in text.split("|"):
        forms.append(_form(part, column, name))
        column += len(part) + 1
    if len(forms) > 1:
        _check_union(forms)
    return Schedule(text, tuple(forms))


def _check_union(forms: list[Form]) -> None:
    """Raise ScheduleError if a form that follows a run or an event is combined with another form."""
    for form in forms:
        if isinstance(form, Delay | OnEvent | After):
            word = _WORD_OF[type(form)]
            raise ScheduleError(
                f"@{word} cannot be combined with other schedules by |: a task has times, or follows others;"
                f" make two tasks, one with @{word} alone"
            )


def _form(part: str, column: int, name: str) -> Form:
    column += len(part) - len(part.lstrip())
    text = part.strip()
    if not text:
        raise ScheduleError(f"a schedule is missing beside | (column {column})")
    if text.startswith("@"):
        return _word(text, column, name)
    if text.upper().startswith(("RRULE:", "DTSTART")):
        return read_recurrence(text, column)
    try:
        return read_cron(text, column, name)
    except ScheduleError as error:
        raise ScheduleError(f"{error}{hint(text)}") from None


def _word(text: str, column: int, name: str) -> Form:
    """Parse the forms that begin with @."""
    word, _, rest = text.partition(" ")
    word, rest = word.lower(), rest.strip()
    if word in WORDS or word == "@reboot":
        if rest:
            raise ScheduleError(f"{word} takes no value; {rest!r} follows it (column {column})")
        return Reboot() if word == "@reboot" else _named(word, column, name)
    if word not in _READERS:
        raise ScheduleError(f"{word} is not known{_hint(word)} (column {column})")
    if not rest:
        raise ScheduleError(f"{word} needs a value, as in {_EXAMPLES[word]} (column {column})")
    try:
        return _READERS[word](rest)
    except ScheduleError:
        raise
    except UsageError as error:
        raise ScheduleError(f"{word}: {error}") from None


def _named(word: str, column: int, name: str) -> Cron:
    return replace(read_cron(WORDS[word], column, name), text=word)


def _every(text: str) -> Every:
    seconds = parse_duration(text)
    if seconds < 1 or seconds != int(seconds):
        raise ScheduleError(f"@every counts whole seconds, from 1s up, not {text}")
    return Every(timedelta(seconds=seconds))


def _delay(text: str) -> Delay:
    return Delay(parse_duration(text))


def _at(text: str) -> At:
    at = parse_timestamp(text)
    if at is None:
        raise ScheduleError(
            f"@at: {text!r} is not a date and time; write 2027-01-01T09:00, with or without an offset"
        )
    return At(at)


def _on(text: str) -> OnEvent:
    return OnEvent(_checked_name(text, "@on"))


def _after(text: str) -> After:
    names = tuple(_checked_name(name.strip(), "@after") for name in text.split(","))
    if len(set(names)) < len(names):
        raise ScheduleError(f"@after: a task is named twice in {text!r}")
    return After(names)


def _checked_name(name: str, word: str) -> str:
    if not _NAME.fullmatch(name):
        raise ScheduleError(f"{word}: {name!r} is not a name; write letters, digits and . _ - : / @ +")
    return name


_READERS: dict[str, Callable[[str], Form]] = {
    "@every": _every,
    "@delay": _delay,
    "@at": _at,
    "@on": _on,
    "@after": _after,
}
_EXAMPLES = {
    "@every": "@every 90s",
    "@delay": "@delay 5m",
    "@at": "@at 2027-01-01T09:00",
    "@on": "@on deploy",
    "@after": "@after backup,report",
}
_WORD_OF = {Delay: "delay", OnEvent: "on", After: "after"}


def _hint(word: str) -> str:
    known = [*WORDS, "@reboot", *_READERS]
    return did_you_mean(word, known, f"there are {', '.join(known)}")
