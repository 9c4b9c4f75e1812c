"""Hostile output does nothing, and a database that hangs or goes away does not block the screen."""

import time
import unicodedata

import psycopg
import pytest
from sqlalchemy.engine import make_url

from dcron.tui.log.lines import OUT, RawLine, log_line
from tests.support.log_viewer import WRITTEN, Runs, Viewer, viewing

HOSTILE: list[str | bytes] = [
    b"\x1b]52;c;cm0gLXJm\x07clipboard",
    b"\x1b]52;c;cm0gLXJm\x1b\\clipboard",
    b"\x1b]0;title\x07\x1b]2;never ends",
    b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b[c\x1b[6n\x1bP$qm\x1b\\queries\x1b[>c",
    b"\x1b[2J\x1b[?1049l\x1bc\x1b[1;1Hcleared",
    b"\xc2\x9b31mC1\xc2\x9d52;c;cm0=\xc2\x9c \x9b2J",
    b"[red]markup[/red] [/nope] [@click=app.exit]click[/] [link=x]",
    "\u202eevil\u2066 zero\u200bwidth \u2028line \u0085next tag\U000e0041".encode(),
    b"surrogate \xed\xa0\x80 half \xff\xfe utf-8",
    b"bell\x07 back\x08 nul\x00 del\x7f vt\x0b ff\x0c so\x0e",
    b"\x1b[31;1;5;8mblink\x1b[38;2;999;1;1m\x1b[38;5m\x1b[48;5;300m\x1b[999999999999m x",
    b"\x1b]0;t\x1b[31msgr in osc\x07 \x1b[3\x1b[31m1m",
    "Z" + "\u0335" * 100,
    b"\x1b" * 500 + b"\x1b[" * 500 + b"\x9d" * 500,
    b"y" * 1_000_000 + b"\x1b]52;c;AAAA\x07",
    "世界\U0001f469\u200d\U0001f467 wide".encode() * 50,
]
CORPUS = [line.encode() if isinstance(line, str) else line for line in HOSTILE]
FORBIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def harmful(viewer: Viewer) -> list[str]:
    """What is on the screen and should never be there."""
    strips = viewer.screen._compositor.render_strips()
    assert all(strip.cell_length == viewer.app.size.width for strip in strips)
    segments = [segment for strip in strips for segment in strip]
    assert all(not (segment.style and (segment.style.link or segment.style.blink)) for segment in segments)
    assert all(segment.control is None for segment in segments)
    return [
        segment.text
        for segment in segments
        for character in segment.text
        if unicodedata.category(character) in FORBIDDEN
    ]


@pytest.mark.slow
async def test_nothing_a_command_prints_reaches_the_terminal_but_as_text(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(*(("err" if at % 2 else "out", line + b"\n") for at, line in enumerate(CORPUS)))
    async with viewing(sqlite_runs.log, run_id, (100, 40)) as viewer:
        await viewer.sees("17 o 世界", "clipboard", "yyyy")
        for key in ("t", "c", "w", "g", "G", "w", "c", "e", "e"):
            await viewer.press(key)
            await viewer.pilot.pause(0.05)
            assert not harmful(viewer)
        await viewer.type("/", "[red]")
        await viewer.sees("/[red]: 1 line")
        await viewer.type("&", "[/nope]")
        await viewer.sees("&[/nope]: 1 line", "[@click=app.exit]click[/]")
        await viewer.pilot.click("LogView", offset=(40, 0))
        await viewer.press("y")
        assert not harmful(viewer)
        assert viewer.app.is_running


@pytest.mark.parametrize("colours", [False, True])
@pytest.mark.parametrize("data", CORPUS, ids=range(len(CORPUS)))
def test_a_line_is_inert_and_not_too_wide(data: bytes, colours: bool) -> None:
    line = log_line(RawLine(OUT, WRITTEN, data[:65536], max(0, len(data) - 65536)), 0, colours=colours)
    assert not [letter for letter in line.text if unicodedata.category(letter) in FORBIDDEN]
    assert len(line.text) < 4_200
    assert all(0 <= begin <= end <= len(line.text) for begin, end, _ in line.styles)
    if len(data) == 1_000_012:
        assert line.text.endswith("... +995.9 kB, | opens pager")


def test_lines_of_a_megabyte_of_trouble_are_made_in_no_time() -> None:
    for piece in (b"\x1b[31m", b"\x1b]", b"\x9b", b"\t", b"\r", b"x\x1b[m"):
        begun = time.process_time()
        log_line(RawLine(OUT, WRITTEN, piece * (65536 // len(piece)), 10_000_000), 0, colours=True)
        assert time.process_time() - begun < 20.0


async def test_a_paste_into_the_search_is_made_inert(sqlite_runs: Runs) -> None:
    from textual.events import Paste

    async with viewing(sqlite_runs.log, sqlite_runs.done(b"x\n")) as viewer:
        await viewer.sees("o x")
        await viewer.press("/")
        viewer.app.screen.focused.post_message(Paste("\x1b[2Jpasted\u202e"))  # type: ignore[union-attr]
        await viewer.sees("pasted")
        assert not harmful(viewer)
        viewer.app.screen.focused.post_message(Paste("y" * 300))  # type: ignore[union-attr]
        await viewer.until(lambda: len(viewer.screen.prompt.entry.value) == 200)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_leaving_does_not_wait_for_a_query_that_hangs(runs: Runs, database_url: str) -> None:
    run_id = runs.done(b"x\n")
    with psycopg.connect(database_url.replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE dcron.output IN ACCESS EXCLUSIVE MODE")
        async with viewing(runs.log, run_id) as viewer:
            await viewer.sees("~ opening")
            await viewer.press("e", "[", "G", "q")
            await viewer.until(lambda: viewer.app.screen is not viewer.screen)
            assert viewer.screen.thread.thread.is_alive()
            other.rollback()


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_a_lost_database_leaves_what_was_read(
    runs: Runs, database_url: str, postgres_server: str
) -> None:
    run_id = runs.begin()
    runs.say(run_id, b"before\n")
    name = make_url(database_url).database
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        async with viewing(runs.log, run_id) as viewer:
            await viewer.sees("o before")
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            await viewer.sees("x lost", "retry", "as of 12:00:00", "o before")
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            runs.say(run_id, b"after\n")
            await viewer.press("ctrl+r", sees="o after")
            await viewer.until(lambda: "x lost" not in viewer.hints)
