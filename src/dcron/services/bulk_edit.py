"""Edit many tasks as one text, for `dcron edit` and the TUI.

`check` finds everything that would be refused, then `apply` writes; each is one transaction. Only tasks that
the text changes are written, and only if no other user changed them since the text was made.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection

from dcron.crontabfile import MAX_BYTES, MAX_TASKS, BadFile, CrontabFile, read
from dcron.crontabfile.revising import greet, unmark
from dcron.editor import TextFile
from dcron.errors import Conflict, CrontabFileError, Refused
from dcron.model import Task
from dcron.schedule.effort import repeatable
from dcron.services.changes.changeset import Change, Overtaken, TaskChange, redefined, write_changes
from dcron.services.changes.text_edits import (
    BadText,
    Changes,
    CrontabText,
    EditConflict,
    Mistake,
    edits_of,
)
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
        done, problems = self._write(edits, keeps=False)
        if problems:
            found = [Mistake(file.lines.get(name, 1), 1, problem) for name, problem in problems.items()]
            raise BadText(text, sorted(found))
        return Changes(done, _notices(draft, text, file))

    def apply(self, changes: Changes) -> None:
        """Make all changes, or none. Raises Conflict or EditConflict when another user was first."""
        edits = [
            redefined(each.before, each.after.definition()) if each.after else Change(each.before, None)
            for each in changes.changes
        ]
        self._write(edits, keeps=True)

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
    def _write(self, edits: Sequence[Change], *, keeps: bool) -> tuple[list[TaskChange], dict[str, str]]:
        """Write the tasks, and roll back unless it `keeps` them; return what is wrong by name.

        Raises EditConflict, also for a name that others have taken since it was checked; and Conflict for
        what was right when it was checked.
        """
        with self._crontab.database.write(keeps=keeps) as connection, connection.begin_nested() as attempt:
            taken = _taken(connection, edits)
            written = write_changes(
                connection, self._crontab, [each for each in edits if each.name not in taken]
            )
            if written.overtaken or (keeps and taken):
                raise EditConflict([*written.overtaken, *taken.values()])
            names = {each.before.name: each.name for each in edits if each.before}
            problems = {names.get(name, name): str(error) for name, error in written.problems.items()}
            problems |= {name: f"{each.error}; choose another name" for name, each in taken.items()}
            if problems and keeps:
                raise Conflict("\n".join(f"{name}: {problem}" for name, problem in problems.items()))
            if not keeps:
                attempt.rollback()
        return written.done, problems


def _taken(connection: Connection, edits: Sequence[Change]) -> dict[str, Overtaken]:
    """Return the new names that other tasks have."""
    new = {each.name: each for each in edits if each.definition and each.old_name != each.name}
    others = {task.name: task for task in tasks.by_names(connection, list(new))}
    found = {}
    for name, edit in new.items():
        if other := others.get(name):
            who = f"{other.changed_by}, {other.changed_at:%Y-%m-%dT%H:%M:%SZ}"
            error = Conflict(f"there is a task {other.name!r} already ({who})")
            found[name] = Overtaken(edit, error, other)
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
