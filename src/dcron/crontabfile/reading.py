"""Read a crontab file into definitions, whole or not at all. One error reports all bad lines."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dcron.crontabfile import mail, names
from dcron.crontabfile.directive import DIRECTIVE, FORGOTTEN_COLON, Word, read_words
from dcron.crontabfile.lines import BLANK, Assignment, read_assignment, read_job
from dcron.crontabfile.lint import CRONTAB_LINE, OTHER_CRONS, suspicions
from dcron.crontabfile.options import SYSTEM, UNSET, WAS
from dcron.crontabfile.parser_state import CommentBlock, ParsedTask, ParserContext
from dcron.crontabfile.problems import BadFile, BadLine, Enough, Problems, shown
from dcron.crontabfile.size_limits import MAX_BYTES, MAX_SCHEDULE, MAX_TASKS
from dcron.errors import CrontabFileError, ScheduleError, ZoneError
from dcron.model import Definition
from dcron.schedule import parser, zones

BYTE_ORDER_MARK = "\ufeff"
HASHED = "H~"
"""A schedule with one of these characters can depend on the task's name."""


WITHIN_SCHEDULE = re.compile(r" \(column (?P<column>\d{1,4})\)")


@dataclass(frozen=True)
class ParserNotice:
    """A warning about a line that was read."""

    line: int
    message: str
    code: str = CRONTAB_LINE


@dataclass(frozen=True)
class CrontabFile:
    """The contents of a crontab file."""

    definitions: tuple[Definition, ...]
    warnings: tuple[ParserNotice, ...]
    lines: Mapping[str, int]
    """The line of each task, by name, for later checks."""
    system: bool = False
    """Whether each line names an account."""
    unnamed: frozenset[str] = frozenset()
    """The tasks whose names were made from their commands."""
    was: Mapping[str, str] = field(default_factory=dict)
    """The earlier names of renamed tasks, by name."""


def read(
    text: str,
    *,
    source: str,
    timezone: str,
    system: bool = False,
    mail_output: bool = True,
    renames: bool = False,
) -> CrontabFile:
    """Return the definitions in a crontab file.

    `source` names the file in messages. `timezone` is the zone of lines without CRON_TZ above them. With
    `system`, each line has an account before its command. Without `mail_output`, MAILTO is a variable only.
    With `renames`, a directive may give the earlier name of its task.
    Raises CrontabFileError, with one line for each bad line.
    """
    _refuse_unreadable(text, source)
    reader = _Reader(source, timezone, system, mail_output=mail_output, renames=renames)
    readable: dict[int, Definition] = {}
    try:
        reader.read_lines(text.removeprefix(BYTE_ORDER_MARK))
        readable = reader.definitions()
    except Enough:
        pass
    reader.problems.raise_any(readable)
    notices = sorted(reader.notices, key=lambda notice: notice.line)
    return CrontabFile(
        tuple(readable.values()),
        tuple(notices),
        reader.lines(),
        reader.system,
        frozenset(reader.unnamed),
        {draft.name or "": draft.was for draft in reader.drafts if draft.was is not None},
    )


def _refuse_unreadable(text: str, source: str) -> None:
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise CrontabFileError(f"{source}: larger than {MAX_BYTES:,} bytes")
    at = text.find("\0")
    if at >= 0:
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        raise BadFile(source, [(line, column, "a NUL character does not belong in a crontab")])


class _Reader:
    """Read the lines in one pass, then choose names and check schedules when all tasks are known."""

    def __init__(self, source: str, timezone: str, system: bool, *, mail_output: bool, renames: bool) -> None:
        self.problems = Problems(source)
        self.notices: list[ParserNotice] = []
        self.unnamed: list[str] = []
        self._source = source
        self._renames = renames
        self.system = system
        self._surroundings = ParserContext(timezone, mails_output=mail_output)
        self._block = CommentBlock()
        self.drafts: list[ParsedTask] = []
        self._line = 0
        self._warned: set[str] = set()

    def read_lines(self, text: str) -> None:
        """Read all lines."""
        for self._line, line in enumerate(text.split("\n"), 1):
            if line.endswith("\r"):
                self._warn_once("the lines end in CR LF, as on Windows; the CRs are left out")
                line = line[:-1]
            try:
                self._read_line(line)
            except BadLine as bad:
                self._refuse(bad)
        self._close_block()

    def definitions(self) -> dict[int, Definition]:
        """Return the tasks by line, named and with checked schedules; those with bad ones are left out."""
        self._name_drafts()
        checked: set[tuple[str, str]] = set()
        return {
            draft.line: Definition(name=draft.name or "", schedule=draft.schedule.text, **draft.values)
            for draft in self.drafts
            if self._is_checked(draft, checked)
        }

    def lines(self) -> dict[str, int]:
        """Return the line of each task, by name."""
        return {draft.name or "": draft.line for draft in self.drafts}

    def _refuse(self, bad: BadLine) -> None:
        self.problems.add(bad.line or self._line, bad.column, bad.message)

    def _warn(self, message: str) -> None:
        self.notices.append(ParserNotice(self._line, message))

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._warn(message)

    def _read_line(self, line: str) -> None:
        text = line.strip(BLANK)
        if not text:
            self._close_block()
        elif text[0] == "#":
            self._read_comment(line)
        elif (assignment := read_assignment(line)) is not None:
            self._close_block()
            self._assign(assignment)
        else:
            self._read_job(line)

    def _close_block(self) -> None:
        """End the current comments. They are a task of their own, or none."""
        if not self._block.comments and not self._block.places:
            return
        block, self._block = self._block, CommentBlock()
        try:
            draft = block.standing_alone(self._surroundings)
            if draft is not None:
                self._keep(draft)
        except BadLine as bad:
            self._refuse(bad)

    def _keep(self, draft: ParsedTask) -> None:
        if len(self.drafts) >= MAX_TASKS:
            self._refuse(BadLine(1, f"there are more than {MAX_TASKS:,} tasks", line=draft.line))
            raise Enough
        self.drafts.append(draft)

    def _read_comment(self, line: str) -> None:
        directive = DIRECTIVE.match(line)
        if self._block.script and (directive is None or directive["kind"] == ":"):
            self._close_block()
        if directive is None:
            if FORGOTTEN_COLON.match(line):
                self._warn('this is taken for a comment; a directive begins with "#dcron:"')
            self._block.comments.append(line)
        elif directive["kind"] == "$":
            text = line[directive.end() :].removeprefix(" ")
            self._block.add_script(text, self._line, line.index("#") + 1)
        else:
            self._read_directive(line, directive.end())

    def _read_directive(self, line: str, start: int) -> None:
        for word in read_words(line, start):
            if word.key == UNSET:
                self._unset(word)
            elif word.key == SYSTEM and word.value is None:
                self._expect_accounts(word)
            elif word.key == WAS and not self._renames:
                raise BadLine(word.column, "was= renames a task where a file is applied; leave it out here")
            else:
                self._block.add(word, self._line)

    def _unset(self, word: Word) -> None:
        if word.value is None:
            raise BadLine(word.column, "unset needs the name of a variable: unset=NAME")
        self._surroundings.unset(word.value)

    def _expect_accounts(self, word: Word) -> None:
        if self.drafts:
            raise BadLine(word.column, "system belongs above the first task: it is for the whole file")
        self.system = True

    def _assign(self, assignment: Assignment) -> None:
        name, value, column = assignment
        if name == "SHELL":
            self._surroundings.shell = value
        elif name == "CRON_TZ":
            self._change_zone(value, column)
        else:
            self._surroundings.assign(name, value)
            if meaning := OTHER_CRONS.get(name):
                self._warn_once(f"{name} is only a variable of the commands here: {meaning}")
            if name == mail.VARIABLE and self._surroundings.mails_output:
                for message in mail.warnings(value):
                    self._warn_once(message)

    def _change_zone(self, name: str, column: int) -> None:
        try:
            zones.zone(name)
        except ZoneError as error:
            raise BadLine(column, str(error)) from None
        self._surroundings.timezone = name

    def _read_job(self, line: str) -> None:
        block, self._block = self._block, CommentBlock()
        if "schedule" in block.places or "command" in block.places:
            self._block = block
            self._close_block()
            block = self._block
        job = read_job(line, system=self.system)
        values = {"user": job.user, "command": job.command, "stdin": job.stdin}
        self._keep(block.above(self._line, job.schedule, values, self._surroundings))
        if job.quiet:
            self._warn_once('the "-" before a schedule, which keeps runs out of syslog, is left out')
        self.notices += [ParserNotice(self._line, *found) for found in suspicions(job)]

    def _name_drafts(self) -> None:
        by_name: dict[str, ParsedTask] = {}
        for draft in self.drafts:
            if draft.name is not None and by_name.setdefault(draft.name, draft) is not draft:
                line, column = draft.name_at
                message = (
                    f"the name {shown(draft.name)} is taken by the task of line {by_name[draft.name].line}"
                )
                self._refuse(BadLine(column, message, line=line))
        unnamed = [draft for draft in self.drafts if draft.name is None]
        lines = [_content(draft) for draft in unnamed]
        prefix = names.prefix_for(self._source) if self.system else ""
        for draft, name in zip(unnamed, names.assign(lines, taken=by_name, prefix=prefix), strict=True):
            draft.name = name
            self.unnamed.append(name)
        self._warn_of_duplicates(unnamed, lines)

    def _warn_of_duplicates(self, drafts: list[ParsedTask], lines: list[names.Line]) -> None:
        first: dict[names.Line, ParsedTask] = {}
        for draft, line in zip(drafts, lines, strict=True):
            earlier = first.setdefault(line, draft)
            if earlier is not draft:
                message = f"this is the same as line {earlier.line}; it becomes another task, {draft.name}"
                self.notices.append(ParserNotice(draft.line, message))

    def _is_checked(self, draft: ParsedTask, checked: set[tuple[str, str]]) -> bool:
        """Return whether the schedule of the task is valid; else add the problem."""
        text, name = draft.schedule.text, draft.name or ""
        key = (text, name if any(mark in text for mark in HASHED) else "")
        if key in checked:
            return True
        try:
            if len(text) > MAX_SCHEDULE:
                raise ScheduleError(f"the schedule has more than {MAX_SCHEDULE} characters")
            parser.parse(text, name=name)
            checked.add(key)
        except ScheduleError as error:
            message, offset = _located(str(error))
            self._refuse(BadLine(draft.schedule.column(offset), message, line=draft.schedule_line))
            return False
        return True


def _located(message: str) -> tuple[str, int]:
    """Return the message of a schedule's error without its column, and that column as an offset."""
    match = WITHIN_SCHEDULE.search(message)
    if match is None:
        return message, 0
    return message[: match.start()] + message[match.end() :], int(match["column"]) - 1


def _content(draft: ParsedTask) -> names.Line:
    """Return all in which two tasks can differ, the command first."""
    values = draft.values
    others = (values["timezone"], values.get("user"), values.get("stdin"))
    return values["command"], draft.schedule.text, *others
