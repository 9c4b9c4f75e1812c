"""Read and write the words of `#dcron:` comments, which are quoted as for a shell, on one line."""

import re
from dataclasses import dataclass

from dcron.crontabfile.lines import BLANK
from dcron.crontabfile.problems import BadLine, shown

DIRECTIVE = re.compile(r"[ \t]*+#[ \t]*+dcron(?P<kind>[:$])")
FORGOTTEN_COLON = re.compile(r"[ \t]*+#[ \t]*+dcron[ \t]++\w++=")
TOKEN = re.compile(r"""(?:[^ \t"'\\]++|\\.|"(?:[^"\\]++|\\.)*"|'[^']*+')+""", re.DOTALL)
PIECE = re.compile(
    r""""(?P<double>(?:[^"\\]++|\\.)*)"|'(?P<single>[^']*+)'|(?P<bare>(?:[^"'\\]++|\\.)+)""", re.DOTALL
)
ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<mark>.))", re.DOTALL)
MEANING = {"\\": "\\", '"': '"', "'": "'", " ": " ", "n": "\n", "r": "\r", "t": "\t"}
KEY = re.compile(r"[^=\"'\\]++")
BARE = re.compile(r"[A-Za-z0-9_./:@%+,~-]++")
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", '"': r"\""}
TO_ESCAPE = re.compile(f'[\\t"\\\\]|{UNPRINTABLE.pattern}')


@dataclass(frozen=True)
class Word:
    """One word of a directive: `key=value`, or a `key` alone."""

    key: str
    value: str | None
    column: int
    value_column: int


def read_words(line: str, start: int) -> list[Word]:
    """Return the words of a directive line from offset `start` on. Raises BadLine."""
    words = []
    while (start := _skip_blanks(line, start)) < len(line):
        token = TOKEN.match(line, start)
        if token is None or (token.end() < len(line) and line[token.end()] not in BLANK):
            at = token.end() if token else start
            raise BadLine(at + 1, f"the {line[at]} that begins here has no end")
        words.append(_word(token[0], start + 1))
        start = token.end()
    return words


def write_word(key: str, value: str | None) -> str:
    """Return one word of a directive, with no more quotes than it needs."""
    return key if value is None else f"{key}={quote(value)}"


def quote(value: str) -> str:
    """Return a value as a directive has it: printable, without line ends."""
    if BARE.fullmatch(value):
        return value
    if not TO_ESCAPE.search(value):
        return f'"{value}"'
    if "'" not in value and "\t" not in value and not UNPRINTABLE.search(value):
        return f"'{value}'"
    return '"' + TO_ESCAPE.sub(lambda mark: NAMED.get(mark[0], f"\\u{ord(mark[0]):04x}"), value) + '"'


def _skip_blanks(line: str, start: int) -> int:
    while start < len(line) and line[start] in BLANK:
        start += 1
    return start


def _word(token: str, column: int) -> Word:
    key = KEY.match(token)
    if key is None:
        raise BadLine(column, f"{shown(token)} is not an option; they are written name=value")
    after = key.end()
    if after == len(token):
        return Word(key[0], None, column, column)
    if token[after] != "=":
        raise BadLine(column, f"{shown(token)} is not an option; they are written name=value")
    quoted = token[after + 1 : after + 2] in ('"', "'")
    value = _unquote(token[after + 1 :], column + after + 1)
    return Word(key[0], value, column, column + after + 1 + quoted)


def _unquote(text: str, column: int) -> str:
    pieces = []
    for piece in PIECE.finditer(text):
        if piece["single"] is not None:
            pieces.append(piece["single"])
        else:
            group = "bare" if piece["double"] is None else "double"
            pieces.append(_unescape(piece[group], column + piece.start(group)))
    return "".join(pieces)


def _unescape(text: str, column: int) -> str:
    def meaning(escape: re.Match[str]) -> str:
        at = column + escape.start()
        if escape["code"]:
            return _character(int(escape["code"], 16), at)
        if escape["mark"] not in MEANING:
            raise BadLine(at, f"{shown(escape[0])} means nothing; a backslash is written \\\\")
        return MEANING[escape["mark"]]

    return ESCAPE.sub(meaning, text)


def _character(code: int, column: int) -> str:
    if code == 0:
        raise BadLine(column, "a NUL character cannot be handed to any command")
    return chr(code)
