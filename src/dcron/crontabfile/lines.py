"""Read the two kinds of line of crontab(5): an assignment, and a schedule with its command."""

import re
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from dcron.crontabfile import percent
from dcron.crontabfile.problems import BadLine, shown

BLANK = " \t"
WORD = re.compile(r"[^ \t]++")
ASSIGNMENT = re.compile(
    r"""[ \t]*+(?:(["'])(?P<quoted>[^"'=]++)\1|(?P<bare>[A-Za-z_][A-Za-z0-9_.-]*+))[ \t]*+=[ \t]*+""",
    re.ASCII,
)
ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*+\$?", re.ASCII)
FIELDS = 5
WITH_ARGUMENT = {"@every", "@delay", "@at", "@on", "@after"}
RECURRENCE = {"RRULE": 1, "DTSTART": 2}


@dataclass(frozen=True)
class Placed:
    """The text of a schedule, and the places of its parts: (offset in the text, column in the line)."""

    text: str
    pieces: tuple[tuple[int, int], ...]

    def column(self, offset: int) -> int:
        """Return the column in the file's line of a character of the schedule."""
        start, column = max((piece for piece in self.pieces if piece[0] <= offset), default=self.pieces[0])
        return column + offset - start


@dataclass(frozen=True)
class JobLine:
    """The parts of a line with a schedule and a command."""

    schedule: Placed
    user: str | None
    command: str
    stdin: str | None
    command_column: int
    quiet: bool = False
    """Whether cronie's "-", which keeps the run out of syslog, was before the schedule."""


class Assignment(NamedTuple):
    """An environment line."""

    name: str
    value: str
    column: int
    """The column of the value."""


def read_assignment(line: str) -> Assignment | None:
    """Return the parts of an environment line; None for any other line."""
    match = ASSIGNMENT.match(line)
    if match is None:
        return None
    column = match.end() + 1
    return Assignment(match["quoted"] or match["bare"], _value(line[match.end() :], column), column)


def _value(text: str, column: int) -> str:
    """Return the value. Quotes keep blanks at its ends; nothing is expanded or escaped."""
    text = text.rstrip(BLANK)
    if not text or text[0] not in "\"'":
        return text
    end = text.find(text[0], 1)
    if end < 0:
        raise BadLine(column, f"the value begins with {text[0]} and has no {text[0]} at its end")
    if end < len(text) - 1:
        raise BadLine(column + end + 1, "there is more text after the quoted value")
    return text[1:end]


def read_job(line: str, *, system: bool) -> JobLine:
    """Return the parts of a task's line; with `system`, an account is between schedule and command."""
    words = list(islice(WORD.finditer(line), FIELDS + 1))
    quiet = len(words[0][0]) > 1 and words[0][0].startswith("-")
    count = schedule_length(words[0][0][quiet:])
    if len(words) < count:
        raise BadLine(words[0].start() + 1, _too_short(count))
    schedule = _placed(words[:count], skip=int(quiet))
    end = words[count - 1].end()
    user = None
    if system:
        user, end = _account(words, count, line)
    command_at = end + len(line[end:]) - len(line[end:].lstrip(BLANK))
    if command_at == len(line):
        raise BadLine(
            len(line.rstrip(BLANK)) + 1,
            f"there is no command after the {'account' if system else 'schedule'}",
        )
    command, stdin = percent.split(line[command_at:])
    if not command.strip():
        raise BadLine(command_at + 1, "there is no command before the %")
    return JobLine(schedule, user, command, stdin, command_at + 1, quiet)


def schedule_length(first: str) -> int:
    """Return how many words the schedule has that begins with this one."""
    if first.startswith("@"):
        return 2 if first.lower() in WITH_ARGUMENT else 1
    return RECURRENCE.get(first.partition(":")[0].upper(), FIELDS)


def _too_short(count: int) -> str:
    if count == FIELDS:
        return "neither NAME=value nor five time fields (or an @word) and a command"
    return "the schedule is not complete, and there is no command"


def _placed(words: list[re.Match[str]], *, skip: int) -> Placed:
    """Return the schedule with single spaces between its words."""
    texts = [words[0][0][skip:], *(word[0] for word in words[1:])]
    columns = [words[0].start() + 1 + skip, *(word.start() + 1 for word in words[1:])]
    offsets = [0]
    for text in texts[:-1]:
        offsets.append(offsets[-1] + len(text) + 1)
    return Placed(" ".join(texts), tuple(zip(offsets, columns, strict=True)))


def _account(words: list[re.Match[str]], count: int, line: str) -> tuple[str, int]:
    if len(words) == count:
        raise BadLine(
            len(line.rstrip(BLANK)) + 1, "a system crontab has an account and a command after the schedule"
        )
    word = words[count]
    if not ACCOUNT.fullmatch(word[0]):
        message = (
            f"{shown(word[0])} is not an account; in a system crontab one is between schedule and command"
        )
        raise BadLine(word.start() + 1, message)
    return word[0], word.end()
