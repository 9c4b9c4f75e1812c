"""The panel beside a table: sections about the row under the cursor."""

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.tui.table.sections import Section, SectionColumn, filled
from dcron.values.safe_text import safe


class DetailPanel(Vertical):
    """The name of one thing and sections about it. What does not fit is cut off."""

    DEFAULT_CSS = """
    DetailPanel Static { height: 1; padding: 0 1; }
    DetailPanel SectionColumn { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._heading = Static("", markup=False)
        self._column = SectionColumn()
        self._name = ""

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._column

    def show(self, heading: str, sections: Iterable[Section]) -> None:
        """Show these sections. If they are the same as before, nothing is drawn."""
        if heading != self._name:
            self._name = heading
            self._heading.update(Content.styled(safe(heading), "bold"), layout=False)
        self._column.show(filled(sections))
