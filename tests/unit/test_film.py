"""The animated picture of the program at work: it shows what a terminal shows, and it is inert."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import film
from scripts.film import Film, check, picture

RECORDING = Path(__file__).parents[2] / "screenshots" / "recording.svg"
INERT = {"svg", "style", "rect", "defs", "g", "text", "use"}
"""Elements that run nothing."""


def filmed(*pieces: str, seconds: float = 1.0) -> Film:
    """Return a film with a frame after each of these pieces."""
    found = Film()
    for piece in pieces:
        found.feed(piece.encode())
        found.hold(seconds)
    return found


def elements(svg: str) -> list[ElementTree.Element]:
    """Return all elements. Fail if an element could run or fetch something."""
    found = list(ElementTree.fromstring(svg).iter())
    assert {each.tag.removeprefix("{http://www.w3.org/2000/svg}") for each in found} <= INERT
    for each in found:
        for name, value in each.attrib.items():
            assert not name.startswith("on")
            assert "href" not in name or value.startswith("#")
        assert not re.search("url|import|http", each.text or "") or each.tag.endswith("text")
    return found


def shown(svg: str) -> str:
    """Return all letters of the picture."""
    return "\n".join(each.text or "" for each in elements(svg) if each.tag.endswith("text"))


def test_text_of_a_program_stays_text() -> None:
    hostile = "</text><script>alert(1)</script> & <!-- ]]>"
    assert hostile in shown(picture(filmed(hostile).frames))


def test_looks_are_those_of_the_terminal() -> None:
    (frame,) = filmed("\x1b[?25l\x1b[1;31mfailed\x1b[0m \x1b[38;2;1;2;3;48;2;4;5;6mtinted").frames
    failed, tinted = frame.rows[0][0], frame.rows[0][-1]
    assert (failed.text, failed.colour, failed.style) == ("failed", film.COLOURS["red"], "b")
    assert (tinted.text, tinted.column) == ("tinted", 7)
    assert (tinted.colour, tinted.background) == ("#010203", "#040506")


def test_a_frame_lasts_until_the_terminal_changes_and_the_film_repeats() -> None:
    found = filmed("one", "", " two", seconds=1.5)
    assert [frame.seconds for frame in found.frames] == [3.0, 1.5]
    svg = picture(found.frames)
    assert "66.667%{transform:translateX(-" in svg
    assert "play 4.5s steps(1,end) infinite" in svg


def test_a_line_that_stays_is_drawn_once() -> None:
    svg = picture(filmed("\x1b[?25lthe same\r\n", "first\r\n", "second\r\n").frames)
    assert svg.count(">the same<") == 1
    assert svg.count('<use href="#r0"') == 3


def test_sequences_about_keys_leave_no_letters() -> None:
    assert filmed("\x1b[>1u\x1b[?2026hplain\x1b[<u").text().split() == ["plain"]


def test_a_film_that_shows_a_word_of_this_machine_is_refused() -> None:
    found = filmed("on build-7.example").frames
    check(found, "uild", "", "root")
    with pytest.raises(ValueError, match="build-7"):
        check(found, "build-7")


def test_the_recording_is_inert_small_and_short() -> None:
    svg = RECORDING.read_text()
    text = shown(svg)
    for step in ("dcron add", "dcron list", "all tasks, live", "the fleet"):
        assert step in text
    assert len(svg) < 600_000
    (seconds,) = re.findall(r"play ([\d.]+)s", svg)
    assert 20 <= float(seconds) <= 40
    assert not re.search(r"/home/|/root\b|password|secret", text)
