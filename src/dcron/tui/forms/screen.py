"""The screen on which a task is written: a form that can be saved, with review and conflicts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from dcron.errors import DatabaseError, DcronError
from dcron.fields import FIELDS
from dcron.model import Definition, Task
from dcron.services.changes.changeset import Overtaken
from dcron.services.changes.text_edits import EditConflict
from dcron.services.crontab import Crontab
from dcron.tui.forms import dialog_text, saving
from dcron.tui.forms.checking import GENERAL, Checked, changed_fields, merged
from dcron.tui.forms.dialogs import Choice, decide
from dcron.tui.forms.equivalent import add_line, set_line
from dcron.tui.forms.fields import texts_of
from dcron.tui.forms.form import Form
from dcron.tui.forms.rows import Row
from dcron.tui.reads.acts import Outcome


class TaskForm(Form):
    """The form of a task that can be saved. A review of the changes comes before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "save", id="form.save", priority=True),
        Binding("escape", "leave", "leave", id="form.leave"),
    ]

    def __init__(self, definition: Definition, *, is_new: bool = False) -> None:
        """Edit this Task, or a new one that starts as `definition`."""
        super().__init__(definition, is_new=is_new)
        self._saving = False
        """Whether the review opens as soon as the texts are checked."""
        self._busy = False
        """Whether the service is saving it."""
        self._is_done = False

    def settled(self, result: Checked) -> None:
        """Open the review if `save` was pressed."""
        if self._saving:
            self._review(result)

    def holds(self, event: events.Event) -> bool:
        """Hold keys while it is being saved. Esc before the review cancels saving."""
        if not isinstance(event, events.Key | events.Paste):
            return False
        is_escape = isinstance(event, events.Key) and event.key == "escape"
        return self._busy or (self._saving and not is_escape)

    def action_save(self) -> None:
        if not self._saving and not self._busy and self.host.may_act([self]):
            self._saving = True
            self.touched.update(FIELDS, [GENERAL])
            self.check_soon()

    def action_leave(self) -> None:
        if self._busy or self._saving:  # Esc before the review cancels saving
            self._saving = False
            return
        if not self._is_changed():
            self.dismiss()
            return
        self.host.confirm("leave, and lose the changes", ["No goes on editing"], self._close)

    def _close(self) -> None:
        self.dismiss()

    def _is_changed(self) -> bool:
        return self.texts() != self.state.began_as

    def _review(self, result: Checked) -> None:
        """Show what would be saved, and save it if the person agrees."""
        self._saving = False
        definition, errors = result.task, result.errors
        if errors:
            self._go_to_error(errors)
            return
        if not self.state.is_new and not changed_fields(self.state.base, definition):
            self.host.report("nothing was changed")
            return
        before = None if self.state.is_new else self.state.base
        warnings = result.preview.warnings if result.preview else ()
        command = set_line(before, definition) if before else add_line(definition, named=result.named)
        parts = [
            *dialog_text.form_change(before, definition, result.moved, warnings),
            ("", ""),
            (command, "$foreground-muted"),
        ]
        heading = "add this task?" if self.state.is_new else f"change {self.state.base.name}?"

        def save() -> None:
            self.host.ask_if_protected(heading.rstrip("?"), lambda: self._save(result))

        choices = [Choice("Enter", "saves", save), Choice("ctrl+s", "", save)]
        decide(self.host, heading, dialog_text.content(parts), choices, "goes on editing")

    def _go_to_error(self, errors: Mapping[str, str]) -> None:
        first = next((name for name in FIELDS if name in errors), None)
        if first:
            self.row(first).take_focus()
        else:
            self.host.report(errors[GENERAL], error=True)

    def _save(self, result: Checked) -> None:
        definition, base, named = result.task, self.state.base, result.named
        self._busy = True
        self.show_hint("saving ...")

        def save(crontab: Crontab) -> Outcome:
            if self.state.is_new:
                return saving.add(crontab, definition, named=named)
            assert isinstance(base, Task)
            return saving.change(crontab, base, definition)

        self.host.write(save, self._saved, self._failed)

    def _saved(self, saved: Outcome) -> None:
        self.host.report_outcomes([saved])
        self._is_done = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Close the form after it was saved, once no dialog covers it."""
        if self._is_done and self.is_current:
            self.dismiss()

    def _failed(self, error: DcronError) -> None:
        self._busy = False
        self.show_hint("")
        if isinstance(error, EditConflict):
            self._conflict(error.overtaken[0])
        elif isinstance(error, DatabaseError):
            self.host.report(f"nothing was saved; the form is unchanged: {error}", error=True)
        elif error.field:
            self.row(error.field).show_error(str(error))
            self.row(error.field).take_focus()
        else:
            self.host.report(str(error), error=True)

    # Conflicts --------------------------------------------------------------------------------------

    def _conflict(self, overtaken: Overtaken, kept: Path | None = None) -> None:
        """Show both versions and let the person choose. `kept` is the file with mine, if there is one."""

        def again(path: Path) -> None:
            self._conflict(overtaken, path)

        head = [(f"yours is kept in {kept}", "bold")] if kept else []
        apply, theirs = "apply mine to theirs", "take theirs"
        if not overtaken.theirs:
            apply, theirs = "add mine again", "leave it removed"
        decide(
            self.host,
            "another person changed it first; nothing was saved",
            dialog_text.content([*head, *dialog_text.form_conflict(self.state.base, overtaken)]),
            [
                Choice("a", apply, lambda: self._rebase(overtaken)),
                Choice("t", theirs, lambda: self._keep(overtaken, self._kept)),
                Choice("k", "keep mine in a file", lambda: self._keep(overtaken, again)),
            ],
            "goes on editing",
        )

    def _kept(self, path: Path) -> None:
        self.host.report(f"yours is kept in {path}")
        self.dismiss()

    def _rebase(self, overtaken: Overtaken) -> None:
        """Apply my changes to theirs; the review comes again before it is saved."""
        mine, theirs = overtaken.mine, overtaken.theirs
        assert mine
        if theirs is None:
            self.state = replace(self.state, is_new=True, base=mine)
        else:
            texts = texts_of(merged(self.state.base, mine, theirs))
            self.state = replace(self.state, base=theirs, began_as=texts_of(theirs))
            for row in self.query(Row):
                row.set_text(texts[row.field.name])
        self._saving = True
        self.check_soon()

    def _keep(self, overtaken: Overtaken, then: Callable[[Path], None]) -> None:
        assert overtaken.mine
        try:
            path = saving.keep(overtaken.mine)
        except OSError as error:
            self.host.report(f"yours cannot be kept in a file: {error.strerror}", error=True)
        else:
            then(path)
