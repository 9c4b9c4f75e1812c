"""What the parser remembers: settings, the comments above a line, and the tasks so far."""

import shlex
from dataclasses import dataclass, field
from typing import Any

from dcron.crontabfile.comments import describe
from dcron.crontabfile.directive import Word
from dcron.crontabfile.lines import Placed
from dcron.crontabfile.mail import mail_fields
from dcron.crontabfile.options import FROM_COMMAND, WAS, read_option
from dcron.crontabfile.problems import BadLine
from dcron.crontabfile.size_limits import MAX_VARIABLES
from dcron.fields import BY_DIRECTIVE
from dcron.model import SPEC_DEFAULTS

DEFAULT_SHELL = str(SPEC_DEFAULTS["shell"])


@dataclass
class ParserContext:
    """Settings of the lines so far that apply to those below."""

    timezone: str
    shell: str = DEFAULT_SHELL
    mails_output: bool = True
    """Whether MAILTO says to whom the output is mailed, as for cron."""
    _env: dict[str, str] = field(default_factory=dict)
    _shared: bool = False

    def env(self) -> dict[str, str]:
        """Return the environment at this line. The caller keeps it and does not change it."""
        self._shared = True
        return self._env

    def mail_fields(self) -> dict[str, Any]:
        """Return the fields that MAILTO sets at this line."""
        return mail_fields(self._env) if self.mails_output else {}

    def assign(self, name: str, value: str) -> None:
        """Set a variable for the lines below."""
        if len(self._env) >= MAX_VARIABLES and name not in self._env:
            raise BadLine(1, f"there are more than {MAX_VARIABLES} variables")
        self._own_env()[name] = value

    def unset(self, name: str) -> None:
        """Remove a variable for the lines below."""
        self._own_env().pop(name, None)

    def _own_env(self) -> dict[str, str]:
        # Copied only after a task has taken it: ten thousand tasks below one block of assignments share it.
        if self._shared:
            self._env = dict(self._env)
            self._shared = False
        return self._env


@dataclass
class ParsedTask:
    """A task without a final name and with an unchecked schedule."""

    line: int
    schedule: Placed
    schedule_line: int
    values: dict[str, Any]
    name: str | None
    name_at: tuple[int, int]
    was: str | None = None
    """Its earlier name."""


@dataclass
class CommentBlock:
    """Comments and directives in a row, before the task to which they belong."""

    comments: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[int, Word]] = field(default_factory=dict)
    """The line and word of each option."""
    was: str | None = None
    script: list[str] = field(default_factory=list)
    script_line: int = 0

    def add(self, word: Word, line: int) -> None:
        """Add one word of a directive. Raises BadLine."""
        value = read_option(word)
        field = WAS if word.key == WAS else BY_DIRECTIVE[word.key].name
        if field in self.places and field != "env":
            raise BadLine(word.column, f"{word.key} is given twice")
        self.places[field] = (line, word)
        if field == WAS:
            self.was = value
        elif field == "env":
            self.env[value[0]] = value[1]
        else:
            self.options[field] = value

    def add_script(self, text: str, line: int, column: int) -> None:
        """Add one `#dcron$` line of a command. Raises BadLine."""
        if "schedule" not in self.places:
            raise BadLine(column, "#dcron$ needs schedule=… in a #dcron: line directly above it")
        self.script_line = self.script_line or line
        self.script.append(text)

    def refuse(self, option: str, message: str) -> BadLine:
        """Return an error at the place of an option."""
        line, word = self.places[option]
        return BadLine(word.column, message, line=line)

    def standing_alone(self, surroundings: ParserContext) -> ParsedTask | None:
        """Return the task of a block without a crontab line below it, or None."""
        if not self.places:
            return None
        if "schedule" not in self.places:
            raise self.refuse(next(iter(self.places)), "there is no task below this directive")
        if "command" in self.places and self.script:
            raise self.refuse("command", "the command is given twice, here and as #dcron$")
        if "command" not in self.places and not self.script:
            raise self.refuse("schedule", "schedule= needs its command directly below it: #dcron$ COMMAND")
        line, word = self.places["schedule"]
        schedule = Placed(self.options.pop("schedule"), ((0, word.value_column),))
        command = self.options.pop("command", "\n".join(self.script))
        return self._draft(self.script_line or line, schedule, line, {"command": command}, surroundings)

    def above(
        self, line: int, schedule: Placed, values_of_line: dict[str, Any], surroundings: ParserContext
    ) -> ParsedTask:
        """Return the task of the crontab line below this block; `values_of_line` is what that line sets."""
        for option in self.places.keys() & {
            option for option, value in values_of_line.items() if value is not None
        }:
            raise self.refuse(option, f"the line below sets the {option} too")
        return self._draft(line, schedule, line, values_of_line, surroundings)

    def _draft(
        self,
        line: int,
        schedule: Placed,
        schedule_line: int,
        values_of_line: dict[str, Any],
        surroundings: ParserContext,
    ) -> ParsedTask:
        values = {
            "timezone": surroundings.timezone,
            "shell": surroundings.shell,
            "env": self._env(surroundings.env()),
            **({} if self.options.keys() & {"notify", "notify_on"} else surroundings.mail_fields()),
            "describe": None if "describe" in self.places else describe(self.comments),
            **{option: value for option, value in values_of_line.items() if value is not None},
            **self.options,
        }
        if values.get("argv") is FROM_COMMAND:
            values["argv"] = self._split(values["command"])
        name_line, word = self.places.get("name", (line, None))
        name_at = (name_line, word.value_column if word else 1)
        name = values.pop("name", None)
        return ParsedTask(line, schedule, schedule_line, values, name, name_at, self.was)

    def _env(self, env: dict[str, str]) -> dict[str, str]:
        if not self.env:
            return env
        both = env | self.env
        if len(both) > MAX_VARIABLES:
            raise self.refuse("env", f"there are more than {MAX_VARIABLES} variables")
        return both

    def _split(self, command: str) -> tuple[str, ...]:
        try:
            return tuple(shlex.split(command))
        except ValueError as error:
            raise self.refuse(
                "argv", f"the command cannot be split into words: {str(error).lower()}"
            ) from None
