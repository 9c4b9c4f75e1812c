"""What fills the screen between the tabs and the hints: a pane, and the kind that is a table."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from dcron.errors import DcronError
from dcron.safetext import safe
from dcron.tui.columns import Column
from dcron.tui.keynames import key_of, told_keys
from dcron.tui.table import RowTable

if TYPE_CHECKING:  # the first two load SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Dashboard
    from dcron.store.search_terms import Term
    from dcron.tui.app import DcronApp
    from dcron.tui.completion import Completion

T = TypeVar("T")
FACTS_PAUSE = 0.12
"""Seconds the cursor rests on a row before more is asked about it."""


class Pane(Widget):
    """A view, or what was opened from one. It asks through the reader and shows what it knows meanwhile."""

    title = ""
    """The name in the breadcrumb."""
    filter_text = ""
    can_filter = False

    @property
    def dcron(self) -> "DcronApp":
        """The app, as what it is."""
        return cast("DcronApp", self.app)

    @property
    def is_ready(self) -> bool:
        """Whether what is shown is what keys are meant for."""
        return True

    def ask(self, what: Hashable, question: "Callable[[Dashboard], T]", receive: Callable[[T], None]) -> None:
        """Ask the database in the reader's thread; only the latest answer of each kind arrives, if at all."""

        def receive_if_there(answer: T) -> None:
            if self.is_mounted and self.is_attached:
                receive(answer)

        self.dcron.reader.ask((self, what), question, receive_if_there, self.refused)

    def refused(self, error: DcronError) -> None:
        """The question itself was at fault."""
        self.dcron.complain(error)

    def refresh_data(self) -> None:
        """Somebody changed the database, or the pane has come back into sight."""

    def tick(self) -> None:
        """A second has passed."""

    def set_filter(self, text: str) -> None:
        """Show only what this filter lets through. Raises UsageError."""

    def complete_filter(self, text: str, take: "Callable[[Completion], None]") -> None:
        """Find what may follow the text of a filter."""

    def counted(self) -> str:
        """How much is shown, for the bar."""
        return ""


class TablePane(Pane):
    """A pane that is a table; what it shows is asked for by ids, and then by the rows in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "choose_order", "sort", id="pane.sort", show=False),
        Binding("O", "reverse", "sort backwards", id="pane.reverse", show=False),
        Binding("x", "errors", "errors only", id="pane.errors", show=False),
        Binding("y", "copy", "copy the id", id="pane.copy", show=False),
    ]
    can_filter = True
    orders: ClassVar[Sequence[str]] = ()
    keeps_top: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(self.columns(), lambda: self.dcron.health.now(), keeps_top=self.keeps_top)
        self.table.note = "..."
        self.table.awaits_ids = True
        self.terms: Sequence[Term] = ()
        self.errors_only = False
        self.order = self.orders[0] if self.orders else ""
        self.backwards = False
        self._resting: Timer | None = None

    def columns(self) -> Sequence[Column]:
        """The columns of the table."""
        raise NotImplementedError

    def parse(self, text: str) -> "Sequence[Term]":
        """The terms of a filter as it was typed. Raises UsageError."""
        raise NotImplementedError

    def filter_fields(self) -> Collection[str]:
        """The fields that a filter may name."""
        return ()

    def complete_filter(self, text: str, take: "Callable[[Completion], None]") -> None:
        """Find what may follow the text of a filter."""
        from dcron.tui.completion import complete_filter

        complete_filter(self.dcron, self.filter_fields(), text, take)

    def compose(self) -> ComposeResult:
        yield self.table

    @property
    def is_ready(self) -> bool:
        """Whether the rows are those that were asked for, and the one under the cursor is known."""
        table = self.table
        return not table.awaits_ids and (table.cursor_id is None or table.cursor_row is not None)

    def on_mount(self) -> None:
        """Ask at once."""
        self._show_order()
        self.refresh_data()

    def on_unmount(self) -> None:
        """Answers that come late are for nobody."""
        self.dcron.reader.forget_all(self)

    def tick(self) -> None:
        """Draw what has changed by the clock alone."""
        self.table.set_old(self.dcron.health.is_old)
        self.table.tick()

    # Filter and order -------------------------------------------------------------------------------

    @property
    def wanted(self) -> "Sequence[Term]":
        """What was typed, and the errors where only they are wanted."""
        from dcron.store.search_terms import Term

        return [*self.terms, Term("errors")] if self.errors_only else self.terms

    def set_filter(self, text: str) -> None:
        """Show only what this filter lets through. Raises UsageError, and then all stays as it is."""
        self.terms = self.parse(text)
        self.filter_text = text
        self._ask_for_others()

    def _ask_for_others(self) -> None:
        """What is typed ahead of the answer is not meant for the rows that go."""
        self.table.awaits_ids = True
        self.reload()

    def reload(self) -> None:
        """Filter or order are others: ask for everything again."""
        self.refresh_data()

    def action_errors(self) -> None:
        self.errors_only = not self.errors_only
        self._ask_for_others()
        self.dcron.redraw_chrome()

    def action_choose_order(self) -> None:
        if self.orders:
            self.dcron.choose("sort by", self.orders, self.sort_by)

    def sort_by(self, order: str) -> None:
        """Sort by one of the orders; the same again turns it round."""
        self.backwards = not self.backwards if order == self.order else False
        self.order = order
        self._show_order()
        self._ask_for_others()

    def action_reverse(self) -> None:
        if self.orders:
            self.sort_by(self.order)

    @on(RowTable.OrderChosen)
    def _sort(self, message: RowTable.OrderChosen) -> None:
        message.stop()
        self.sort_by(message.order)

    def _show_order(self) -> None:
        self.table.order = (self.order, self.backwards) if self.orders else None

    # Rows -------------------------------------------------------------------------------------------

    def show_ids(self, ids: Sequence[Any], nothing: str) -> None:
        """Take the ids; `nothing` stands there where there are none, and a filter is not the reason."""
        self.table.note = told_keys(self, nothing)
        if self.wanted:
            self.table.note = f"nothing matches {safe(self.filter_text)} - {key_of(self.screen, 'main.back')}"
        if self.errors_only and not self.terms:
            self.table.note = f"no errors - {key_of(self, 'pane.errors')} shows all"
        self.table.set_ids(ids)
        self.dcron.redraw_chrome()

    def show_rows(self, rows: Mapping[Any, Any]) -> None:
        """Take the rows."""
        self.table.set_old(False)
        self.table.set_rows(rows)

    @on(RowTable.Moved)
    def _moved(self, message: RowTable.Moved) -> None:
        """Ask for more about a row only when the cursor rests on it."""
        message.stop()
        self.dcron.main.redraw_tabs()
        if self._resting:
            self._resting.stop()
        self._resting = self.set_timer(FACTS_PAUSE, self.cursor_rests)

    def cursor_rests(self) -> None:
        """The cursor has been on a row for a moment."""

    def action_copy(self) -> None:
        if (text := self.copied()) is not None:
            self.app.copy_to_clipboard(safe(text))
            self.dcron.tell(f"copied {text}")

    def copied(self) -> str | None:
        """What `y` copies."""
        return None if self.table.cursor_id is None else str(self.table.cursor_id)

    def counted(self) -> str:
        """How many rows there are, and how many are marked."""
        marked = f"{len(self.table.marks):,} marked " if self.table.marks else ""
        return f"{marked}{self.table.cursor + 1 if self.table.ids else 0:,}/{len(self.table.ids):,}"
