"""The line below the timeline: the busiest minute, and the zone of the header."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo

from textual.content import Content
from textual.widget import Widget

from dcron.presentation import humanize
from dcron.safetext import cells, shorten
from dcron.services.dashboard import BusiestMinute


class Foot(Widget):
    """A text at the left, the longest of several that fits, and a text at the right."""

    DEFAULT_CSS = "Foot { height: 1; background: $surface; color: $foreground; }"

    def __init__(self) -> None:
        super().__init__()
        self._texts: Sequence[str] = ("",)
        self._right = ""

    def show(self, texts: Sequence[str], right: str) -> None:
        """Show these inert texts, the longest first."""
        if (texts, right) != (self._texts, self._right):
            self._texts, self._right = texts, right
            self.refresh()

    def render(self) -> Content:
        """Draw the texts that fit."""
        room = self.size.width - cells(self._right) - 2
        text = next((text for text in self._texts if cells(text) < room), shorten(self._texts[-1], room - 1))
        return Content(f" {text}{' ' * (room - 1 - cells(text))} {self._right} ")


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
