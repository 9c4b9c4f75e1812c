"""Write what a plain cron understands. Each result is read back before it is returned."""

import re
import shlex

from dcron.crontabfile.comments import describe
from dcron.crontabfile.directive import DIRECTIVE, UNPRINTABLE
from dcron.crontabfile.lines import read_assignment, read_job
from dcron.crontabfile.percent import join
from dcron.crontabfile.problems import BadLine
from dcron.model import Definition
from dcron.schedule.zones import zone_names

MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
DAYS = "sun|mon|tue|wed|thu|fri|sat"
CRON_WORDS = "@reboot|@yearly|@annually|@monthly|@weekly|@daily|@midnight|@hourly"
SETTINGS = {"SHELL", "CRON_TZ"}
"""Assignments of these do not make a variable."""


def _field(names: str = r"\d+") -> str:
    value = rf"(?:\d+|(?i:{names}))"
    term = rf"(?:\*|{value}(?:-{value})?)(?:/\d+)?"
    return f"{term}(?:,{term})*"


FIELDS = " ".join([_field(), _field(), _field(), _field(MONTHS), _field(DAYS)])
SCHEDULE = re.compile(f"{FIELDS}|{CRON_WORDS}", re.ASCII)


def job_line(definition: Definition, *, system: bool) -> str | None:
    """Return the task as a crontab line, or None if cron cannot express its time, account or command."""
    if not SCHEDULE.fullmatch(definition.schedule) or (definition.user is not None) != system:
        return None
    if definition.argv is not None and not is_split(definition):
        return None
    words = [definition.schedule, definition.user, join(definition.command, definition.stdin)]
    line = " ".join(word for word in words if word is not None)
    return line if _reads_as(line, definition, system) else None


def is_zone(name: str) -> bool:
    """Return whether CRON_TZ can name this zone. A zone written by hand, in SQL, may be any text."""
    return name in zone_names()


def is_split(definition: Definition) -> bool:
    """Return whether the words to execute are those that a shell finds in the command."""
    return bool(definition.argv) and definition.command == shlex.join(definition.argv or ())


def _reads_as(line: str, definition: Definition, system: bool) -> bool:
    if UNPRINTABLE.search(line) or not definition.command.strip():
        return False
    try:
        job = read_job(line, system=system)
    except BadLine:
        return False
    read = (job.schedule.text, job.user, job.command, job.stdin)
    return read == (definition.schedule, definition.user, definition.command, definition.stdin)


def assignment(name: str, value: str) -> str | None:
    """Return a variable as an environment line, or None if no such line can express it."""
    return None if name in SETTINGS else setting(name, value)


def setting(name: str, value: str) -> str | None:
    """Return an assignment that reads back as this name and value, or None."""
    for quote in ("", '"', "'"):
        line = f"{name}={quote}{value}{quote}"
        if _assigns(line, name, value) and (value or quote):
            return line
    return None


def _assigns(line: str, name: str, value: str) -> bool:
    if UNPRINTABLE.search(line):
        return False
    try:
        found = read_assignment(line)
    except BadLine:
        return False
    return found is not None and found[:2] == (name, value)


def comments(text: str) -> list[str] | None:
    """Return a description as comment lines, or None if they would not read back the same."""
    if UNPRINTABLE.search(text.replace("\n", "")):
        return None
    lines = [f"# {line}" for line in text.split("\n")]
    if any(DIRECTIVE.match(line) for line in lines) or describe(lines) != text:
        return None
    return lines
