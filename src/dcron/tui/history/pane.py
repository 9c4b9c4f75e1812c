"""The list of changes, with what the chosen one did beside it, or below it on a narrow screen."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from dcron.policy.history import RecordedChange
from dcron.presentation import humanize
from dcron.presentation.differences import what
from dcron.services.history import History
from dcron.tui.dialogs.modals import NoticeDialog
from dcron.tui.forms.dialog_text import content
from dcron.tui.history import texts, undoing
from dcron.tui.table.cells import Cell, cell
from dcron.tui.table.columns import Column
from dcron.tui.table.lists import PagedPane

PAGE = 200


class ChangePanel(Widget):
    """What one change did."""

    def __init__(self) -> None:
        super().__init__()
        self._content = Content("")

    def show(self, shown: Content) -> None:
        """Show this text. If it is the same as before, nothing is drawn."""
        if not shown.is_same(self._content):
            self._content = shown
            self.refresh()

    def render(self) -> Content:
        """The text."""
        return self._content


class HistoryPane(PagedPane):
    """The changes of one task, or of everything, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "undo", id="history.undo"),
        Binding("p", "facts", "difference", id="history.difference", show=False),
    ]
    most = 20_000
    """Most changes in the list."""

    def __init__(self, name: str | None = None) -> None:
        """Show the changes of the task of this name, which may be removed; all changes for None."""
        self._of = name
        self.title = f"{name} history" if name else "history"
        super().__init__()
        self.panel = ChangePanel()

    def columns(self) -> Sequence[Column]:
        """Return the columns. When, who and what are always shown."""
        named = Column("name", "name", 12, lambda row, _: cell(row.subject, "name"), rank=1, most=28)
        return (
            Column("change", "change", 6, lambda row, _: Cell(str(row.id)), right=True, rank=2),
            Column("when", "when", 8, lambda row, now: Cell(humanize.ago(row.at, now)), right=True),
            Column("who", "who", 9, lambda row, _: cell(row.author), most=14),
            Column("via", "via", 7, lambda row, _: cell(row.via, "quiet"), rank=4, most=10, from_width=60),
            *([] if self._of else [named]),
            Column("what", "what", 14, lambda row, _: cell(what(row)), most=24),
            Column("why", "why", 8, lambda row, _: cell(row.note), rank=3, grows=True, from_width=48),
        )

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.panel

    # Data -------------------------------------------------------------------------------------------

    def refresh_data(self) -> None:
        """Read the newest changes. Those that were read before never change."""
        name = self._of
        self.ask(
            "newest",
            lambda board: History(board.crontab).page(PAGE, name),
            lambda found: self.take_newest(found, _end(found), fresh=False),
        )

    def ask_more(self) -> None:
        """Read the changes before `end`."""
        name, last = self._of, self.end
        self.ask(
            "more",
            lambda board: History(board.crontab).page(PAGE, name, last),
            lambda found: self.take_more(found, _end(found)),
        )

    def show_held(self) -> None:
        """Show the changes."""
        self.show_list(self.held, "no changes yet")
        self.cursor_rests()

    # The difference ---------------------------------------------------------------------------------

    def cursor_rests(self) -> None:
        """Show what the change under the cursor did."""
        if self.panel.display:
            self.panel.show(self._about())

    def on_resize(self) -> None:
        """Show the difference if there is room for it."""
        self.call_after_refresh(self.cursor_rests)

    def action_facts(self) -> None:
        self.toggle_class("-alone")
        self.call_after_refresh(self.cursor_rests)

    def _about(self) -> Content:
        row = self.table.cursor_row
        return content(texts.about(row, self.host.zone)) if row else Content("")

    def open_row(self, row: RecordedChange) -> None:
        """Show the whole difference: the panel may have no room for it."""
        shown = content(texts.details(row, self.host.zone))
        self.host.push_screen(NoticeDialog(texts.title(row), lambda: shown))

    # Acts -------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        row = None if self.table.awaits_ids else self.table.cursor_row
        undoing.undo_change(self.host, row)


def _end(page: Sequence[RecordedChange]) -> int | None:
    """Return the id of the last change of a page; None if it is the last page."""
    return page[-1].id if len(page) == PAGE else None
