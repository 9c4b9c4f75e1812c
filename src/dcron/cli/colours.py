"""Colour texts by their kind, on terminals that show colours."""

import os
import sys
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


_CODES = {
    Title: 1,
    Past: 2,
    Struck: 9,
    AlarmCell: 31,
    GoodCell: 32,
    Notable: 33,
    ActiveCell: 36,
}
"""The codes of ECMA-48 for bold, faint, struck through, red, green, yellow and cyan."""


def has_colour(stream: TextIO | None = None) -> bool:
    """Return whether stdout, or this stream, is a terminal that shows colours (no-color.org)."""
    is_terminal = (stream or sys.stdout).isatty()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def coloured(text: str, original: str, stream: TextIO | None = None) -> str:
    """Return the text in the colour of the class of `original`.

    `text` is `original` made safe for terminals, which has lost that class. `stream` is stdout if not given.
    """
    code = next((code for kind, code in _CODES.items() if isinstance(original, kind)), None)
    return f"\x1b[{code}m{text}\x1b[0m" if code and has_colour(stream) else text
