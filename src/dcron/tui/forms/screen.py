"""The screen on which a task is written: a form that can be saved, and what comes between."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType

from dcron.errors import DatabaseError, DcronError, Refused, UsageError
from dcron.model import Definition, Task
from dcron.services.text_edits import ConflictingTask
from dcron.tui.acting import Act, Acted, Outcome
from dcron.tui.forms import dialog_text, saving
from dcron.tui.forms.checking import CheckResult
from dcron.tui.forms.dialogs import ChoiceDialog, Decide
from dcron.tui.forms.entries import Row
from dcron.tui.forms.equivalent import add_line, set_line
from dcron.tui.forms.errands import errand
from dcron.tui.forms.fields import FIELDS
from dcron.tui.forms.form import Form
from dcron.tui.forms.reading import GENERAL, changed_fields, merged, place_of, texts_of

_CONFLICT = (
    ChoiceDialog("a", "apply", "apply mine onto theirs"),
    ChoiceDialog("t", "theirs", "take theirs"),
    ChoiceDialog("k", "keep", "keep mine in a file"),
)
_GONE = (
    ChoiceDialog("a", "apply", "add mine anew"),
    ChoiceDialog("t", "theirs", "leave it gone"),
    _CONFLICT[2],
)


class TaskForm(Form):
    """A task that is being written. Nothing is saved before its difference was seen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save", id="form.save", priority=True),
        Binding("escape", "leave", "leave", id="form.leave"),
    ]

    def __init__(self, line: Definition, *, is_new: bool = False) -> None:
        """Change this Task, or write a new one that begins as `line`."""
        super().__init__(line, is_new=is_new)
        self._saving = False
        """Somebody has asked to save, and what was typed is still being read."""
        self._busy = False
        """The database has been asked to write it."""
        self._is_done = False

    def settled(self, found: CheckResult) -> None:
        """Go on saving, if that was asked for."""
        if self._saving:
            self._review(found)

    def holds(self, event: events.Event) -> bool:
        """While it is being saved keys wait for what comes of that; Esc takes back the wish to save."""
        if not isinstance(event, events.Key | events.Paste):
            return False
        is_escape = isinstance(event, events.Key) and event.key == "escape"
        return self._busy or (self._saving and not is_escape)

    def hears(self, event: events.Event) -> bool:
        """All that is typed counts."""
        return True

    def action_save(self) -> None:
        if not self._saving and not self._busy and self.dcron.may_act([self]):
            self._saving = True
            self.touched.update(FIELDS, [GENERAL])
            self.read_soon()

    def action_leave(self) -> None:
        if self._busy or self._saving:  # Esc takes back the wish to save
            self._saving = False
            return
        if not self._is_changed():
            self.dismiss()
            return
        self.dcron.confirm(
            "leave, and lose what was changed",
            ["No goes on editing"],
            self._left,
        )

    def _left(self, yes: bool | None) -> None:
        if yes:
            self.dismiss()

    def _is_changed(self) -> bool:
        return self.texts() != self.began_as

    def _review(self, found: CheckResult) -> None:
        """Show what would be written, and do it if that is agreed to."""
        self._saving = False
        line, errors = found.reading.line, found.reading.errors
        if errors:
            self._go_to_error(errors)
            return
        if not self.is_new and not changed_fields(self.base, line):
            self.dcron.tell("nothing was changed")
            return
        before = None if self.is_new else self.base
        warnings = found.outlook.warnings if found.outlook else ()
        command = set_line(before, line) if before else add_line(line, named=found.reading.named)
        parts = [*dialog_text.form_change(before, line, found.moved, warnings), ("", ""), (command, "dim")]
        heading = "add this task?" if self.is_new else f"change {self.base.name}?"
        choices = [ChoiceDialog("Enter", "save", "saves"), ChoiceDialog("ctrl+s", "save")]
        self.app.push_screen(
            Decide(heading, dialog_text.content(parts), choices, "goes on editing"),
            lambda word: self._save(found) if word else None,
        )

    def _go_to_error(self, errors: Mapping[str, str]) -> None:
        first = next((name for name in FIELDS if name in errors), None)
        if first:
            self.row(first).take_focus()
        else:
            self.dcron.tell(errors[GENERAL], error=True)

    def _save(self, found: CheckResult) -> None:
        line, base, named = found.reading.line, self.base, found.reading.named
        self._busy = True
        self.show_hint("saving ...")

        def do(crontab: Any) -> saving.Saved:
            if self.is_new:
                return saving.add(crontab, line, named=named)
            assert isinstance(base, Task)
            return saving.change(crontab, base, line)

        errand(self.dcron, do, self._saved, self._failed)

    def _saved(self, saved: saving.Saved) -> None:
        act = Act(saved.told, saved.command, lambda _: saved.told)
        self.app.post_message(Acted([Outcome(act, saved.told)]))
        self._is_done = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """What is done leaves the screen, once nothing lies over it."""
        if self._is_done and self.is_current:
            self.dismiss()

    def _failed(self, error: DcronError) -> None:
        self._busy = False
        self.show_hint("")
        if isinstance(error, saving.Overtaking):
            self._conflict(error.overtaken)
        elif isinstance(error, DatabaseError):
            self.dcron.tell(f"nothing was saved, and what was typed is here: {error}", error=True)
        else:
            place = "name" if isinstance(error, Refused) and "already" in str(error) else GENERAL
            place = place_of(error) if isinstance(error, UsageError) else place
            if place == GENERAL:
                self.dcron.tell(str(error), error=True)
            else:
                self.row(place).show_error(str(error))
                self.row(place).take_focus()

    # When somebody else was first -------------------------------------------------------------------

    def _conflict(self, overtaken: ConflictingTask, kept: Path | None = None) -> None:
        """Both are shown, and neither goes before somebody says so; where mine is kept, if it is."""
        told = [(f"yours is kept in {kept}", "bold")] if kept else []
        self.app.push_screen(
            Decide(
                "somebody else changed it first; nothing was saved",
                dialog_text.content([*told, *dialog_text.form_conflict(self.base, overtaken)]),
                _CONFLICT if overtaken.theirs else _GONE,
                "goes on editing",
            ),
            lambda word: self._settle(overtaken, word),
        )

    def _settle(self, overtaken: ConflictingTask, word: str | None) -> None:
        if word == "apply":
            self._rebase(overtaken)
        elif word and (kept := self._keep(overtaken)):
            if word == "keep":
                self._conflict(overtaken, kept)
            else:
                self.dcron.tell(f"yours is kept in {kept}")
                self.dismiss()

    def _rebase(self, overtaken: ConflictingTask) -> None:
        """Go on from theirs, with what was changed here on top; it is shown again before it is saved."""
        mine, theirs = overtaken.mine, overtaken.theirs
        assert mine
        if theirs is None:
            self.is_new, self.base = True, mine
        else:
            texts = texts_of(merged(self.base, mine, theirs))
            self.base = theirs
            self.began_as = texts_of(theirs)
            for row in self.query(Row):
                row.set_text(texts[row.field.name])
        self._saving = True
        self.read_soon()

    def _keep(self, overtaken: ConflictingTask) -> Path | None:
        assert overtaken.mine
        try:
            return saving.keep(overtaken.mine)
        except OSError as error:
            self.dcron.tell(f"yours cannot be kept in a file: {error.strerror}", error=True)
            return None
