"""The line that shows how many tasks start in each cell of the timeline."""

from collections.abc import Sequence

from textual.content import Content
from textual.widget import Widget

from dcron.safetext import cells, shorten
from dcron.tui.fleet.panel import heights

LABEL = " all tasks"


class LoadLine(Widget):
    """One sign per cell, as high as its number of starts relative to the greatest."""

    DEFAULT_CSS = "LoadLine { height: 1; background: $surface; color: $foreground; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Sequence[int], int, bool] = ((), 0, False)

    def show(self, numbers: Sequence[int], x: int, *, unicode: bool) -> None:
        """Show these numbers from column `x` on."""
        if (numbers, x, unicode) != self._shown:
            self._shown = (numbers, x, unicode)
            self.refresh()

    def render(self) -> Content:
        """Draw the label, the signs and the greatest number."""
        numbers, x, unicode = self._shown
        drawn = heights(numbers, unicode=unicode)
        label = shorten(LABEL, max(0, x - 1))
        most = f" {max(numbers, default=0):,}"
        room = self.size.width - x - len(drawn)
        right = most.rjust(room - 2) if cells(most) <= room - 2 else ""
        gap = " " * max(0, x - cells(label))
        return Content.assemble(
            (label + gap, "$foreground-muted"), (drawn, "$text-primary"), (right, "$foreground-muted")
        )
