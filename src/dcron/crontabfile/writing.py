"""Write definitions as a crontab that people can read, and that reads back as the same definitions.

A plain cron can use the file. A task that it would run at another time, in another place, as another user or
with another input is written in comments only.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dcron.crontabfile import plain
from dcron.crontabfile.directive import UNPRINTABLE, write_word
from dcron.crontabfile.mail import mail_fields
from dcron.crontabfile.options import FROM_COMMAND, ORDER, PLACED, UNSET, write_option
from dcron.crontabfile.parser_state import DEFAULT_SHELL
from dcron.fields import FIELDS
from dcron.model import Definition

HEADER = "# A crontab written by dcron; the comments that begin with #dcron say what cron cannot.\n"
SYSTEM_HEADER = "#dcron: system\n"
Words = dict[str, Any]
"""Options for a directive, in the order of their table once they are written."""


def write(definitions: Iterable[Definition], *, system: bool = False, stopped: Collection[str] = ()) -> str:
    """Return a crontab that reads back as these definitions, in this order.

    With `system`, a file for /etc/cron.d: each line names its account, and a task without one is in comments.
    The tasks with the names `stopped` are in comments, too.
    """
    writer = _Writer(system, stopped)
    sections = [HEADER + (SYSTEM_HEADER if system else "")]
    for definition in definitions:
        sections += writer.sections(definition)
    return "\n".join(sections)


class _Writer:
    """Write tasks one after the other, and remember what the lines so far set for those below."""

    def __init__(self, system: bool, stopped: Collection[str]) -> None:
        self._system = system
        self._stopped = stopped
        self._timezone: str | None = None
        self._shell = DEFAULT_SHELL
        self._env: dict[str, str] = {}

    def sections(self, definition: Definition) -> list[str]:
        """Return the changed settings, if any, and the task: parts with blank lines between them."""
        settings = [*self._zone(definition), *self._set_shell(definition), *self._variables(definition.env)]
        lines = self._task(definition)
        return ["".join(f"{line}\n" for line in part) for part in (settings, lines) if part]

    def _zone(self, definition: Definition) -> list[str]:
        if definition.timezone == self._timezone or not plain.is_zone(definition.timezone):
            return []
        self._timezone = definition.timezone
        return [f"CRON_TZ={definition.timezone}"]

    def _set_shell(self, definition: Definition) -> list[str]:
        line = plain.setting("SHELL", definition.shell)
        if line is None or definition.shell == self._shell:
            return []
        self._shell = definition.shell
        return [line]

    def _variables(self, env: Mapping[str, str]) -> list[str]:
        """Return the changes from the variables of the task above to those of this one."""
        gone = [name for name in self._env if name not in env]
        for name in gone:
            del self._env[name]
        lines = [f"#dcron: {write_word(UNSET, name)}" for name in gone]
        for name, value in sorted(env.items()):
            if self._env.get(name) != value and (line := plain.assignment(name, value)) is not None:
                self._env[name] = value
                lines.append(line)
        return lines

    def _task(self, definition: Definition) -> list[str]:
        words = self._words(definition)
        line = plain.job_line(definition, system=self._system)
        is_stopped = definition.name in self._stopped
        if (
            line is not None
            and not is_stopped
            and all(FIELDS[name].cron_may_ignore or words[name] is FROM_COMMAND for name in words)
        ):
            return [*self._above(definition, words), line]
        return self._in_comments(definition, words)

    def _words(self, definition: Definition) -> Words:
        """Return what no crontab line, assignment or comment expresses."""
        words: Words = {"name": definition.name}
        for name, field in FIELDS.items():
            if name not in PLACED and field.is_given(definition):
                words[name] = getattr(definition, name)
        self._settle_mail(definition, words)
        if definition.timezone != self._timezone:
            words["timezone"] = definition.timezone
        if definition.shell != self._shell:
            words["shell"] = definition.shell
        env = [
            (name, value) for name, value in sorted(definition.env.items()) if self._env.get(name) != value
        ]
        if env:
            words["env"] = env
        if definition.argv is not None:
            words["argv"] = FROM_COMMAND if plain.is_split(definition) else definition.argv
        return words

    def _settle_mail(self, definition: Definition, words: Words) -> None:
        """Leave out what the MAILTO above the task says already; contradict one that is wrong for it."""
        said = {"notify": (), "notify_on": (), **mail_fields(self._env)}
        if all(getattr(definition, name) == value for name, value in said.items()):
            for name in said:
                words.pop(name, None)
        elif not words.keys() & said.keys():
            words["notify"] = definition.notify

    def _above(self, definition: Definition, words: Words) -> list[str]:
        """Return the comment lines above a task: its description, then the directive."""
        described = None if definition.describe is None else plain.comments(definition.describe)
        if described is None and definition.describe is not None:
            words = {**words, "describe": definition.describe}
        return [*(described or []), "#dcron: " + " ".join(_spell(words))]

    def _in_comments(self, definition: Definition, words: Words) -> list[str]:
        """Return a task that a plain cron does not see."""
        words = {**words, "schedule": definition.schedule}
        for option in ("user", "stdin"):
            if getattr(definition, option) is not None:
                words[option] = getattr(definition, option)
        if UNPRINTABLE.search(definition.command.replace("\n", "")):
            return self._above(definition, {**words, "command": definition.command})
        script = [f"#dcron$ {line}" if line else "#dcron$" for line in definition.command.split("\n")]
        return [*self._above(definition, words), *script]


def _spell(words: Words) -> list[str]:
    """Return the words of a directive, in their order."""
    spelt = []
    for name in ORDER:
        if name in words:
            field = FIELDS[name]
            values = words[name] if name == "env" else [words[name]]
            spelt += [write_word(field.directive, write_option(field, value)) for value in values]
    return spelt
