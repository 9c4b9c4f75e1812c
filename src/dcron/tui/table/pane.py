"""A pane fills the screen between the tabs and the hints. Most panes are tables."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer

from dcron.tui.host import Hosted
from dcron.tui.keys.keynames import key_of, with_keys
from dcron.tui.look.backdrop import Backdrop
from dcron.tui.table.cells import Cell
from dcron.tui.table.columns import Column
from dcron.tui.table.table import RowTable
from dcron.values.lists import Term
from dcron.values.safe_text import safe

if TYPE_CHECKING:  # the first loads SQLAlchemy, which comes after the first paint
    from dcron.services.dashboard import Dashboard
    from dcron.tui.keys.completion import Completion
    from dcron.tui.table.filter_counts import FilterCount

T = TypeVar("T")
FACTS_PAUSE = 0.12
"""Seconds after which the details of the row under the cursor are read."""


class Pane(Backdrop, Hosted):
    """A view, or a list that was opened from one. It shows the last answers of the database."""

    title = ""
    """The name in the breadcrumb."""
    filter_text = ""
    errors_only = False
    fields: ClassVar[Collection[str]] = ()
    """What a filter may name; rows without fields are not filtered."""
    orders: ClassVar[Sequence[str]] = ()

    @property
    def front(self) -> "Pane":
        """The pane that has the keys: this one, or the tab in front of it."""
        return self

    @property
    def is_ready(self) -> bool:
        """Whether keys can act on the shown rows."""
        return True

    def on_unmount(self) -> None:
        """Drop the questions and their answers."""
        self.host.reads.forget_all(self)

    def ask(
        self, topic: Hashable, question: "Callable[[Dashboard], T]", receive: Callable[[T], None]
    ) -> None:
        """Ask the database in the background. A newer question of the same topic replaces this one."""

        def receive_if_there(answer: T) -> None:
            if self.is_mounted and self.is_attached:
                receive(answer)

        self.host.reads.ask((self, topic), question, receive_if_there, self.host.report_error)

    def is_asking(self, topic: Hashable) -> bool:
        """Return whether a question of this topic has no answer yet."""
        return self.host.reads.is_waiting((self, topic))

    def refresh_data(self) -> None:
        """Read the rows again: the database has changed, or the pane is visible again."""

    def tick(self) -> None:
        """Draw what the time has changed; called every second."""

    @property
    def whole_filter(self) -> str:
        """The filter that shows these rows in one text, with the one for errors only."""
        return self.filter_text

    def set_filter(self, text: str) -> None:
        """Show only rows that match this filter. Raises UsageError."""

    def complete_filter(self, text: str, take: "Callable[[Completion], None]") -> None:
        """Find what may follow the text of a filter."""

    def counter(self, text: str) -> "Callable[[Dashboard], FilterCount] | None":
        """Return the question how many rows a filter finds; None if it is not counted. Raises UsageError."""
        return None

    def sort_by(self, order: str) -> None:
        """Sort by one of the orders; the same order again reverses it."""

    def subject(self, kind: str) -> str:
        """Return the `task`, `run` or `node` that a command without one is about; empty if there is none."""
        return ""

    def counted(self) -> str:
        """Return the position and the number of rows, for the tabs."""
        return ""

    def action_errors(self) -> None:
        """Show errors only, or all."""


class TablePane(Pane):
    """A pane with a table. It reads all ids, and then the rows in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "choose_order", "sort", id="pane.sort", show=False),
        Binding("O", "reverse", "sort backwards", id="pane.reverse", show=False),
        Binding("x", "errors", "errors only", id="pane.errors", show=False),
        Binding("y", "copy", "copy the id", id="pane.copy", show=False),
        Binding("c", "columns", "hide or show a column", id="pane.columns", show=False),
    ]
    keeps_top: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.table = RowTable(self.columns(), lambda: self.host.health.now(), keeps_top=self.keeps_top)
        self.table.note = "..."
        self.table.awaits_ids = True
        self.terms: Sequence[Term] = ()
        self.errors_only = False
        self.order = self.orders[0] if self.orders else ""
        self.backwards = False
        self._resting: Timer | None = None

    def columns(self) -> Sequence[Column]:
        """Return the columns of the table."""
        raise NotImplementedError

    def sign_column(
        self, style_of: Callable[[Any, datetime], str], *, rank: int = 0, from_width: int = 0
    ) -> Column:
        """Return a column with the sign of the style that each row has."""

        def show(row: Any, now: datetime) -> Cell:
            style = style_of(row, now)
            return Cell(self.host.signs[style], style)

        return Column("sign", "", 1, show, rank=rank, from_width=from_width)

    def parse(self, text: str) -> Sequence[Term]:
        """Return the terms of a typed filter. Raises UsageError."""
        from dcron.tui.table.filters import parse_filter

        return parse_filter(text, self.fields) if self.fields else ()

    def complete_filter(self, text: str, take: "Callable[[Completion], None]") -> None:
        """Find what may follow the text of a filter."""
        from dcron.tui.table.filters import complete_filter

        complete_filter(self.host, self.fields, text, take)

    def compose(self) -> ComposeResult:
        yield self.table

    @property
    def hides_rows(self) -> bool:
        """Whether there may be more rows than the shown ones even without a filter."""
        return False

    @property
    def is_ready(self) -> bool:
        """Whether the rows match the filter and the order, and the row under the cursor is read."""
        table = self.table
        return not table.awaits_ids and (table.cursor_id is None or table.cursor_row is not None)

    def on_mount(self) -> None:
        """Read the rows."""
        self._show_order()
        if hidden := self.host.state.hidden.get(self._table_name):
            self.table.hide_columns(hidden)
        self.refresh_data()

    def tick(self) -> None:
        """Draw what the time has changed."""
        self.table.set_old(self.host.health.is_old)
        self.table.tick()

    # Filter and order -------------------------------------------------------------------------------

    @property
    def all_terms(self) -> Sequence[Term]:
        """The terms of the filter, with the one for errors only."""
        return [*self.terms, Term("errors")] if self.errors_only else self.terms

    @property
    def whole_filter(self) -> str:
        """The filter that shows these rows in one text, with the one for errors only."""
        from dcron.tui.table.filters import with_errors

        return with_errors(self.filter_text) if self.errors_only else self.filter_text

    def set_filter(self, text: str) -> None:
        """Show only rows that match this filter. Raises UsageError, and then changes nothing."""
        self.terms = self.parse(text)
        self.filter_text = text
        self._ask_for_others()

    def _ask_for_others(self) -> None:
        """Ignore row keys until the new ids arrive; they would act on the old rows."""
        self.table.awaits_ids = True
        self.reload()

    def reload(self) -> None:
        """Read all again, with another filter or order."""
        self.refresh_data()

    def action_errors(self) -> None:
        self.errors_only = not self.errors_only
        self._ask_for_others()
        self.host.redraw_header()

    def action_choose_order(self) -> None:
        if self.orders:
            self.host.choose("sort by", self.orders, self.sort_by)

    def sort_by(self, order: str) -> None:
        """Sort by one of the orders; the same order again reverses it."""
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

    @property
    def _table_name(self) -> str:
        """The name of this kind of list among the remembered ones."""
        return type(self).__name__.removesuffix("Pane").lower()

    def action_columns(self) -> None:
        state, table = self.host.state, self._table_name
        hidden = state.hidden.get(table, ())
        marks = {
            f"[{' ' if column.key in hidden else 'x'}] {column.title}": column.key
            for column in self.table.columns
            if column.rank and column.title
        }

        def toggle(chosen: str) -> None:
            state.toggle_column(table, marks[chosen])
            self.table.hide_columns(state.hidden[table])

        if marks:
            self.host.choose("hide or show a column, where there is room for it", list(marks), toggle)

    def _show_order(self) -> None:
        self.table.order = (self.order, self.backwards) if self.orders else None

    # Rows -------------------------------------------------------------------------------------------

    def show_ids(self, ids: Sequence[Any], nothing: str) -> None:
        """Show these ids. If there are none and no filter is set, show the text `nothing`."""
        self.table.note = with_keys(self, nothing)
        if self.all_terms:
            self.table.note = f"nothing matches {safe(self.filter_text)} - {key_of(self.screen, 'main.back')}"
        if self.errors_only and not self.terms:
            self.table.note = f"no errors - {key_of(self, 'pane.errors')} shows all"
        self.table.set_ids(ids)
        if not self.all_terms and not self.hides_rows:
            self.table.hidden_marks.clear()  # these rows are gone
        self.host.redraw_header()

    def show_rows(self, rows: Mapping[Any, Any]) -> None:
        """Show these rows."""
        self.table.set_old(False)
        self.table.set_rows(rows)

    @on(RowTable.Moved)
    def _moved(self, message: RowTable.Moved) -> None:
        """Read the details of a row when the cursor rests on it."""
        message.stop()
        self.host.redraw_tabs()
        if self._resting:
            self._resting.stop()
        self._resting = self.set_timer(FACTS_PAUSE, self.cursor_rests)

    def cursor_rests(self) -> None:
        """Show details of the row: the cursor rests on it."""

    @on(RowTable.Wanting)
    def _wanting(self, message: RowTable.Wanting) -> None:
        message.stop()
        self.read_more()

    def read_more(self) -> None:
        """Read rows that are in sight, or nearly, and are not known yet."""

    @on(RowTable.Chosen)
    def _chosen(self, message: RowTable.Chosen) -> None:
        message.stop()
        if (row := self.table.cursor_row) is not None:
            self.open_row(row)

    def open_row(self, row: Any) -> None:
        """Show what Enter shows of a row."""

    def action_copy(self) -> None:
        if (text := self.copied()) is not None:
            self.host.copy(text)

    def copied(self) -> str | None:
        """Return the text that `y` copies."""
        return None if self.table.cursor_id is None else str(self.table.cursor_id)

    def subject(self, kind: str) -> str:
        """Return the `task`, `run` or `node` under the cursor."""
        row = None if self.table.awaits_ids else self.table.cursor_row
        return "" if row is None else self.subject_of(row, kind)

    def subject_of(self, row: Any, kind: str) -> str:
        """Return the `task`, `run` or `node` of a row; empty if it has none."""
        return ""

    def counted(self) -> str:
        """Return `2 marked, 1 hidden 5/60`: marks, marks of hidden rows, position, number of rows."""
        marked, hidden = len(self.table.marks), len(self.table.hidden_marks)
        text = f"{marked:,} marked" if marked or hidden else ""
        text += f", {hidden:,} hidden " if hidden else " " if text else ""
        return f"{text}{self.table.cursor + 1 if self.table.ids else 0:,}/{len(self.table.ids):,}"
