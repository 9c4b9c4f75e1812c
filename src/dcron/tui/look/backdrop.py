"""What lies behind other widgets and is drawn in the same pass with them."""

from textual.containers import Container
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Backdrop(Widget):
    """A widget without border, padding and content of its own: one blank line stands for all."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the same line for each one. Textual asks for them whenever a child is drawn."""
        first = Region(crop.x, crop.y, crop.width, min(1, crop.height))
        return super().render_lines(first) * crop.height


class Body(Container, Backdrop):
    """What the panes are mounted in."""
