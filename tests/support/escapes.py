"""Parse what is sent to a terminal; texts with hostile control sequences."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

NUMBER = "7331"
"""Stands in every sequence of the corpus that has numbers: no sequence of our own has it."""
WORD = "LEAKED"
"""Stands in every string of the corpus that a terminal would keep to itself."""
CORPUS = {
    "clipboard": f"\x1b]52;c;{WORD}\x1b\\",
    "clipboard-bel": f"\x1b]52;c;{WORD}\x07",
    "title": f"\x1b]0;{WORD}\x07\x1b]2;{WORD}\x1b\\",
    "link": f"\x1b]8;;http://{WORD}\x1b\\link\x1b]8;;\x1b\\",
    "open-string": f"\x1b]0;{WORD}",
    "queries": f"\x1b[c\x1b[>c\x1b[6n\x1b[{NUMBER}n\x1bP$q{WORD}\x1b\\\x1b[?{NUMBER}$p",
    "eight-bit": f"\x9b{NUMBER}m\x9d52;c;{WORD}\x9c\x90$q{WORD}\x9c\x9b6n",
    "clear": f"\x1b[2J\x1b[3J\x1b[{NUMBER};{NUMBER}H\x1b[{NUMBER}A",
    "leave": f"\x1b[?1049l\x1bc\x1b[!p\x1b#8\x1b(0\x1b[?{NUMBER}l",
    "colours": f"\x1b[{NUMBER}m\x1b[5;8;{NUMBER}m",
    "other-strings": f"\x1b_{WORD}\x1b\\\x1b^{WORD}\x1b\\\x1bX{WORD}\x1b\\",
    "markup": "[red][b][@click=app.quit]quit[/][link=x][/nope]",
    "direction": "\u202etxt\u202c\u2066exe\u2069\u200f",
    "unseen": "a\u200bb\u200dc\u2060d\ufeffe\u00adf\U000e0041g",
    "lines": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
    "controls": "\x07\x08\x0e\x0f\x01\x7f\r",
    "marks": "Z" + "\u0335" * 40,
}
"""What each is, and a text that a row of the database may hold."""
OUTPUT = [
    *(text.encode() for text in CORPUS.values()),
    b"half \xed\xa0\x80 a pair \xff\xfe\xc3 and \x00 \x9b" + NUMBER.encode() + b"m",
    b"y" * 1_000_000 + b"\x1b]52;c;" + WORD.encode() + b"\x07",
]
"""What a command may print besides: lines of no encoding, and one of a megabyte."""


@dataclass(frozen=True)
class Piece:
    """A part of what a terminal gets: a letter to show, or something to do."""

    kind: str
    """`text`, `control`, `csi`, `string` (OSC and its kin) or `escape`."""
    text: str


_STRINGS = "]P_^X"
_EIGHT_BIT = {"\x90": "P", "\x98": "X", "\x9b": "[", "\x9d": "]", "\x9e": "^", "\x9f": "_"}


def pieces(stream: str) -> Iterator[Piece]:
    """Read the stream as a terminal does, with 8-bit controls in force."""
    at = 0
    while at < len(stream):
        letter = stream[at]
        if letter == "\x1b" or letter in _EIGHT_BIT:
            kind, end = _sequence(stream, at)
            yield Piece(kind, stream[at:end])
            at = end
            continue
        kind = "control" if unicodedata.category(letter) == "Cc" else "text"
        yield Piece(kind, letter)
        at += 1


def _sequence(stream: str, at: int) -> tuple[str, int]:
    """What kind of sequence begins here, and where it ends."""
    introducer = _EIGHT_BIT.get(stream[at]) or stream[at + 1 : at + 2]
    body = at + (1 if stream[at] in _EIGHT_BIT else 2)
    if introducer == "[":
        match = re.compile("[0-?]*[ -/]*[@-~]?").match(stream, body)
        assert match
        return "csi", match.end()
    if introducer in _STRINGS and introducer:
        ended = re.compile("\x07|\x1b\\\\|\x9c").search(stream, body)
        return "string", ended.end() if ended else len(stream)
    match = re.compile("[ -/]*.?", re.DOTALL).match(stream, at + 1)
    assert match
    return "escape", match.end()


def shown(stream: str) -> str:
    """The letters alone."""
    return "".join(piece.text for piece in pieces(stream) if piece.kind == "text")


_OWN = re.compile(
    "\x1b\\[(?:"
    r"[0-9;:]*[mHABCDGKJ]"  # colours, the cursor, erasing
    r"|\?(?:25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2031|2048|7)[hl]"  # modes of the screen
    r"|\?(?:2026|2048)\$p"  # what the terminal can do
    r"|[<>=][0-9;]*u"  # keys in full
    ")"
)
_POINTER = "\x1b]22;default\x07"
_ONCE = ("\x1b[?1049h", "\x1b[?1049l")


def leaks(stream: str) -> list[str]:
    """What our own programs never send; each of the corpus has something of it."""
    found = [piece.text for piece in pieces(stream) if _is_foreign(piece)]
    return found + [each for each in _ONCE if stream.count(each) > 1]


def _is_foreign(piece: Piece) -> bool:
    if piece.kind == "csi":
        return NUMBER in piece.text or piece.text == "\x1b[3J" or not _OWN.fullmatch(piece.text)
    if piece.kind == "text":
        return unicodedata.category(piece.text) in ("Cf", "Cs", "Zl", "Zp") or piece.text == "\ufe0f"
    if piece.kind == "string":
        return piece.text != _POINTER
    return piece.kind != "control" or piece.text not in "\r\n"
