"""Read a source: files, directories and stdin, as crontab text, JSON or TOML. One error has all mistakes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dcron import crontabfile
from dcron.crontabfile import MAX_TASKS
from dcron.crontabfile.options import suggestion
from dcron.errors import UsageError
from dcron.fields import BY_KEY, FIELDS
from dcron.sources import files
from dcron.sources.formats import BYTE_ORDER_MARK, Format, format_of
from dcron.sources.json_text import JsonDocument
from dcron.sources.objects import STATE_KEYS, TaskObject, read_task
from dcron.sources.toml_text import TomlDocument
from dcron.sources.values import Mistakes, Place, SourceNotice, SourceTask, SourceText
from dcron.values.json_values import shown

TASKS, TASK, TIMEZONE = "tasks", "task", "timezone"


def read(
    paths: Sequence[Path],
    *,
    timezone: str,
    format: Format | None = None,
    system: bool = False,
    needs_names: bool = True,
) -> SourceText:
    """Return the tasks in files and directories; the path `-` is stdin.

    `timezone` is the zone of tasks whose file names none. Without `format`, the name of a file says which it
    has, else its first characters do. With `system`, each line of a crontab names an account. Without
    `needs_names`, a task of a crontab may have a name that is made from its command.
    Raises CrontabFileError, with one line for each mistake in any of the files.
    """
    reader = _Reader(timezone, format, system=system, needs_names=needs_names)
    for path in paths:
        reader.read(path)
    return reader.result()


def parse(text: str, *, file: str, timezone: str, format: Format | None = None) -> SourceText:
    """Return the tasks in a text, as `read` does; messages name the file."""
    reader = _Reader(timezone, format, system=False, needs_names=True)
    reader.files.append(file)
    try:
        reader.read_text(Path(file), text)
    except UsageError as error:
        reader.mistakes.add_error(file, error)
    return reader.result()


class _Reader:
    """Read one file after the other, and check the names when all tasks are known."""

    def __init__(self, timezone: str, format: Format | None, *, system: bool, needs_names: bool) -> None:
        self.mistakes = Mistakes()
        self._tasks: list[SourceTask] = []
        self._notices: list[SourceNotice] = []
        self.files: list[str] = []
        self._timezone = timezone
        self._format = format
        self._system = system
        self._needs_names = needs_names
        self._bytes = 0

    def read(self, path: Path) -> None:
        """Read a file, or the files of a directory."""
        try:
            if not files.is_directory(path):
                self.files.append(files.name_of(path))
                self.read_text(path, files.read(path))
                return
            found, others = files.files_in(path)
        except UsageError as error:
            self.mistakes.add_error(files.name_of(path), error)
            return
        for notice in files.unread(path, others):
            self._notices.append(SourceNotice(Place(str(path), 0), notice))
        for file in found:
            self.files.append(str(file))
            try:
                self.read_text(file, files.read_in_directory(file))
            except UsageError as error:
                self.mistakes.add_error(str(file), error)

    def result(self) -> SourceText:
        """Return what was read. Raises CrontabFileError with all mistakes."""
        self._check_names()
        self.mistakes.raise_any(self.files)
        return SourceText(tuple(self._tasks), tuple(self._notices), tuple(self.files))

    def _check_names(self) -> None:
        """Report names that two tasks have, and earlier names that other tasks have."""
        first: dict[str, Place] = {}
        for task in self._tasks:
            name = task.definition.name
            place = first.setdefault(name, task.place)
            if place is not task.place:
                self.mistakes.add(task.place, f"the name {shown(name)} is taken by the task at {place}")
        earlier: dict[str, Place] = {}
        for task in self._tasks:
            if task.was is None:
                continue
            if task.was in first:
                message = f"was: {shown(task.was)} is a task of its own, at {first[task.was]}"
                self.mistakes.add(task.place, f"{message}; leave out was= once the task is renamed")
            elif earlier.setdefault(task.was, task.place) is not task.place:
                message = f"was: the task at {earlier[task.was]} was {shown(task.was)}, too"
                self.mistakes.add(task.place, message)

    def read_text(self, path: Path, text: str) -> None:
        """Read the text of a file. Raises UsageError."""
        file = files.name_of(path)
        self._bytes += len(text.encode(errors="surrogatepass"))
        if self._bytes > files.MAX_SOURCE_BYTES:
            raise UsageError(f"{file}: the files have more than {files.MAX_SOURCE_BYTES:,} bytes together")
        text = text.removeprefix(BYTE_ORDER_MARK)
        match self._format or format_of(path, text):
            case "json":
                self._read_json(JsonDocument(text, file), file)
            case "toml":
                self._read_toml(TomlDocument(text, file), file)
            case "text":
                self._read_crontab(text, file)
        if len(self._tasks) > MAX_TASKS:
            raise UsageError(f"{file}: there are more than {MAX_TASKS:,} tasks")

    def _read_crontab(self, text: str, file: str) -> None:
        content = crontabfile.read(
            text, source=file, timezone=self._timezone, system=self._system, renames=True
        )
        names = {line: name for name, line in content.lines.items()}
        self._notices += [
            SourceNotice(Place(file, notice.line), notice.message, names.get(notice.line), notice.code)
            for notice in content.warnings
        ]
        for definition in content.definitions:
            place = Place(file, content.lines[definition.name])
            if self._needs_names and definition.name in content.unnamed:
                self.mistakes.add(
                    place, f"the task has no name; write this line above it: #dcron: name={definition.name}"
                )
            self._tasks.append(SourceTask(definition, place, content.was.get(definition.name)))

    def _read_json(self, document: JsonDocument, file: str) -> None:
        for place, message in document.repeated_keys():
            self.mistakes.add(place, message)
        tasks, timezone = document.value, self._timezone
        path: tuple[str, ...] = ()
        if isinstance(tasks, dict):
            timezone = self._settings(document, file, TASKS)
            tasks, path = tasks.get(TASKS, []), (TASKS,)
        if not isinstance(tasks, list):
            message = 'write a list of tasks, [{"name": …}], or {"tasks": [{"name": …}]}'
            self.mistakes.add(Place(file, 1), message)
            return
        for index, task in enumerate(tasks[: MAX_TASKS + 1]):
            self._read_object(document, file, (*path, index), None, task, timezone)

    def _read_toml(self, document: TomlDocument, file: str) -> None:
        timezone = self._settings(document, file, TASK)
        tasks = document.value.get(TASK, {})
        if not isinstance(tasks, dict):
            self.mistakes.add(Place(file, document.line_of(TASK)), "write each task as a table: [task.NAME]")
            return
        for name, task in list(tasks.items())[: MAX_TASKS + 1]:
            self._read_object(document, file, (TASK, name), name, task, timezone)

    def _settings(self, document: JsonDocument | TomlDocument, file: str, tasks: str) -> str:
        """Return the zone of tasks that name none; report the keys beside it that are unknown."""
        timezone = self._timezone
        for key, value in document.value.items():
            if key == TIMEZONE:
                try:
                    timezone = FIELDS[TIMEZONE].kind.from_json(value)
                except UsageError as error:
                    self.mistakes.add(Place(file, document.line_of(key)), f"{key}: {error}")
            elif key != tasks:
                near = "" if key in BY_KEY else suggestion(key, (tasks, TIMEZONE))
                self.mistakes.add(
                    Place(file, document.line_of(key)), f"there is no key {shown(key)} here{near}"
                )
        return timezone

    def _read_object(
        self,
        document: JsonDocument | TomlDocument,
        file: str,
        path: tuple[str | int, ...],
        name: str | None,
        values: Any,
        timezone: str,
    ) -> None:
        place = Place(file, document.line_of(*path))
        if not isinstance(values, dict):
            self.mistakes.add(place, f"{shown(values)} is no task; write its keys and values")
            return
        if name is None and values.get("once") is True:
            self._notice(place, values, "left out: it is a one-off")
            return
        if name is None and values.get("enabled") is False:
            self._notice(place, values, "that it is paused is left out: a pause is no part of a definition")

        def line_of(*key: str) -> int:
            return document.line_of(*path, *key)

        ignored = STATE_KEYS if name is None else ()
        task = read_task(
            TaskObject(name, values, file, line_of),
            timezone=timezone,
            ignored=ignored,
            mistakes=self.mistakes,
        )
        if task is not None:
            self._tasks.append(task)

    def _notice(self, place: Place, values: dict[str, Any], message: str) -> None:
        name = values.get("name")
        self._notices.append(SourceNotice(place, message, name if isinstance(name, str) else None))
