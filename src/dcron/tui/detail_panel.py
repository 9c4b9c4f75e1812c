"""The panel beside a table: names and values about the row under the cursor."""

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget

from dcron.safetext import safe_lines

Fact = tuple[str, str]


def facts_content(facts: Iterable[Fact], heading: str = "") -> Content:
    """Return names and values as inert content, without empty values."""
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
        """Show these facts. If they are the same as before, nothing is drawn."""
        content = facts_content(facts, heading)
        if not content.is_same(self._content):
            self._content = content
            self.refresh()

    def render(self) -> Content:
        """The facts."""
        return self._content
