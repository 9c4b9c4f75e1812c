"""Tasks changed as text in the person's editor, which has the terminal meanwhile."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from dcron.crontabfile import read
from dcron.crontabfile.revising import greet, unmark
from dcron.editor import TextFile, open_editor
from dcron.errors import DcronError
from dcron.model import Definition
from dcron.presentation.humanize import plural
from dcron.services.bulk_edit import MOST_READ, BulkEdit, keep
from dcron.services.crontab import Crontab
from dcron.services.text_edits import BadText, Changes, ConflictingTask, CrontabText, EditConflict
from dcron.tui.acting import Act, Acted, Outcome
from dcron.tui.forms import dialog_text
from dcron.tui.forms.dialogs import ChoiceDialog, Decide
from dcron.tui.forms.errands import errand
from dcron.tui.forms.reading import merged
from dcron.tui.suspend import lent_terminal

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp

_REVIEW = (ChoiceDialog("Enter", "apply", "applies it"), ChoiceDialog("e", "edit", "edits on"))
_REVIEW_OF_REMOVAL = (
    ChoiceDialog("y", "apply", "applies it, removals too"),
    ChoiceDialog("e", "edit", "edits on"),
)
_BAD = (ChoiceDialog("e", "edit", "edits on, at the mistake"),)
_CONFLICT = (
    ChoiceDialog("a", "merge", "apply mine onto theirs"),
    ChoiceDialog("e", "edit", "edit on"),
    ChoiceDialog("t", "theirs", "take theirs"),
)


class TextEdit:
    """One text, from the editor to the database. What was written and not applied is kept in its file."""

    def __init__(self, app: "DcronApp", names: Sequence[str]) -> None:
        """Of the tasks of these names."""
        self._app = app
        self._names = names
        self._timezone = app.new_task_zone
        self._open = ExitStack()
        self._draft: CrontabText
        self._file: TextFile

    def begin(self) -> None:
        """Read the tasks, and open the editor on them."""
        self._app.fetch(lambda board: self._editing(board.crontab).text(self._names), self._start)

    def _editing(self, crontab: Crontab) -> BulkEdit:
        return BulkEdit(crontab, self._timezone)

    def _start(self, draft: CrontabText) -> None:
        self._app.forget_typed()  # it was for the editor, which cannot be told of it
        self._draft = draft
        try:
            self._file = self._open.enter_context(TextFile(draft.text))
        except OSError as error:
            self._app.tell(f"the text cannot be put into a file: {error.strerror}", error=True)
            return
        self._edit(None)

    def _edit(self, line: int | None) -> None:
        """Leave the terminal to the editor, and read what it has made of the text."""
        try:
            with lent_terminal(self._app):
                open_editor(self._file.path, line)
            text = unmark(self._file.read(MOST_READ))
        except SuspendNotSupported:
            self._leave("this terminal cannot be left to an editor")
        except KeyboardInterrupt:
            self._leave("nothing was changed")
        except DcronError as error:
            self._leave(str(error))
        else:
            self._check(text)

    def _check(self, text: str) -> None:
        draft = self._draft
        errand(
            self._app,
            lambda crontab: self._editing(crontab).check(draft, text),
            self._review,
            lambda error: self._wrong(error, text),
        )

    def _review(self, changes: Changes) -> None:
        if not changes.changes:
            self._open.close()
            self._app.tell("\n".join(["no change", *changes.notices]))
            return
        told = dialog_text.content(dialog_text.text_changes(changes, self._app.health.now()))
        count = plural(len(changes.changes), "task")
        removes = any(change.kind == "removed" for change in changes.changes)
        choices = _REVIEW_OF_REMOVAL if removes else _REVIEW

        def answered(word: str | None) -> None:
            if word == "apply":
                self._apply(changes)
            elif word == "edit":
                self._edit(None)
            else:
                self._leave("nothing was changed")

        self._app.push_screen(
            Decide(f"change {count}?", told, choices, "leaves, and keeps the text"), answered
        )

    def _apply(self, changes: Changes) -> None:
        def do(crontab: Crontab) -> str:
            self._editing(crontab).apply(changes)
            return "; ".join(f"{change.kind} {change.name}" for change in changes.changes[:3])

        errand(self._app, do, self._applied, self._refused)

    def _applied(self, told: str) -> None:
        command = "dcron edit" if len(self._names) > 1 else f"dcron edit {self._names[0]}"
        self._app.post_message(Acted([Outcome(Act(told, command, lambda _: told), told)]))
        self._open.close()

    # What goes wrong --------------------------------------------------------------------------------

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

        def answered(word: str | None) -> None:
            if word:
                self._edit(line)
            else:
                self._leave("nothing was changed")

        told = dialog_text.content((line, "") for line in str(error).split("\n")[: dialog_text.CHANGES_SHOWN])
        self._app.push_screen(
            Decide("the text is not right yet", told, _BAD, "leaves, and keeps it"), answered
        )

    def _conflict(self, conflict: EditConflict) -> None:
        def answered(word: str | None) -> None:
            if word == "merge":
                self._merge(conflict.overtaken)
            elif word == "edit":
                self._edit(None)
            else:
                self._leave("theirs stays as it is")

        told = dialog_text.content(dialog_text.text_conflict(conflict.overtaken))
        heading = "somebody else changed it first; nothing was changed"
        self._app.push_screen(Decide(heading, told, _CONFLICT, "leaves, and keeps the text"), answered)

    def _merge(self, overtaken: Sequence[ConflictingTask]) -> None:
        """Put what was changed here on top of theirs, as a new text; it is shown before it is applied."""
        try:
            lines = {line.name: line for line in self._lines(unmark(self._file.read(MOST_READ)))}
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
                lines[each.mine.name] = merged(base.definition(), each.mine, theirs.definition())
        before = list(tasks.values())
        greeted = greet(before, whole=False)
        self._draft = CrontabText(greeted, {task.name: task for task in before}, self._draft.whole)
        text = greet(lines.values(), whole=False)
        if self._put(text):
            self._check(text)

    def _put(self, text: str) -> bool:
        """Let the file hold another text; whether that could be done."""
        try:
            self._file.write(text)
        except OSError as error:
            self._leave(f"{self._file.path} cannot be written: {error.strerror}")
            return False
        return True

    def _lines(self, text: str) -> Sequence[Definition]:
        return read(text, source="text", timezone=self._timezone).definitions

    def _leave(self, told: str) -> None:
        """End it; what the person has written is kept, and they are told where."""
        kept = keep(self._file, self._draft) if hasattr(self, "_file") else None
        self._open.close()
        self._app.tell(f"{told}\nyour text is kept in {kept}" if kept else told, error=True)
