"""Edit many tasks as one text, for `dcron edit` and the TUI.

`check` finds everything that would be refused, then `apply` writes; each is one transaction. Only tasks that
the text changes are written, and only if no other user changed them since the text was made.
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
from dcron.policy.validation import require_valid
from dcron.schedule.effort import repeatable
from dcron.services.changes import dependency_rules
from dcron.services.changes.owned_tasks import require_changes_allowed
from dcron.services.changes.text_edits import (
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
from dcron.services.changes.writing import TaskWriter
from dcron.services.crontab import Crontab
from dcron.store.tasks import rows as tasks

MOST_READ = 2 * MAX_BYTES
"""Bytes of a text that are read, enough to see that it is too large."""
MOST_CHANGES = 500
"""Tasks that one text may change: each locks a SQLite file for about 8 ms, and agents have to wait."""
ROUNDS = 100
"""How often a text with mistakes is opened again."""
OpensEditor = Callable[[Path, int | None], None]
"""Open an editor for a file at a line; return when the editor has exited. Raises to give up."""


class BulkEdit:
    """Makes texts of tasks, and applies edited texts."""

    def __init__(self, crontab: Crontab, timezone: str) -> None:
        """Act as the crontab's author; `timezone` is the zone of tasks with no CRON_TZ above them."""
        self._crontab = crontab
        self._timezone = timezone

    def text(self, names: Sequence[str] | None = None) -> CrontabText:
        """Return the tasks of these names, or all but one-offs, as a text.

        Raises NotFound, or Refused for a text that is too long.
        """
        whole = names is None
        found = self._whole() if names is None else [self._crontab.get(name) for name in names]
        by_name = {task.name: task for task in found}
        text = greet(by_name.values(), whole=whole)
        if len(by_name) > MAX_TASKS or len(text.encode(errors="surrogateescape")) > MAX_BYTES:
            raise Refused(
                f"one text takes {MAX_TASKS:,} tasks or {MAX_BYTES:,} bytes, which is too little for these;"
                " edit tasks by name: dcron edit NAME"
            )
        return CrontabText(text, by_name, whole)

    def check(self, draft: CrontabText, text: str) -> Changes:
        """Return what the text would change. A text without tasks changes nothing.

        Raises BadText with all mistakes, EditConflict for tasks that other users changed, and Refused for too
        many changes, or where no task is left of those that were asked for by name.
        """
        if text == draft.text:
            return Changes()
        file = self._read(text)
        if draft.tasks and not file.definitions:
            return _nothing_left(draft)
        edits = list(edits_of(draft, {each.name: each for each in file.definitions}))
        if not edits:
            return Changes(notices=["the tasks say what they said before; other text is not kept"])
        if len(edits) > MOST_CHANGES:
            raise Refused(
                f"the text changes {len(edits):,} tasks, and {MOST_CHANGES:,} is the most at once:"
                " change them in parts; `dcron import` takes in many new ones"
            )
        return Changes(self._try(edits, text, file.lines), _notices(draft, text, file))

    @repeatable
    def apply(self, changes: Changes) -> None:
        """Make all changes, or none. Raises Conflict or EditConflict when another user was first."""
        edits = [TaskEdit(each.before, each.after and each.after.definition()) for each in changes.changes]
        with self._crontab.database.write() as connection:
            self._guard_order(connection, edits)
            require_changes_allowed(connection, [edit.before for edit in edits if edit.before])
            overtaken = [
                *self._changed_meanwhile(connection, edits),
                *self._taken(connection, edits).values(),
            ]
            if overtaken:
                raise EditConflict(overtaken)
            _, problems = self._write_all(connection, edits)
            if problems:  # there were none when the text was checked
                raise Conflict("\n".join(f"{name}: {problem}" for name, problem in problems.items()))

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
    def _try(self, edits: Sequence[TaskEdit], text: str, places: Mapping[str, int]) -> list[TaskChange]:
        """Return what would change: write the tasks, read them, and roll back."""
        with self._crontab.database.write(keeps=False) as connection, connection.begin_nested() as attempt:
            self._guard_order(connection, edits)
            require_changes_allowed(connection, [edit.before for edit in edits if edit.before])
            if overtaken := self._changed_meanwhile(connection, edits):
                raise EditConflict(overtaken)
            taken = self._taken(connection, edits)
            changes, problems = self._write_all(connection, edits)
            problems |= {name: f"{each.message}; choose another name" for name, each in taken.items()}
            if problems:
                found = [Mistake(places.get(name, 1), 1, problem) for name, problem in problems.items()]
                raise BadText(text, sorted(found))
            attempt.rollback()
        return changes

    def _write_all(
        self, connection: Connection, edits: Sequence[TaskEdit]
    ) -> tuple[list[TaskChange], dict[str, str]]:
        """Write the tasks; return the changes, and by name why other tasks were refused.

        A task may need another to be added or removed first: refused edits are retried after the others.
        """
        writer = self._writer(connection)
        done: dict[str, TaskChange] = {}
        left, problems = list(edits), dict[str, str]()
        for _ in edits:
            left, tried, problems = [], left, {}
            for edit in tried:
                try:
                    with connection.begin_nested():
                        done[edit.name] = TaskChange(edit.before, self._write(writer, edit))
                except (UsageError, Refused) as error:
                    left.append(edit)
                    problems[edit.name] = str(error)
            if not left or len(left) == len(tried):
                break
        return [done[edit.name] for edit in edits if edit.name in done], problems

    def _write(self, writer: TaskWriter, edit: TaskEdit) -> Task | None:
        if edit.definition is None:
            assert edit.before
            writer.remove(edit.before)
            return None
        require_valid(edit.definition, writer.now, edit.before)
        if edit.before is None:
            return writer.add(edit.definition).task
        return writer.replace(edit.before, edit.definition)

    def _writer(self, connection: Connection) -> TaskWriter:
        return TaskWriter(connection, self._crontab.database, self._crontab.author)

    def _guard_order(self, connection: Connection, edits: Sequence[TaskEdit]) -> None:
        dependency_rules.lock_if_affected(
            connection, self._crontab.database, ((edit.before, edit.definition) for edit in edits)
        )

    def _changed_meanwhile(self, connection: Connection, edits: Sequence[TaskEdit]) -> list[ConflictingTask]:
        """Return the tasks that other users changed; lock the others, in the order of ids."""
        found = []
        for before, definition in sorted(
            ((edit.before, edit.definition) for edit in edits if edit.before), key=lambda pair: pair[0].id
        ):
            tasks.lock(connection, [before.id])
            current = tasks.by_id(connection, before.id)
            if current is None or current.version != before.version:
                message = str(self._writer(connection).conflict(before))
                found.append(ConflictingTask(message, current, definition))
        return found

    def _taken(self, connection: Connection, edits: Sequence[TaskEdit]) -> dict[str, ConflictingTask]:
        """Return the new names that other tasks have."""
        found = {}
        for edit in edits:
            if edit.new_name and (other := tasks.by_name(connection, edit.new_name)):
                who = f"{other.changed_by}, {other.changed_at:%Y-%m-%dT%H:%M:%SZ}"
                message = f"there is a task {other.name!r} already ({who})"
                found[edit.new_name] = ConflictingTask(message, other, edit.definition)
        return found


def revise(
    editing: BulkEdit, draft: CrontabText, file: TextFile, open_editor: OpensEditor, *, again: bool
) -> Changes:
    """Let a person edit the file until the text is valid; return what it would change.

    With `again`, a text with mistakes is opened again under a list of them, until it comes back unchanged.
    Raises BadText for a text that stays invalid, and what `check` and the editor raise.
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
    """Keep the person's text without our comments; return where, or None if there is nothing to keep."""
    try:
        text = unmark(file.read(MOST_READ))
    except Refused:  # a text that is too large is kept, too
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
    """Return the warnings about lines of the text that are new."""
    known, lines = set(draft.text.split("\n")), text.split("\n")
    return [
        f"line {each.line}: {each.message}" for each in file.warnings if lines[each.line - 1] not in known
    ]
