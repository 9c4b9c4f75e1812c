"""What a line of the crontab may be: checked before it is written, in one place, for every face of dcron."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dcron import policy
from dcron.errors import ScheduleError, UsageError
from dcron.model import (
    COMMAND_FIELDS,
    LONGEST_DURATION,
    LONGEST_JITTER,
    MOST_BACKOFF_FACTOR,
    MOST_TRIES,
    SPEC_DEFAULTS,
    Definition,
)
from dcron.quantities import require_amount, require_limit
from dcron.schedule import Schedule, format_duration, require_fires, zone
from dcron.unreadable import Unreadable

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OPTIONAL_TEXTS = ("stdin", "describe", "cwd", "user")
_ENV_NAME = re.compile(r"[^=\x00]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_COMMAND = 128 * 1024 - 1
"""Bytes; the kernel takes no longer word in a command line, nor a longer NAME=value."""
MAX_STDIN = 1024 * 1024
MOST_RUNNING = 1_000_000
LONGEST_KEY = 200
_EVENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,99}")
MOST_TAGS = 20
LONGEST_TAG = 60
MOST_NEEDS = 10
LONGEST_ACCOUNT = 100
"""In bytes. These four keep a lane, one text that holds them all, short enough for an index of Postgres."""
LONGEST_EVENT = 100
SLOTS = "slots"
"""What every run takes one of, asked or not."""
_TAG = re.compile(r"[A-Za-z0-9._-]+(?:=[A-Za-z0-9._-]+)?")
_CHOICES = {
    "overlap": ("skip", "queue", "replace"),
    "on_lost": ("dead", "retry"),
    "catch_up": ("skip", "last", "all"),
    "priority": ("high", "normal", "low"),
}
_MOMENT = 0.001
"""Seconds; the shortest time that counts."""
_NUMBERS = {
    "tries": (1, MOST_TRIES, f"1 to {MOST_TRIES}, the first included"),
    "backoff": (0, LONGEST_DURATION, "0s to a century, such as 1s"),
    "backoff_max": (0, LONGEST_DURATION, "0s to a century, such as 1h"),
    "backoff_factor": (1, MOST_BACKOFF_FACTOR, f"1 to {MOST_BACKOFF_FACTOR}, such as 2"),
    "deadline": (_MOMENT, LONGEST_DURATION, "a duration longer than nothing and up to a century, such as 1h"),
    "catch_up_window": (_MOMENT, LONGEST_DURATION, "a duration longer than nothing, such as 24h"),
    "jitter": (_MOMENT, LONGEST_JITTER, "a duration longer than nothing and up to a day, such as 30s"),
}
_DURATIONS = ("backoff", "backoff_max", "deadline", "catch_up_window", "jitter")
_MAY_BE_NONE = ("deadline", "catch_up_window", "jitter")


def require_valid(line: Definition, now: datetime, before: Definition | None = None) -> None:
    """Raise UsageError, saying what is wrong and what would be right, unless agents can run this line.

    Also where one thing that was asked for leaves another without any meaning; agents let that pass. `before`
    is the line as it was: where its times stay what they are, they may be over.
    """
    require_runnable(line)
    if before is None or before.name != line.name:
        require_new_name(line.name)
    _require_sense(line)
    if before and policy.same_times(line, before.name, before.spec()):
        return
    if policy.is_timed(line) and not policy.fires_soon(line, now):
        schedule = policy.schedule_of(line.schedule, line.name)
        require_fires(schedule, zone(line.timezone), now, policy.rules_of(line))


def require_runnable(line: Definition) -> None:
    """Raise UsageError unless agents can run this line, should its time ever come.

    Agents ask it of every line before they plan it: a line may have been written by hand, in SQL.
    """
    require_name(line.name)
    zone(line.timezone)
    _require_sources(line, policy.schedule_of(line.schedule, line.name))
    _require_texts(line)
    _require_command(line)
    if line.not_before and line.not_after and line.not_after < line.not_before:
        raise UsageError("not-after: it lies before not-before, so nothing would run")
    _require_timeout(line)
    if line.max_running is not None and line.max_running < 1:
        raise UsageError("max-running: give 1 or more, or none for no limit")
    for what, name in (("user", line.user), ("except", line.except_calendar), ("only", line.only_calendar)):
        if name == "":
            raise UsageError(f"{what}: the name is empty; leave it out (`set`: --clear {what})")
        if name and _CONTROL.search(name):
            raise UsageError(f"{what}: {_short(name)} has a line end or another control character")
    if isinstance(line.user, str) and len(line.user.encode(errors="replace")) > LONGEST_ACCOUNT:
        raise UsageError(f"user: {_short(line.user)} has more than {LONGEST_ACCOUNT} bytes")
    _require_policies(line)
    _require_place(line)


def require_command(spec: Mapping[str, Any]) -> None:
    """Raise UsageError unless a node can execute what a run's copy of its task says.

    Agents ask it of every run before they hand it to the warden: the copy may have been written by hand.
    """
    given = {name: spec[name] for name in COMMAND_FIELDS if name in spec}
    _require_shape("argv", given.get("argv"), list, "a list of words")
    _require_shape("env", given.get("env"), dict, "names and values")
    _require_shape("limit", given.get("limit"), dict, "names and numbers")
    line = Definition(**{"name": "run", "schedule": "", "timezone": "", "command": "", **given})
    _require_texts(line)
    _require_command(line)
    _require_timeout(line)
    _require_limits(line)


def _require_shape(what: str, value: Any, kind: type, right: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise UsageError(f"{what}: {_short(value)} is not {right}")


def require_name(name: str) -> None:
    """Raise UsageError unless this can be the name of a task."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a task's name: use 1 to 100 of the letters A-Z a-z, digits, dot, dash"
            " and underscore"
        )


def require_new_name(name: str) -> None:
    """Raise UsageError unless a task may get this name now; tasks that have another one already keep it."""
    require_name(name)
    if name.isdigit():
        raise UsageError(
            f"{name!r} cannot be a new name: a number is a run's; add a letter, as in task-{name}"
        )
    if name[0] in "-.":
        raise UsageError(
            f"{name!r} cannot be a new name: what begins with a dash is an option, and what begins with a dot"
            f" a hidden file; {name.lstrip('-.') or 'task'!r} would do"
        )


def require_queue(what: str, queue: Any) -> None:
    """Raise UsageError unless this can be the name of a queue."""
    if not isinstance(queue, str) or not NAME.fullmatch(queue):
        raise UsageError(f"{what}: {_short(queue)} is no name of a queue; use 1 to 100 of A-Z a-z 0-9 . _ -")


def require_event(name: str, key: str | None) -> None:
    """Raise UsageError unless an event can be called so, and have this key."""
    if not _EVENT.fullmatch(name):
        raise UsageError(f"{_short(name)} cannot be an event's name: write letters, digits and . _ - : / @ +")
    if key is not None:
        require_text("key", key)
        if not 1 <= len(key) <= LONGEST_KEY:
            raise UsageError(f"key: give 1 to {LONGEST_KEY} characters")


def require_tags(what: str, tags: Sequence[Any]) -> None:
    """Raise UsageError unless these can be the tags of a node, or what a task asks of one."""
    if len(tags) > MOST_TAGS:
        raise UsageError(f"{what}: {len(tags)} tags are too many; {MOST_TAGS} is the most")
    for position, tag in enumerate(tags):
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            raise UsageError(
                f"{what}: {_short(tag)} is not a tag; write a word such as ssd, or two such as zone=eu-1,"
                " of A-Z a-z 0-9 . _ -"
            )
        if len(tag) > LONGEST_TAG:
            raise UsageError(f"{what}: {_short(tag)} has more than {LONGEST_TAG} characters")
        if tag in tags[:position]:
            raise UsageError(f"{what}: {tag} is given twice; give it once")


def require_amounts(what: str, amounts: Mapping[str, Any]) -> None:
    """Raise UsageError unless a node can have, and tasks can need, as much of these."""
    if SLOTS in amounts:
        raise UsageError(f"{what}: slots are counted by themselves, one for each run; leave them out")
    if len(amounts) > MOST_NEEDS:
        raise UsageError(f"{what}: {len(amounts)} of them are too many; {MOST_NEEDS} is the most")
    for name, amount in amounts.items():
        _as_part_of(what, require_amount, name, amount)


def _require_sources(line: Definition, schedule: Schedule) -> None:
    """What is not the clock, and lets the line run."""
    if line.name in schedule.after:
        raise ScheduleError(
            f"{line.schedule!r}: {line.name} cannot come after itself; name the tasks that run before it"
        )
    for name in schedule.after:
        if not NAME.fullmatch(name):
            raise ScheduleError(f"{line.schedule!r}: {_short(name)} cannot be the name of a task")
    if schedule.event and len(schedule.event) > LONGEST_EVENT:
        raise ScheduleError(f"@on: the name of an event has at most {LONGEST_EVENT} characters")


def _require_policies(line: Definition) -> None:
    for field, values in _CHOICES.items():
        if getattr(line, field) not in values:
            raise UsageError(
                f"{_option(field)}: {_short(getattr(line, field))} is none of {', '.join(values)}"
            )
    for field, (least, most, right) in _NUMBERS.items():
        value = getattr(line, field)
        if value is None and field in _MAY_BE_NONE:
            continue
        if not isinstance(value, int | float) or not least <= value <= most:
            is_time = isinstance(value, int | float) and field in _DURATIONS and abs(value) < 1e12
            told = format_duration(value) if is_time else _short(value)
            raise UsageError(f"{_option(field)}: {told} will not do; give {right}")
    if line.tries != int(line.tries):
        raise UsageError(f"tries: {line.tries} is not a whole number")
    if line.on_lost == "retry" and line.tries == 1:
        raise UsageError("on-lost retry needs tries of 2 or more: a lost attempt counts")


def _require_place(line: Definition) -> None:
    """Where the line may run, and what of."""
    require_queue("queue", line.queue)
    _require_json(line.require, "require", 'a list of tags such as ["ssd", "zone=eu-1"]')
    require_tags("require", line.require)
    _require_json(line.need, "need", 'names and amounts such as {"gpu": 1}, memory in bytes')
    require_amounts("need", line.need)
    _require_limits(line)


def _require_limits(line: Definition) -> None:
    _require_json(line.limit, "limit", 'names and numbers such as {"files": 100}, memory in bytes')
    for name, value in line.limit.items():
        _as_part_of("limit", require_limit, name, value)


def _require_timeout(line: Definition) -> None:
    timeout = line.timeout
    if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout <= LONGEST_DURATION):
        raise UsageError("timeout: give a duration longer than nothing and up to a century, such as 30m")


def _require_sense(line: Definition) -> None:
    schedule = policy.schedule_of(line.schedule, line.name)
    given = [each for each in ("catch_up", "catch_up_window", "jitter") if _is_given(line, each)]
    if given and not schedule.timed:
        missing = "starts to spread" if given[0] == "jitter" else "missed occurrences to make up for"
        raise UsageError(
            f"{_option(given[0])}: {line.schedule} has no times of its own, so there are no {missing};"
            f" leave it out (`set`: --clear {_option(given[0])})"
        )
    if line.catch_up == "skip" and line.catch_up_window is not None:
        raise UsageError(
            "catch-up-window: with catch-up skip nothing is made up for; leave it out, or take last or all"
        )
    if line.backoff > line.backoff_max:
        raise UsageError(
            f"backoff: {format_duration(line.backoff)} is longer than the longest wait,"
            f" {format_duration(line.backoff_max)}; give a longer backoff-max too"
        )


def _is_given(line: Definition, field: str) -> bool:
    return bool(getattr(line, field) != SPEC_DEFAULTS[field])


def _option(field: str) -> str:
    return field.replace("_", "-")


def _as_part_of(what: str, check: Callable[[str, Any], None], name: str, value: Any) -> None:
    try:
        check(name, value)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _require_command(line: Definition) -> None:
    if not line.command.strip() and not line.argv:
        raise UsageError("the command is empty")
    if line.argv and not line.argv[0]:
        raise UsageError("the command's first word is empty: it has to name a program")
    longest = max(len(word.encode()) for word in line.argv or (line.command,))
    if longest > MAX_COMMAND:
        raise UsageError(f"the command has {longest:,} bytes; {MAX_COMMAND:,} is the most that can be run")
    if not line.shell.startswith("/"):
        raise UsageError(f"shell: {line.shell!r} is not an absolute path such as /bin/bash")
    if line.cwd is not None and not line.cwd.startswith("/"):
        raise UsageError(f"cwd: {line.cwd!r} is not an absolute path")


def _require_texts(line: Definition) -> None:
    texts: dict[str, Any] = {name: getattr(line, name) for name in _OPTIONAL_TEXTS}
    texts = {name: value for name, value in texts.items() if value is not None}
    texts |= {"command": line.command, "shell": line.shell}
    _require_json(line.argv, "argv", 'a list of words such as ["ls", "-l"]')
    texts |= {f"argv word {position}": word for position, word in enumerate(line.argv or ())}
    _require_json(line.env, "env", 'names and values such as {"LANG": "C"}')
    for name, value in line.env.items():
        if not _ENV_NAME.fullmatch(name):
            raise UsageError(f"env: {name!r} cannot name a variable; write NAME=value")
        if len(f"{name}={value}".encode(errors="replace")) > MAX_COMMAND:
            raise UsageError(
                f"env {_short(name)}: {MAX_COMMAND:,} bytes, with the name, is the most there can be"
            )
        texts |= {f"env name {name!r}": name, f"env {name!r}": value}
    for what, value in texts.items():
        require_text(what, value)
    if line.stdin is not None and len(line.stdin.encode()) > MAX_STDIN:
        raise UsageError(f"stdin: {len(line.stdin.encode()):,} bytes; {MAX_STDIN:,} is the most that is kept")


def _require_json(value: Any, what: str, example: str) -> None:
    if isinstance(value, Unreadable):
        raise UsageError(f"{what}: {value.text[:100]!r} is not JSON that can be read; write {example}")


def require_text(what: str, value: Any) -> None:
    """Raise UsageError unless this is a text that databases and commands take."""
    if not isinstance(value, str):
        raise UsageError(f"{what}: {value!r} is not a text")
    if "\0" in value:
        raise UsageError(f"{what}: has a NUL character, which no command can be given")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what}: is not valid UTF-8") from None
