"""A line of a log: as the command wrote it, and as it is shown. Only here it becomes inert."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from rich.style import Style

from dcron.values.safe_text import LINE_CELLS, TAB, cells, safe, safe_line, shorten

OUT, ERR, GAP = 0, 1, 2
STREAMS = ("out", "err", "gap")
LINE_BYTES = 64 * 1024
"""Most bytes of a line that are made inert to be shown."""
PIECE, OVERLAP = 64 * 1024, 4 * 1024
"""Bytes of a piece of a long line that is searched, and how many bytes of the next piece it contains."""
_SGR = re.compile("\x1b\\[([0-9;]{0,60})m")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"))


class RawLine(NamedTuple):
    """A line as the command wrote it."""

    kind: int
    at: datetime | None
    """When the line ended; None for a gap."""
    data: bytes
    more: int
    """Number of bytes that follow and were left out; for a gap, its size."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """An inert line."""

    number: int
    """Among all kept lines of the log, from 0."""
    kind: int
    at: datetime | None
    text: str
    styles: tuple[tuple[int, int, Style], ...] = ()
    """Ranges of characters with the styles that the command asked for."""


def log_line(raw: RawLine, number: int, *, colours: bool) -> LogLine:
    """Return the line, inert and no wider than LINE_CELLS; with `colours`, in the colours of the command."""
    if raw.kind == GAP:
        dropped = size(raw.more) if raw.more else "a little"
        return LogLine(number, GAP, None, f"... {dropped} dropped here ...")
    styles: tuple[tuple[int, int, Style], ...] = ()
    if colours and b"\x1b[" in raw.data:
        text, styles = _coloured(raw.data)
    else:
        text = safe_line(raw.data, None)
    if raw.more or (len(text) > LINE_CELLS // 2 and cells(text) > LINE_CELLS):
        kept = shorten(text, LINE_CELLS).removesuffix("…")
        styles = tuple((at, min(end, len(kept)), style) for at, end, style in styles if at < len(kept))
        left = raw.more + len(raw.data) - len(kept.encode())
        text = f"{kept}... +{size(max(1, left))}, | opens pager"
    return LogLine(number, raw.kind, raw.at, text, styles)


def size(count: int) -> str:
    """Return a number of bytes such as `28.1 MB`."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B" if count == 1 else f"{count} bytes"


def shown(raw: RawLine) -> Iterator[str]:
    """Yield the shown text, a long line in pieces that overlap."""
    written = b"" if raw.kind == GAP else raw.data.rstrip(b"\r").rpartition(b"\r")[2]
    for begin in range(0, len(written), PIECE):
        yield safe_line(written[begin : begin + PIECE + OVERLAP], None)


@lru_cache(maxsize=512)
def breaks(text: str, width: int) -> tuple[int, ...]:
    """Return where the parts of a line begin when it is wrapped at `width` cells."""
    if text.isascii():
        return tuple(range(0, max(1, len(text)), width))
    starts, taken = [0], 0
    for position, character in enumerate(text):
        wide = cells(character)
        if taken + wide > width and position > starts[-1]:
            starts.append(position)
            taken = 0
        taken += wide
    return tuple(starts)


def _coloured(data: bytes) -> tuple[str, tuple[tuple[int, int, Style], ...]]:
    """Return the inert text without the colour sequences, and the styles of its pieces."""
    written = data.decode("utf-8", errors="replace").rstrip("\r\n").rpartition("\r")[2]
    text, styles = "", []
    for piece, style in _pieces(written):
        column = cells(text) % TAB
        inert = safe((" " * column + piece).expandtabs(TAB)[column:])
        if inert and style:
            styles.append((len(text), len(text) + len(inert), style))
        text += inert
    return text, tuple(styles)


def _pieces(written: str) -> Iterator[tuple[str, Style | None]]:
    colours, begin = _Colours(), 0
    for match in _SGR.finditer(written):
        yield written[begin : match.start()], colours.style()
        colours.take(match[1])
        begin = match.end()
    yield written[begin:], colours.style()


class _Colours:
    """The state of a terminal's colours. Nothing blinks or hides."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.colour: str | None = None
        self.background: str | None = None
        self.bold = False

    def style(self) -> Style | None:
        if not (self.colour or self.background or self.bold):
            return None
        return _style(self.colour, self.background, self.bold)

    def take(self, parameters: str) -> None:
        codes = [int(code[:5] or 0) for code in parameters.split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48):
                self._set(code == 38, _extended(codes))
            else:
                self._simple(code)

    def _simple(self, code: int) -> None:
        if code == 0:
            self._reset()
        elif code in (1, 22):
            self.bold = code == 1
        elif code in (39, 49):
            self._set(code == 39, None)
        elif 30 <= code <= 37 or 40 <= code <= 47:
            self._set(code < 40, _COLOURS[code % 10])
        elif 90 <= code <= 97 or 100 <= code <= 107:
            self._set(code < 100, f"bright_{_COLOURS[code % 10]}")

    def _set(self, is_colour: bool, colour: str | None) -> None:
        if is_colour:
            self.colour = colour
        else:
            self.background = colour


def _extended(codes: list[int]) -> str | None:
    """Return the colour that follows 38 or 48, and remove its codes."""
    kind = codes.pop(0) if codes else 0
    taken, codes[:] = codes[: {5: 1, 2: 3}.get(kind, 0)], codes[{5: 1, 2: 3}.get(kind, 0) :]
    if kind == 5 and taken:
        return f"color({min(taken[0], 255)})"
    if kind == 2 and len(taken) == 3:
        return "rgb({},{},{})".format(*(min(part, 255) for part in taken))
    return None


@lru_cache(maxsize=1024)
def _style(colour: str | None, background: str | None, bold: bool) -> Style:
    return Style(color=colour, bgcolor=background, bold=bold or None)
