"""The crontab changed as one text: a service beside the crontab's, shared by `dcron edit` and the TUI.

A text is checked with all that would be refused, and then written, in one transaction each. Only lines that
the text changes are touched, and only while they are what they were when the text was made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection

from dcron.crontabfile import MAX_BYTES, MAX_TASKS, BadFile, CrontabFile, read
from dcron.crontabfile.revising import greet, unmark
from dcron.editor import TextFile
from dcron.errors import Conflict, CrontabFileError, Refused, UsageError
from dcron.model import Task
from dcron.schedule import repeatable
from dcron.services import dependency_rules
from dcron.services.crontab import Crontab
from dcron.services.task_writer import TaskWriter
from dcron.services.text_edits import (
    BadText,
    Changes,
    ConflictingTask,
    CrontabText,
    EditConflict,
    Mistake,
    TaskChange,
    TaskEdit,
    edits_of,
)
from dcron.store import tasks
from dcron.validation import require_valid

MOST_READ = 2 * MAX_BYTES
"""Bytes of a text that are looked at, to say that it is too large."""
MOST_CHANGES = 500
"""Lines that one text may change: a SQLite file is locked for about 8 ms a line, and agents have to wait."""
ROUNDS = 100
"""How often one text is opened again."""
OpensEditor = Callable[[Path, int | None], None]
"""Lets a person edit a file, beginning at a line; returns when they have left. Raises to give up."""


class BulkEdit:
    """Texts of a crontab. `check` and `apply` are one transaction each."""

    def __init__(self, crontab: Crontab, timezone: str) -> None:
        """Act as whoever acts on the crontab; `timezone` is of lines with no CRON_TZ above them."""
        self._crontab = crontab
        self._timezone = timezone

    def text(self, names: Sequence[str] | None = None) -> CrontabText:
        """The lines of these names, or all but one-offs, as a text.

        Raises NotFound, or Refused for a text that is too long.
        """
        whole = names is None
        found = self._whole() if names is None else [self._crontab.get(name) for name in names]
        lines = {task.name: task for task in found}
        text = greet(lines.values(), whole=whole)
        if len(lines) > MAX_TASKS or len(text.encode(errors="surrogateescape")) > MAX_BYTES:
            raise Refused(
                f"one text takes {MAX_TASKS:,} tasks or {MAX_BYTES:,} bytes, which is too little for these;"
                " edit tasks by name: dcron edit NAME"
            )
        return CrontabText(text, lines, whole)

    def check(self, draft: CrontabText, text: str) -> Changes:
        """What the text would change. A text without tasks changes nothing.

        Raises BadText with all that is wrong, EditConflict for lines that are not what they were, and Refused
        for too many changes, or where nothing is left of lines that were asked for by name.
        """
        if text == draft.text:
            return Changes()
        file = self._read(text)
        if draft.tasks and not file.definitions:
            return _nothing_left(draft)
        wishes = list(edits_of(draft, {line.name: line for line in file.definitions}))
        if not wishes:
            return Changes(notices=["the tasks say what they said before; other text is not kept"])
        if len(wishes) > MOST_CHANGES:
            raise Refused(
                f"the text changes {len(wishes):,} tasks, and {MOST_CHANGES:,} is the most at once:"
                " change them in parts; `dcron import` takes in many new ones"
            )
        return Changes(self._try(wishes, text, file.lines), _notices(draft, text, file))

    @repeatable
    def apply(self, changes: Changes) -> None:
        """Do it, wholly or not at all. Raises Conflict, or EditConflict, when somebody was first."""
        wishes = [TaskEdit(each.before, each.after and each.after.definition()) for each in changes.changes]
        with self._crontab.database.write() as connection:
            self._guard_order(connection, wishes)
            overtaken = [*self._overtaken(connection, wishes), *self._taken(connection, wishes).values()]
            if overtaken:
                raise EditConflict(overtaken)
            _, problems = self._write_all(connection, wishes)
            if problems:  # there were none when the text was checked
                raise Conflict("\n".join(f"{name}: {told}" for name, told in problems.items()))

    def _whole(self) -> Iterator[Task]:
        return islice((task for task in self._crontab.tasks() if not task.once), MAX_TASKS + 1)

    def _read(self, text: str) -> CrontabFile:
        unreadable = next((at for at, sign in enumerate(text) if "\ud800" <= sign <= "\udfff"), None)
        if unreadable is not None:
            line, column = text.count("\n", 0, unreadable) + 1, unreadable - text.rfind("\n", 0, unreadable)
            raise BadText(text, [Mistake(line, column, "this is not UTF-8")])
        try:
            return read(text, source="text", timezone=self._timezone)
        except BadFile as bad:
            raise BadText(text, [Mistake(*found) for found in bad.found]) from None
        except CrontabFileError as bad:
            raise BadText(text, [Mistake(1, 1, str(bad))]) from None

    @repeatable
    def _try(self, wishes: Sequence[TaskEdit], text: str, places: Mapping[str, int]) -> list[TaskChange]:
        """What the lines would be: they are written, read, and put back as they were."""
        with self._crontab.database.write() as connection, connection.begin_nested() as attempt:
            self._guard_order(connection, wishes)
            if overtaken := self._overtaken(connection, wishes):
                raise EditConflict(overtaken)
            taken = self._taken(connection, wishes)
            changes, problems = self._write_all(connection, wishes)
            problems |= {name: f"{each.told}; choose another name" for name, each in taken.items()}
            if problems:
                found = [Mistake(places.get(name, 1), 1, told) for name, told in problems.items()]
                raise BadText(text, sorted(found))
            attempt.rollback()
        return changes

    def _write_all(
        self, connection: Connection, wishes: Sequence[TaskEdit]
    ) -> tuple[list[TaskChange], dict[str, str]]:
        """The lines as they then are, and by name why others cannot be so.

        A line may need another to be there, or gone: what is refused is tried again once more is done.
        """
        writer = self._writer(connection)
        done: dict[str, TaskChange] = {}
        left, problems = list(wishes), dict[str, str]()
        for _ in wishes:
            left, tried, problems = [], left, {}
            for wish in tried:
                try:
                    with connection.begin_nested():
                        done[wish.name] = TaskChange(wish.before, self._write(writer, wish))
                except (UsageError, Refused) as error:
                    left.append(wish)
                    problems[wish.name] = str(error)
            if not left or len(left) == len(tried):
                break
        return [done[wish.name] for wish in wishes if wish.name in done], problems

    def _write(self, writer: TaskWriter, wish: TaskEdit) -> Task | None:
        if wish.line is None:
            assert wish.before
            writer.remove(wish.before)
            return None
        require_valid(wish.line, writer.now, wish.before)
        if wish.before is None:
            return writer.add(wish.line)
        return writer.replace(wish.before, wish.line)

    def _writer(self, connection: Connection) -> TaskWriter:
        return TaskWriter(connection, self._crontab.database, self._crontab.actor)

    def _guard_order(self, connection: Connection, wishes: Sequence[TaskEdit]) -> None:
        dependency_rules.guard(
            connection, self._crontab.database, ((wish.before, wish.line) for wish in wishes)
        )

    def _overtaken(self, connection: Connection, wishes: Sequence[TaskEdit]) -> list[ConflictingTask]:
        """The lines that are no longer what they were; the others are locked, in one order for everybody."""
        found = []
        for before, line in sorted(
            ((wish.before, wish.line) for wish in wishes if wish.before), key=lambda pair: pair[0].id
        ):
            tasks.lock(connection, [before.id])
            current = tasks.by_id(connection, before.id)
            if current is None or current.version != before.version:
                told = str(self._writer(connection).conflict(before))
                found.append(ConflictingTask(told, current, line))
        return found

    def _taken(self, connection: Connection, wishes: Sequence[TaskEdit]) -> dict[str, ConflictingTask]:
        """The new names that other lines have."""
        found = {}
        for wish in wishes:
            if wish.new_name and (other := tasks.by_name(connection, wish.new_name)):
                who = f"{other.changed_by}, {other.changed_at:%Y-%m-%dT%H:%M:%SZ}"
                told = f"there is a task {other.name!r} already ({who})"
                found[wish.new_name] = ConflictingTask(told, other, wish.line)
        return found


def revise(
    editing: BulkEdit, draft: CrontabText, file: TextFile, open_editor: OpensEditor, *, again: bool
) -> Changes:
    """Let a person edit the file until it is right; what it would change.

    A bad text is opened again, with what is wrong on top, until it comes back as it was or, without `again`,
    not at all; then raises BadText. Raises what `check` and the editor raise, too.
    """
    line: int | None = None
    faulty: BadText | None = None
    for _ in range(ROUNDS):
        open_editor(file.path, line)
        text = unmark(file.read(MOST_READ))
        if faulty and text == faulty.text:
            break
        try:
            return editing.check(draft, text)
        except BadText as bad:
            faulty = bad
        if not again:
            break
        marked, line = faulty.marked()
        file.write(marked)
    assert faulty
    raise faulty


def keep(file: TextFile, draft: CrontabText) -> Path | None:
    """Keep what a person has written, without our marks; where. None if there is nothing of theirs."""
    try:
        text = unmark(file.read(MOST_READ))
    except Refused:  # too large to be read is no reason to throw it away
        text = None
    if text is not None:
        if not text.strip() or text == draft.text:
            return None
        file.write(text)
    file.keep()
    return file.path if file.path.exists() else None


def _nothing_left(draft: CrontabText) -> Changes:
    if draft.whole:
        return Changes(notices=["a text without tasks changes nothing; `dcron rm` removes tasks"])
    names = " ".join(draft.tasks)
    raise Refused(f"no task is left in the text, so nothing was changed; `dcron rm {names}` removes it")


def _notices(draft: CrontabText, text: str, file: CrontabFile) -> list[str]:
    """What to know of lines that were not there before."""
    known, lines = set(draft.text.split("\n")), text.split("\n")
    return [
        f"line {each.line}: {each.message}" for each in file.warnings if lines[each.line - 1] not in known
    ]
