"""Edit tasks as text in the person's editor."""

from collections.abc import Sequence
from contextlib import ExitStack

from textual.app import SuspendNotSupported
from textual.content import Content

from dcron.crontabfile import read
from dcron.crontabfile.revising import greet, unmark
from dcron.editor import TextFile, open_editor
from dcron.errors import DcronError
from dcron.model import Definition
from dcron.presentation.humanize import plural
from dcron.services.bulk_edit import MOST_READ, BulkEdit, keep
from dcron.services.changes.changeset import Overtaken
from dcron.services.changes.text_edits import (
    BadText,
    Changes,
    CrontabText,
    EditConflict,
)
from dcron.services.crontab import Crontab
from dcron.tui.dialogs.suspend import suspended
from dcron.tui.forms import dialog_text
from dcron.tui.forms.checking import merged
from dcron.tui.forms.dialogs import Choice, decide
from dcron.tui.host import Host
from dcron.tui.reads.acts import done


class TextEdit:
    """One edit, from the editor to the database. A text that is not applied is kept in its file."""

    def __init__(self, host: Host, names: Sequence[str]) -> None:
        """Edit the tasks of these names."""
        self._host = host
        self._names = names
        self._timezone = host.new_task_zone
        self._open = ExitStack()
        self._draft: CrontabText
        self._file: TextFile

    def begin(self) -> None:
        """Read the tasks, and open the editor on them."""
        self._host.fetch(lambda board: self._editing(board.crontab).text(self._names), self._start)

    def _editing(self, crontab: Crontab) -> BulkEdit:
        return BulkEdit(crontab, self._timezone)

    def _start(self, draft: CrontabText) -> None:
        self._host.forget_typed()  # the keys were for the editor, which cannot get them
        self._draft = draft
        try:
            self._file = self._open.enter_context(TextFile(draft.text))
        except OSError as error:
            self._host.report(f"the text cannot be put into a file: {error.strerror}", error=True)
            return
        self._edit(None)

    def _edit(self, line: int | None) -> None:
        """Open the editor on the file, and read the changed text."""
        try:
            with suspended(self._host):
                open_editor(self._file.path, line)
            text = unmark(self._file.read(MOST_READ))
        except SuspendNotSupported:
            self._leave("no editor can be started in this terminal")
        except KeyboardInterrupt:
            self._leave("nothing was changed")
        except DcronError as error:
            self._leave(str(error))
        else:
            self._check(text)

    def _check(self, text: str) -> None:
        draft = self._draft
        self._host.write(
            lambda crontab: self._editing(crontab).check(draft, text),
            self._review,
            lambda error: self._wrong(error, text),
        )

    def _review(self, changes: Changes) -> None:
        if not changes.changes:
            self._open.close()
            self._host.report("\n".join(["no change", *changes.notices]))
            return
        text = dialog_text.content(
            dialog_text.text_changes(changes.changes, self._host.health.now(), changes.notices)
        )
        count = plural(len(changes.changes), "task")
        removes = any(change.kind == "removed" for change in changes.changes)
        key, label = ("y", "applies it, with the removals") if removes else ("Enter", "applies it")
        apply = Choice(key, label, lambda: self._agree_to_apply(changes, count))
        self._decide(f"change {count}?", text, [apply, Choice("e", "edits on", lambda: self._edit(None))])

    def _decide(
        self, heading: str, text: Content, choices: Sequence[Choice], leaving: str = "nothing was changed"
    ) -> None:
        """Let the person choose. Esc leaves, and keeps the text."""
        leaves = "leaves, and keeps the text"
        decide(self._host, heading, text, choices, leaves, lambda: self._leave(leaving))

    def _agree_to_apply(self, changes: Changes, count: str) -> None:
        """Apply the changes. In a protected context, its name is typed first; else the text is kept."""
        if not self._host.settings.is_protected:
            self._apply(changes)
            return
        self._host.confirm(
            f"change {count}",
            [],
            lambda: self._apply(changes),
            lambda: self._leave("nothing was changed"),
        )

    def _apply(self, changes: Changes) -> None:
        def do(crontab: Crontab) -> str:
            self._editing(crontab).apply(changes)
            return "; ".join(f"{change.kind} {change.name}" for change in changes.changes[:3])

        self._host.write(do, self._applied, self._refused)

    def _applied(self, message: str) -> None:
        command = "dcron edit" if len(self._names) > 1 else f"dcron edit {self._names[0]}"
        self._host.report_outcomes([done(message, command)])
        self._open.close()

    # Errors and conflicts ---------------------------------------------------------------------------

    def _refused(self, error: DcronError) -> None:
        if isinstance(error, EditConflict):
            self._conflict(error)
        else:
            self._leave(str(error))

    def _wrong(self, error: DcronError, text: str) -> None:
        if not isinstance(error, BadText):
            self._refused(error)
            return
        marked, line = error.marked()
        if not self._put(marked):
            return

        lines = str(error).split("\n")[: dialog_text.CHANGES_SHOWN]
        decide(
            self._host,
            "the text has errors",
            dialog_text.content((line, "") for line in lines),
            [Choice("e", "edits on, at the mistake", lambda: self._edit(line))],
            "leaves, and keeps it",
            lambda: self._leave("nothing was changed"),
        )

    def _conflict(self, conflict: EditConflict) -> None:
        theirs = "theirs stays as it is"
        choices = [
            Choice("a", "apply mine to theirs", lambda: self._merge(conflict.overtaken)),
            Choice("e", "edit on", lambda: self._edit(None)),
            Choice("t", "take theirs", lambda: self._leave(theirs)),
        ]
        text = dialog_text.content(dialog_text.text_conflict(conflict.overtaken))
        self._decide("another person changed it first; nothing was changed", text, choices, theirs)

    def _merge(self, overtaken: Sequence[Overtaken]) -> None:
        """Apply my changes to theirs, as a new text. The review comes before it is applied."""
        try:
            mine = {each.name: each for each in self._definitions(unmark(self._file.read(MOST_READ)))}
        except DcronError as error:
            self._leave(str(error))
            return
        tasks = {task.id: task for task in self._draft.tasks.values()}
        for each in overtaken:
            theirs = each.theirs
            base = tasks.pop(theirs.id, None) if theirs else None
            if theirs is None:
                gone = each.mine.name if each.mine else ""
                tasks = {task.id: task for task in tasks.values() if task.name != gone}
                continue
            tasks[theirs.id] = theirs
            if base and each.mine:
                mine[each.mine.name] = merged(base.definition(), each.mine, theirs.definition())
        before = list(tasks.values())
        greeted = greet(before, whole=False)
        self._draft = CrontabText(greeted, {task.name: task for task in before}, self._draft.whole)
        text = greet(mine.values(), whole=False)
        if self._put(text):
            self._check(text)

    def _put(self, text: str) -> bool:
        """Write another text to the file; return whether it worked."""
        try:
            self._file.write(text)
        except OSError as error:
            self._leave(f"{self._file.path} cannot be written: {error.strerror}")
            return False
        return True

    def _definitions(self, text: str) -> Sequence[Definition]:
        return read(text, source="text", timezone=self._timezone).definitions

    def _leave(self, message: str) -> None:
        """End the edit, keep the text, and report the file."""
        kept = keep(self._file, self._draft) if hasattr(self, "_file") else None
        self._open.close()
        self._host.report(f"{message}\nyour text is kept in {kept}" if kept else message, error=True)
