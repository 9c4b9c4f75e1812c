"""The line of the screen that says that the crontab is frozen."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dcron.safetext import cells, safe
from dcron.tui.header_footer import Line

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.model import Freeze


class FreezeLine(Line):
    """Who froze the crontab, until when and why. It is visible only while the crontab is frozen."""

    freeze: "Freeze | None" = None

    def on_mount(self) -> None:
        """Stay hidden until the first count."""
        self.display = self.freeze is not None

    def update_freeze(self, freeze: "Freeze | None") -> None:
        """Show, hide or draw the line."""
        self.freeze = freeze
        self.display = freeze is not None
        self.refresh()

    def parts(self) -> Iterator[tuple[str, str, str]]:
        """Yield the one part: it opens the dialog that thaws."""
        if self.freeze:
            from dcron.presentation.freezes import sentence

            said = sentence(self.freeze, self.host.zone, self.host.health.now())
            text = safe(f" {said}  (`:thaw` ends it)")
            yield text + " " * max(0, self.size.width - cells(text)), "", "app.thaw"
