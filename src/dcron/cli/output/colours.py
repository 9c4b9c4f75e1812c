"""Colour texts by their kind, on terminals that show colours."""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from dcron.presentation.emphasis import Notable, Past, Struck


class AlarmCell(str):
    """A cell that is highlighted."""


class GoodCell(str):
    """A cell about a success."""


class ActiveCell(str):
    """A cell about what runs now."""


class Title(str):
    """The name of a column, or another text in bold."""


_CODES: Mapping[type[str], int] = {
    Title: 1,
    Past: 2,
    Struck: 9,
    AlarmCell: 31,
    GoodCell: 32,
    Notable: 33,
    ActiveCell: 36,
}
"""The codes of ECMA-48 for bold, faint, struck through, red, green, yellow and cyan."""
_CODES_OF_16: Mapping[type[str], int] = {
    Title: 1,
    Past: 2,
    Struck: 9,
    AlarmCell: 91,
    Notable: 35,
    ActiveCell: 1,
}
"""Codes for terminals with 16 colours, on black and on white: bright red, magenta and bold.

There, dark red is hard to read on black; green, yellow and cyan are hard to read on white.
"""


def has_colour(stream: TextIO | None = None) -> bool:
    """Return whether stdout, or this stream, is a terminal that shows colours (no-color.org)."""
    is_terminal = (stream or sys.stdout).isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _codes() -> Mapping[type[str], int]:
    """Return the codes for this terminal. Those with more colours have a palette that fits their ground."""
    has_more = "256" in os.environ.get("TERM", "") or os.environ.get("COLORTERM")
    return _CODES if has_more else _CODES_OF_16


def coloured(text: str, original: str, stream: TextIO | None = None) -> str:
    """Return the text in the colour of the class of `original`.

    `text` is `original` made safe for terminals, which has lost that class. `stream` is stdout if not given.
    """
    code = next((code for kind, code in _codes().items() if isinstance(original, kind)), None)
    return f"\x1b[{code}m{text}\x1b[0m" if code and has_colour(stream) else text
