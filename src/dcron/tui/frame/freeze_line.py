"""The line of the screen that says that the crontab is frozen."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dcron.tui.frame.header_footer import Line, Status
from dcron.values.safe_text import cells, safe

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.model import Freeze


class FreezeLine(Line):
    """Who froze the crontab, until when and why. It is visible only while the crontab is frozen."""

    def __init__(self, status: Callable[[], Status]) -> None:
        super().__init__()
        self._status = status
        self.display = False

    def update_freeze(self) -> None:
        """Show, hide or draw the line."""
        self.display = self._found() is not None
        self.refresh()

    def _found(self) -> "Freeze | None":
        counts = self._status().counts
        return counts.activity.frozen if counts else None

    def parts(self) -> Iterator[tuple[str, str, str]]:
        """Yield the one part."""
        if found := self._found():
            from dcron.presentation.freezes import sentence

            text = safe(f" {sentence(found, self.host.zone, self.host.health.now())}  (:thaw ends it)")
            yield text + " " * max(0, self.size.width - cells(text)), "", ""
