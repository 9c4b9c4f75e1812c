"""Make foreign text safe to print: names, commands, output, host names, errors.

A terminal executes escape sequences. The result of `safe` has only visible characters. docs/security.md lists
what replaces which characters.
"""

import re
import unicodedata

NAME_CELLS = 200
LINE_CELLS = 4096
TAB = 8
LEAST_MIDDLE = 7
"""Least cells in which the beginning and the end of a text are of use."""

# Every repetition is possessive: no input makes these patterns go back, so the time is linear.
_SEQUENCE = re.compile(
    "\x1b(?:"
    r"[\]PX^_][^\x07\x1b\x9c\n\r]*+(?:\x07|\x1b\\|\x9c)?"  # OSC DCS SOS PM APC; the line ends an open one
    r"|\[[0-?]*+[ -/]*+[@-~]?"  # CSI
    r"|[ -/]*+[0-~]"  # two bytes, and those with intermediates
    ")"
)
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_UNSEEN = re.compile(
    "["
    "\x80-\x9f"  # C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"  # zero width, fillers, direction
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"  # line separators, bidi controls
    "\ud800-\udfff"  # half a surrogate pair: what stood there was not UTF-8
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # formats, tags
    "]"
)
_VARIATION = re.compile("[\ufe00-\ufe0f]")
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3,}")
"""More than two marks on one letter cover the lines above and below."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def safe(text: str | bytes, limit: int | None = None) -> str:
    """Return the text on one line, safe to print, and no wider than `limit` cells.

    Escape sequences are removed. Other control and invisible characters become visible ones.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="replace")
    if not text.isascii() or not text.isprintable():
        text = _inert(text)
    return text if limit is None else shorten(text, limit)


def safe_line(line: str | bytes, limit: int | None = LINE_CELLS) -> str:
    """Return a line of output as a terminal shows it in the end: after carriage returns, the last part."""
    if isinstance(line, bytes):
        line = line.decode("utf-8", errors="replace")
    shown = line.rstrip("\r\n").rpartition("\r")[2].expandtabs(TAB)
    text = safe(shown)
    if limit is None or (len(text) <= limit and cells(text) <= limit):
        return text
    kept = _fitting(text, limit)
    return f"{kept} … {len(text) - len(kept):,} more characters"


def safe_lines(text: str) -> str:
    """Return several lines, each safe to print; line ends are kept."""
    return "\n".join(safe(line) for line in text.split("\n"))


def safe_characters(text: str) -> str:
    """Return the text with each unsafe character replaced by one visible character, for an editor."""
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROL.sub(_picture, text.replace("\t", "\N{SYMBOL FOR HORIZONTAL TABULATION}"))
    text = _UNSEEN.sub(REPLACEMENT, _VARIATION.sub(REPLACEMENT, text))
    return _MARKS.sub(lambda marks: marks[0][:2] + REPLACEMENT * (len(marks[0]) - 2), text)


def shorten(text: str, limit: int) -> str:
    """Return safe text in at most `limit` cells, with an ellipsis if it is cut."""
    if len(text) <= limit // 2 or cells(text) <= limit:
        return text
    return _fitting(text, limit - 1) + "…" if limit > 0 else ""


def shorten_middle(text: str, limit: int) -> str:
    """Return safe text in at most `limit` cells, its middle cut out: the ends of names differ most."""
    if len(text) <= limit // 2 or cells(text) <= limit:
        return text
    if limit < LEAST_MIDDLE:
        return shorten(text, limit)
    tail = limit // 2
    return f"{_fitting(text, limit - 1 - tail)}…{_fitting(text[::-1], tail)[::-1]}"


def cells(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _inert(text: str) -> str:
    text = _SEQUENCE.sub("", text.expandtabs(1) if "\t" in text else text)
    text = _CONTROL.sub(_picture, text)
    if text.isascii():
        return text
    text = _UNSEEN.sub(REPLACEMENT, _VARIATION.sub("", text))
    return _MARKS.sub(lambda marks: marks[0][:2], text)


def _picture(match: re.Match[str]) -> str:
    return "␡" if match[0] == "\x7f" else chr(0x2400 + ord(match[0]))


def _fitting(text: str, limit: int) -> str:
    if text.isascii():
        return text[:limit]
    taken = 0
    for position, character in enumerate(text):
        taken += _width(character)
        if taken > limit:
            return text[:position]
    return text


def _width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 0 if unicodedata.category(character) in ("Mn", "Me") else 1
