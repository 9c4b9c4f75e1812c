"""What passes `safe` can do nothing to a terminal, nor hide from a reader."""

import re
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcron.values.safe_text import cells, safe, safe_line, safe_lines, shorten

FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
PIECES = st.sampled_from(
    [
        *("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b\\", "\x07", "\x9b", "\x9d", "31m", "52;c;", "?1049h"),
        *("a", " ", "\n", "\r", "\t", "\u202e", "\u200b", "\ud800", "\udcff", "世", "e\u0301"),
        *("👩\u200d👧", "[red]", "[/nope]", ";", "c"),
    ]
)
HOSTILE = st.one_of(st.text(st.characters(), max_size=80), st.lists(PIECES, max_size=30).map("".join))


@given(HOSTILE)
@example("\x1b\x1b[31m")
@example("\x1b]0;x\x1b[31m")
@example("\ud83d\ude00")
def test_nothing_that_a_terminal_obeys_or_hides_gets_through(text: str) -> None:
    for shown in (safe(text), safe_line(text), safe(text, 20), *safe_lines(text).split("\n")):
        assert not FORBIDDEN.search(shown)
        assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in shown)
        shown.encode()


@given(HOSTILE)
def test_what_is_safe_stays_as_it_is(text: str) -> None:
    assert safe(safe(text)) == safe(text)
    assert safe(text, 30) == safe(safe(text, 30), 30)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_shown(data: bytes) -> None:
    assert not FORBIDDEN.search(safe(data))
    assert not FORBIDDEN.search(safe_line(data))


@given(HOSTILE, st.integers(min_value=1, max_value=40))
def test_no_text_is_wider_than_its_limit(text: str, limit: int) -> None:
    assert cells(safe(text, limit)) <= limit


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]52;c;cm0gLXJm\x07after", "after"),
        ("\x1b]52;c;cm0gLXJm\x1b\\after", "after"),
        ("\x1b]0;never ends", ""),
        ("\x1bPq#0\x1b\\x", "x"),
        ("\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\end", "end"),
        ("\x1b[c\x1b[6n\x1b[?1049h\x1bc\x1b(B", ""),
        ("\x1b[12", ""),
        ("\x1b", "␛"),
        ("a\x1b\x00b", "a␛␀b"),
        ("\x9b31m\x9d", "\ufffd31m\ufffd"),
        ("bell\x07 back\x08 del\x7f", "bell␇ back␈ del␡"),
        ("two\nlines\r\n", "two␊lines␍␊"),
        ("evil\u202etxt.exe", "evil\ufffdtxt.exe"),
        ("pay\u200bpal\ufeff", "pay\ufffdpal\ufffd"),
        ("a\u2028b\u2029c\x85d", "a\ufffdb\ufffdc\ufffdd"),
        ("\ud800x\udcff", "\ufffdx\ufffd"),
        ("tag\U000e0041", "tag\ufffd"),
        ("heart\u2764\ufe0f", "heart\u2764"),
        ("tab\tbed", "tab bed"),
        ("grüße 世界", "grüße 世界"),
        ("[red]x[/nope]", "[red]x[/nope]"),
        ("Z" + "\u0335" * 50, "Z\u0335\u0335"),
    ],
)
def test_the_table(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (" 10%\r 50%\r100%\r\n", "100%"),
        ("a\tb", "a       b"),
        (b"caf\xe9\n", "caf\ufffd"),
        ("x" * 5000, "x" * 4096 + " … 904 more characters"),
    ],
)
def test_lines_of_output(line: str | bytes, shown: str) -> None:
    assert safe_line(line) == shown


def test_lines_keep_their_ends() -> None:
    assert safe_lines("one\x1b[2J\ntwo\r") == "one\ntwo␍"


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    assert [cells(text) for text in ("abc", "世界", "e\u0301", "👩")] == [3, 4, 1, 2]
    assert shorten("世界世界", 5) == "世界…"
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["\x1b", "\x1b]", "\x1b[", "\x1b[1;", "\x1bP", "\x1b ", "\x9d", "\u0301", "世", "\r", "x"]
)
def test_long_hostile_text_takes_linear_time(piece: str) -> None:
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begun = time.process_time()
        safe(text)
        safe_line(text)
        return time.process_time() - begun

    assert seconds(400_000) < 5
