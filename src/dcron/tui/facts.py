"""The pane beside a table: names and values about the row under the cursor."""

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget

from dcron.safetext import safe_lines

Fact = tuple[str, str]


class Facts(Widget):
    """Names and values. They are foreign text, so they pass `safe` here and are never read as markup."""

    def __init__(self) -> None:
        super().__init__()
        self._content = Content("")

    def show(self, heading: str, facts: Iterable[Fact]) -> None:
        """Show these facts; those without a value are left out. Nothing is drawn where they say the same."""
        parts: list[tuple[str, str] | str] = [(safe_lines(heading), "bold")]
        for name, value in facts:
            if value:
                parts += ["\n", (f"{name} " if name else "", "dim"), safe_lines(value)]
        content = Content.assemble(*parts)
        if not content.is_same(self._content):
            self._content = content
            self.refresh()

    def render(self) -> Content:
        """The facts."""
        return self._content
