"""What a line of the crontab may be: checked before it is written, in one place, for every face of dcron."""

import re
from datetime import datetime
from typing import Any

from dcron import policy
from dcron.errors import ScheduleError, UsageError
from dcron.model import Definition
from dcron.schedule import require_fires, zone

NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_OPTIONAL_TEXTS = ("stdin", "describe", "cwd", "user")
_ENV_NAME = re.compile(r"[^=\x00]+")
MAX_COMMAND = 128 * 1024
"""Bytes; the kernel takes no longer word in a command line."""
MAX_STDIN = 1024 * 1024
LONGEST_TIMEOUT = 36_525 * 86_400
"""Seconds; a century."""


class Unreadable(dict[str, Any]):
    """What stands for JSON in the database that nobody can read: empty, so that it can be shown."""

    def __init__(self, text: str) -> None:
        """Keep the text, for the message."""
        super().__init__()
        self.text = text

    def __eq__(self, other: object) -> bool:
        """Not the same as an empty one: mending it is a change."""
        return self is other

    def __ne__(self, other: object) -> bool:
        """As above; a dict has its own."""
        return self is not other


def require_valid(line: Definition, now: datetime) -> None:
    """Raise UsageError, saying what is wrong and what would be right, unless agents can run this line."""
    require_runnable(line)
    require_fires(
        policy.schedule_of(line.schedule, line.name), zone(line.timezone), now, policy.rules_of(line)
    )


def require_runnable(line: Definition) -> None:
    """Raise UsageError unless agents can run this line, should its time ever come.

    Agents ask it of every line before they plan it: a line may have been written by hand, in SQL.
    """
    require_name(line.name)
    zone(line.timezone)
    schedule = policy.schedule_of(line.schedule, line.name)
    if not (schedule.timed or schedule.reboot):
        raise ScheduleError(
            f"{line.schedule!r}: agents of this version run schedules of times and @reboot only"
        )
    _require_texts(line)
    _require_command(line)
    if line.not_before and line.not_after and line.not_after < line.not_before:
        raise UsageError("not-after: it lies before not-before, so nothing would run")
    if line.timeout is not None and not 0 < line.timeout <= LONGEST_TIMEOUT:
        raise UsageError("timeout: give a duration longer than nothing and up to a century, such as 30m")
    if line.max_running is not None and line.max_running < 1:
        raise UsageError("max-running: give 1 or more, or none for no limit")


def require_name(name: str) -> None:
    """Raise UsageError unless this can be the name of a task."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a task's name: use 1 to 100 of the letters A-Z a-z, digits, dot, dash"
            " and underscore"
        )


def _require_command(line: Definition) -> None:
    if not line.command.strip() and not line.argv:
        raise UsageError("the command is empty")
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
