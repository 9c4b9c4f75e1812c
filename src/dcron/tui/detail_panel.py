"""The pane beside a table: names and values about the row under the cursor."""

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget

from dcron.safetext import safe_lines

Fact = tuple[str, str]


def told(facts: Iterable[Fact], heading: str = "") -> Content:
    """Names and values, those without a value left out. Foreign text as they are, they pass `safe` here."""
    parts: list[tuple[str, str] | str] = [(safe_lines(heading), "bold")]
    for name, value in facts:
        if value:
            parts += ["\n", (f"{name} " if name else "", "dim"), safe_lines(value)]
    return Content.assemble(*parts)


class DetailPanel(Widget):
    """Names and values about one thing."""

    def __init__(self) -> None:
        super().__init__()
        self._content = Content("")

    def show(self, heading: str, facts: Iterable[Fact]) -> None:
        """Show these facts. Nothing is drawn where they say the same as before."""
        content = told(facts, heading)
        if not content.is_same(self._content):
            self._content = content
            self.refresh()

    def render(self) -> Content:
        """The facts."""
        return self._content
