"""The lines below the timeline: how many tasks start in each cell, and the busiest minute with the zone."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from textual.content import Content
from textual.widget import Widget

from dcron.presentation import humanize
from dcron.services.dashboard import BusiestMinute
from dcron.tui.fleet.panel import heights
from dcron.values.safe_text import cells, shorten

LABEL = " all tasks"


class Line(Widget):
    """A line that is drawn again when it shows something else."""

    DEFAULT_CSS = "Line { height: 1; background: $surface; color: $foreground; }"
    _shown: tuple[Any, ...] = ()

    def _show(self, *shown: Any) -> None:
        if shown != self._shown:
            self._shown = shown
            self.refresh()


class LoadLine(Line):
    """One sign per cell, as high as its number of starts relative to the greatest."""

    def show(self, numbers: Sequence[int], x: int, *, unicode: bool) -> None:
        """Show these numbers from column `x` on."""
        self._show(numbers, x, unicode)

    def render(self) -> Content:
        """Draw the label, the signs and the greatest number."""
        numbers, x, unicode = self._shown or ((), 0, False)
        drawn = heights(numbers, unicode=unicode)
        label = shorten(LABEL, max(0, x - 1))
        most = f" {max(numbers, default=0):,}"
        room = self.size.width - x - len(drawn)
        right = most.rjust(room - 2) if cells(most) <= room - 2 else ""
        gap = " " * max(0, x - cells(label))
        return Content.assemble(
            (label + gap, "$foreground-muted"), (drawn, "$text-primary"), (right, "$foreground-muted")
        )


class Foot(Line):
    """A text at the left, the longest of several that fits, and a text at the right."""

    def show(self, texts: Sequence[str], right: str) -> None:
        """Show these inert texts, the longest first."""
        self._show(texts, right)

    def render(self) -> Content:
        """Draw the texts that fit."""
        texts, right = self._shown or (("",), "")
        room = self.size.width - cells(right) - 2
        text = next((text for text in texts if cells(text) < room), shorten(texts[-1], room - 1))
        return Content(f" {text}{' ' * (room - 1 - cells(text))} {right} ")


def busiest_texts(
    found: BusiestMinute, counted: int, tasks: int, here: tzinfo, now: datetime
) -> Iterator[str]:
    """Yield texts about the busiest minute, the longest first."""
    of = f" of the first {counted:,} tasks" if counted < tasks else ""
    if found.minute is None:
        yield f"counting starts:{of}" if of else "no starts by the clock"
        return
    at = humanize.clock(found.minute, here, now)
    starts = f"{humanize.plural(found.starts, 'task')} {'starts' if found.starts == 1 else 'start'}"
    yield f"busiest minute {at}: {starts}{',' if of else ''}{of}"
    yield f"busiest {at}: {found.starts:,}{of}"
    yield f"{found.minute.astimezone(here):%H:%M}: {found.starts:,}{of}"
