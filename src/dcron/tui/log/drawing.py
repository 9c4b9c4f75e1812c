"""Draw a line of a log as a row of the terminal."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from dcron.tui.log.lines import ERR, GAP, STREAMS, LogLine
from dcron.tui.log.search import Needle

TIME_WIDTH = 9
SIGN_WIDTH = 2
MARK = Style(bold=True, underline=True)


@dataclass(frozen=True)
class Margin:
    """The part before the text: the number, the time, the sign of the stream."""

    number_width: int
    """0 for no numbers."""
    zone: tzinfo | None
    """The zone of the times; None for no times."""

    @property
    def width(self) -> int:
        """In cells."""
        numbers = self.number_width + 1 if self.number_width else 0
        return numbers + (TIME_WIDTH if self.zone else 0) + SIGN_WIDTH

    def text(self, line: LogLine) -> str:
        """Return the margin of a line without the sign."""
        number = f"{line.number + 1:>{self.number_width}} " if self.number_width else ""
        if self.zone is None:
            return number
        time = f"{line.at.astimezone(self.zone):%H:%M:%S}" if line.at else ""
        return number + time.ljust(TIME_WIDTH)


@dataclass(frozen=True)
class Brush:
    """The styles and sizes that all rows of one frame share."""

    console: Console
    base: Style
    muted: Style
    err: Style
    gap: Style
    hit: Style
    margin: Margin
    width: int
    """Of a whole row, in cells."""
    text_width: int
    left: int
    """Cells of the text that are scrolled out at the left."""
    cuts: bool
    """Whether long lines are cut off instead of wrapped."""
    sought: Needle | None

    def row(self, line: LogLine, begin: int, end: int | None, *, marked: bool) -> Strip:
        """Return the characters from `begin` to `end` as a whole row."""
        before = self._before(line, begin)
        base = self.gap if line.kind == GAP else self.base
        base = base + MARK if marked else base
        spans = self._spans(line)
        if line.text.isascii() and not spans:
            text = line.text[begin:end][self.left :]
            shown, rest = text[: self.text_width], len(text) > self.text_width
            pieces = [Segment(shown[:-1] if rest else shown, base)]
            used = self.margin.width + len(pieces[0].text)
        else:
            whole = Strip(self._pieces(line, begin, end, base, spans))
            rest = self.cuts and whole.cell_length > self.left + self.text_width
            strip = whole.crop(self.left, self.left + self.text_width - rest)
            pieces, used = list(strip), self.margin.width + strip.cell_length
        if rest:
            fill = self.margin.width + self.text_width - 1 - used
            pieces.append(Segment(" " * fill + ">", self.muted))
            used += fill + 1
        pad = Segment(" " * (self.width - used), self.base)
        return Strip([*before, *pieces, pad], self.width)

    def _before(self, line: LogLine, begin: int) -> list[Segment]:
        if begin:
            return [Segment(" " * self.margin.width, self.muted)]
        sign = STREAMS[line.kind][0] if line.kind != GAP else " "
        style = self.err if line.kind == ERR else self.muted
        return [Segment(self.margin.text(line), self.muted), Segment(f"{sign} ", style)]

    def _spans(self, line: LogLine) -> list[tuple[int, int, Style]]:
        if self.sought is None or line.kind == GAP:
            return list(line.styles)
        hits = ((start, stop, self.hit) for start, stop in self.sought.spans(line.text))
        return [*line.styles, *hits]

    def _pieces(
        self, line: LogLine, begin: int, end: int | None, base: Style, spans: list[tuple[int, int, Style]]
    ) -> Iterator[Segment]:
        if not spans:
            yield Segment(line.text[begin:end], base)
            return
        text = Text(line.text, style=base, end="")
        for start, stop, style in spans:
            text.stylize(style, start, stop)
        yield from text[begin : len(line.text) if end is None else end].render(self.console)
