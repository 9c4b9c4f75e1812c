"""Draw frames, rules and ellipses with ASCII characters, for terminals and fonts that have no others."""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender

_TABLE = str.maketrans(
    {
        **dict.fromkeys("╭╮╰╯┌┐└┘", "+"),
        **dict.fromkeys("─━▔▁", "-"),
        **dict.fromkeys("│┃▌▐▎▊", "|"),
        "…": "~",
    }
)


class AsciiFilter(LineFilter):
    """Replace what Textual and dcron draw around and in place of texts."""

    def apply(self, segments: list[Segment], background: Color | None = None) -> list[Segment]:
        """Return the segments with these characters replaced."""
        return [
            segment if segment.text.isascii() else Segment(segment.text.translate(_TABLE), *segment[1:])
            for segment in segments
        ]


class WholeCellScrollBar(ScrollBarRender):
    """A scroll bar whose ends are whole cells."""

    VERTICAL_BARS = [" "]  # noqa: RUF012
    HORIZONTAL_BARS = [" "]  # noqa: RUF012
