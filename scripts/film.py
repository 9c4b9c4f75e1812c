"""Draw what a terminal showed as an animated SVG.

A terminal emulator follows what programs draw; each change is a frame. The picture holds each different line
once, all frames side by side, and moves them through its window. It runs no script and fetches nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
"""Fonts with a fixed width that systems bring."""
COLUMNS, ROWS = 112, 27
WIDTH, HEIGHT = 8.0, 17.0
"""Of a cell."""
MARGIN, TITLE = 10.0, 34.0
"""Around the terminal, and the height of the line above it."""
COLOURS = {
    "default": "#d7dce5",
    "black": "#14181f",
    "red": "#ff7b85",
    "green": "#7fd99a",
    "brown": "#e5c07b",
    "blue": "#6cb2ff",
    "magenta": "#c7a5f0",
    "cyan": "#6fd3e0",
    "white": "#d7dce5",
    "brightblack": "#8b95a5",
}
"""By the names of the emulator, which calls yellow brown."""
BACKGROUND = "#10141b"
GAP = 20.0
"""Between two frames, for letters that are wider than they should be."""
_WORDS = re.compile(r"\S+(?: \S+)*")
"""Words with one blank between them. What follows more blanks gets a place of its own: fonts differ."""
_PRIVATE = re.compile(rb"\x1b\[[<>=][\d;]*[a-zA-Z]")
"""Sequences about keys that the emulator does not know."""


@dataclass(frozen=True)
class Piece:
    """Letters of one look, from a column on."""

    column: int
    text: str
    colour: str
    background: str
    style: str = ""


Row = tuple[Piece, ...]


@dataclass(frozen=True)
class Frame:
    """What is seen, and for how long."""

    rows: tuple[Row, ...]
    title: str
    seconds: float


@dataclass
class Film:
    """The frames so far, and the emulated terminal that they show."""

    frames: list[Frame] = field(default_factory=list)
    title: str = ""

    def __post_init__(self) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)

    def feed(self, data: bytes) -> None:
        """Draw what a program has written; line ends are those of a terminal."""
        self._stream.feed(_PRIVATE.sub(b"", data))

    def hold(self, seconds: float) -> None:
        """Show the terminal as it is for this long."""
        frame = Frame(tuple(rows_of(self.screen)), self.title, seconds)
        if self.frames and (self.frames[-1].rows, self.frames[-1].title) == (frame.rows, frame.title):
            seconds += self.frames.pop().seconds
        self.frames.append(Frame(frame.rows, frame.title, seconds))

    def text(self) -> str:
        """Return the letters on the terminal."""
        return "\n".join(self.screen.display)


def rows_of(screen: pyte.Screen) -> Iterator[Row]:
    """Yield each line of the terminal as pieces of one look, the cursor as a reversed cell."""
    for line in range(screen.lines):
        cells = [screen.buffer[line][column] for column in range(screen.columns)]
        if line == screen.cursor.y and not screen.cursor.hidden and screen.cursor.x < screen.columns:
            cells[screen.cursor.x] = cells[screen.cursor.x]._replace(reverse=True)
        yield tuple(_pieces(cells))


def _pieces(cells: Sequence[Char]) -> Iterator[Piece]:
    for look, group in groupby(enumerate(cells), lambda each: _look(each[1])):
        found = list(group)
        text = "".join(cell.data for _, cell in found)
        if text.strip() or look[1] != BACKGROUND:
            yield Piece(found[0][0], text, *look)


def _look(cell: Char) -> tuple[str, str, str]:
    colour, background = _hex(cell.fg, COLOURS["default"]), _hex(cell.bg, BACKGROUND)
    if cell.reverse:
        colour, background = background, colour
    names = ("bold", "italics", "underscore", "strikethrough")
    return colour, background, "".join(name[0] for name in names if getattr(cell, name))


def _hex(name: str, default: str) -> str:
    if name == "default":
        return default
    return f"#{name}" if re.fullmatch("[0-9a-f]{6}", name) else COLOURS[name]


# The picture -----------------------------------------------------------------------------------


def picture(frames: Sequence[Frame]) -> str:
    """Return the frames as an animated SVG, which repeats them."""
    rows = {row: f"r{number}" for number, row in enumerate(dict.fromkeys(_all_rows(frames)))}
    looks = {look: f"c{number}" for number, look in enumerate(dict.fromkeys(_looks(rows)))}
    width, height = COLUMNS * WIDTH, ROWS * HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * MARGIN:g} '
        f'{height + TITLE + MARGIN:g}" xml:space="preserve">',
        f"<style>{_styles(frames, looks, width)}</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        "<defs>",
        *(f'<g id="{name}">{"".join(_drawn(row, looks))}</g>' for row, name in rows.items()),
        "</defs>",
        f'<svg x="{MARGIN:g}" width="{width:g}" height="{height + TITLE:g}"><g class="film">',
    ]
    for number, frame in enumerate(frames):
        lines.append(f'<g transform="translate({number * (width + GAP):g})">')
        lines.append(f'<text class="title" x="{width / 2:g}" y="22">{escape(frame.title)}</text>')
        lines += [
            f'<use href="#{rows[row]}" y="{TITLE + position * HEIGHT:g}"/>'
            for position, row in enumerate(frame.rows)
            if row
        ]
        lines.append("</g>")
    return "\n".join([*lines, "</g></svg>", "</svg>", ""])


def _all_rows(frames: Sequence[Frame]) -> Iterator[Row]:
    return (row for frame in frames for row in frame.rows if row)


def _looks(rows: Iterable[Row]) -> Iterator[tuple[str, str]]:
    return ((piece.colour, piece.style) for row in rows for piece in row)


def _styles(frames: Sequence[Frame], looks: dict[tuple[str, str], str], width: float) -> str:
    """Return the style sheet: the film moves by one window at the end of each frame."""
    total = sum(frame.seconds for frame in frames)
    begun, steps = 0.0, []
    for number, frame in enumerate(frames):
        steps.append(f"{100 * begun / total:.3f}%{{transform:translateX({-number * (width + GAP):g}px)}}")
        begun += frame.seconds
    last = (len(frames) - 1) * (width + GAP)
    meanings = {"b": "font-weight:bold", "i": "font-style:italic", "u": "text-decoration:underline"}
    meanings["s"] = "text-decoration:line-through"
    classes = [
        f".{name}{{{';'.join([f'fill:{colour}', *(meanings[each] for each in style)])}}}"
        for (colour, style), name in looks.items()
    ]
    return (
        f"text{{font:13.3px {FONTS};white-space:pre}}{''.join(classes)}"
        f".title{{fill:#b9c4d6;text-anchor:middle}}"
        f"@keyframes play{{{''.join(steps)}100%{{transform:translateX({-last:g}px)}}}}"
        f".film{{animation:play {total:.1f}s steps(1,end) infinite}}"
        f"@media (prefers-reduced-motion){{.film{{animation:none;transform:translateX({-last:g}px)}}}}"
    )


def _drawn(row: Row, looks: dict[tuple[str, str], str]) -> Iterator[str]:
    for piece in row:
        if piece.background != BACKGROUND:
            yield (
                f'<rect x="{piece.column * WIDTH:g}" width="{len(piece.text) * WIDTH:g}" height="{HEIGHT:g}" '
                f'fill="{piece.background}"/>'
            )
    for piece in row:
        for found in _WORDS.finditer(piece.text):
            yield (
                f'<text class="{looks[piece.colour, piece.style]}" '
                f'x="{(piece.column + found.start()) * WIDTH:g}" y="13" '
                f'textLength="{len(found[0]) * WIDTH:g}">{escape(found[0])}</text>'
            )


def check(frames: Sequence[Frame], *private: str) -> None:
    """Raise ValueError if a frame shows one of these words of this machine."""
    text = "\n".join(piece.text for row in _all_rows(frames) for piece in row)
    for word in private:
        if word and re.search(rf"\b{re.escape(word)}\b", text):
            raise ValueError(f"the recording shows {word!r}")
