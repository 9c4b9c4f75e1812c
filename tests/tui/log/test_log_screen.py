"""Every key of the log viewer, on both databases."""

import base64
from pathlib import Path

import pytest
from textual.events import Key

from dcron.model import RunState
from tests.support.log_viewer import Runs, viewing


def numbered(first: int, last: int) -> bytes:
    """`line 1`, `line 2` and so on."""
    return b"".join(b"line %d\n" % number for number in range(first, last))


async def test_a_finished_run_is_shown_at_its_end_with_all_that_is_known_of_it(runs: Runs) -> None:
    run_id = runs.done(numbered(1, 2001), ("err", b"oops\n"))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("2000 o line 2000", "2001 e oops")
        assert viewer.title.split("  ")[0].strip() == f"backup > run {run_id}"
        for message in ("web-1", "SUCCEEDED after 41s", "out 2,000 lines", "err 1"):
            assert message in viewer.title
        assert "FOLLOW" not in viewer.title


async def test_a_log_that_cannot_be_saved_leaves_the_path_to_correct(runs: Runs, tmp_path: Path) -> None:
    async with viewing(runs.log, runs.done(b"one\n")) as viewer:
        await viewer.sees("o one")
        await viewer.press("s")
        viewer.screen.prompt.entry.value = str(tmp_path / "none" / "x")
        await viewer.press("enter")
        await viewer.sees("not saved", "none/x")
        await viewer.until(lambda: viewer.screen.prompt.entry.has_focus)
        prompt = viewer.screen.prompt.entry
        assert prompt.value == str(tmp_path / "none" / "x")
        prompt.value = str(tmp_path / "x")
        await viewer.press("enter", sees="saved 4 bytes")
        assert (tmp_path / "x").read_text() == "one\n"


async def test_a_task_means_its_latest_run(runs: Runs) -> None:
    runs.done(b"old\n")
    runs.done(b"new\n")
    async with viewing(runs.log, "backup") as viewer:
        await viewer.sees("o new")


async def test_what_is_not_there_is_said(runs: Runs) -> None:
    async with viewing(runs.log, 4711) as viewer:
        await viewer.sees("there is no run 4711")
    async with viewing(runs.log, "backup") as viewer:
        await viewer.sees("backup has not run yet")


@pytest.mark.slow
async def test_output_of_a_live_run_appears_by_itself_and_following_can_be_left(runs: Runs) -> None:
    run_id = runs.begin()
    runs.say(run_id, numbered(1, 101))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("line 100", "RUNNING", "[FOLLOW]")
        runs.say(run_id, numbered(101, 201))
        await viewer.sees("line 200")
        await viewer.press("k", sees="[FOLLOW off - f]")
        before = viewer.shown
        runs.say(run_id, numbered(201, 513))
        await viewer.sees("[FOLLOW off: 312 new - f]")
        assert viewer.shown[:-1] == before[:-1]
        await viewer.press("f")
        await viewer.sees("line 512", "[FOLLOW]")
        await viewer.press("g")
        await viewer.sees("   1 o line 1", "FOLLOW off")
        await viewer.press("G")
        await viewer.sees("line 512", "[FOLLOW]")
        runs.end(run_id, RunState.FAILED)
        await viewer.sees("FAILED exit 2 after 41s")


async def test_a_line_that_has_not_ended_is_shown_and_grows(runs: Runs) -> None:
    run_id = runs.begin()
    runs.say(run_id, b" 10%")
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("o  10%")
        runs.say(run_id, b"\r 50%")
        await viewer.sees("o  50%")
        runs.say(run_id, b"\rdone\nnext\n")
        await viewer.sees("1 o done", "2 o next")


@pytest.mark.slow
async def test_the_keys_that_move(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(numbered(1, 5001))
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("line 5000")
        for key, top in [
            ("g", 1), ("j", 2), ("down", 3), ("k", 2), ("up", 1), ("pagedown", 22), ("ctrl+d", 33),
            ("ctrl+u", 22), ("pageup", 1), ("end", 4979), ("home", 1), ("space", 22), ("G", 4979),
            ("j", 4979),
        ]:  # fmt: skip
            await viewer.press(key)
            await viewer.sees_first(f"{top:4} o line {top}")


@pytest.mark.slow
async def test_search_goes_through_the_whole_log_and_marks_what_it_finds(runs: Runs) -> None:
    run_id = runs.done(numbered(1, 3001), b"An ERROR here\n", numbered(1, 3001), b"error again\n")
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("error again")
        await viewer.press("g")
        await viewer.type("/", "error")
        await viewer.sees("3001 o An ERROR here", "/error: 2 lines")
        await viewer.press("n", sees="6002 o error again")
        await viewer.press("N", sees="3001 o An ERROR here")
        await viewer.type("/", "ERROR")
        await viewer.sees("/ERROR: 1 line")
        row = viewer.shown.index("3001 o An ERROR here") + 1
        hit = [part for part in viewer.screen._compositor.render_strips()[row] if "ERROR" in part.text]
        assert [(part.text, bool(part.style and part.style.reverse)) for part in hit] == [("ERROR", True)]
        await viewer.press("escape")
        await viewer.until(lambda: "/ERROR" not in viewer.hints)


@pytest.mark.slow
async def test_lines_that_a_search_finds_later_are_hits_too(runs: Runs) -> None:
    run_id = runs.begin()
    runs.say(run_id, numbered(1, 50))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("line 49")
        await viewer.type("/", "needle")
        await viewer.sees("/needle: 0 lines")
        runs.say(run_id, b"a needle\n")
        await viewer.sees("/needle: 1 line")


@pytest.mark.slow
async def test_a_very_long_line_is_searched_to_its_end(runs: Runs) -> None:
    far = "needle\N{LATIN SMALL LETTER E WITH ACUTE}".encode()
    at_a_seam = b"x" * (64 * 1024 - 3) + b"seam" + b"x" * 100_000
    run_id = runs.done(b"first\n", b"x" * 500_000, b"x" * 500_000 + far + b"\n", at_a_seam + b"\nlast\n")
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("last")
        for text, number in (("needle", 2), (far.decode(), 2), ("seam", 3)):
            await viewer.type("/", text)
            await viewer.sees(f"/{text}: 1 line")
            assert viewer.lines.marked == number - 1
        await viewer.type("&", "needle")
        await viewer.sees("&needle: 1 line", "2 o xxx")


@pytest.mark.slow
async def test_a_filter_leaves_only_lines_with_the_text(runs: Runs) -> None:
    lines = [b"keep %d\n" % n if n % 100 == 0 else b"line %d\n" % n for n in range(1, 5001)]
    run_id = runs.done(b"".join(lines))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("keep 5000")
        await viewer.type("&", "keep")
        await viewer.sees("&keep: 50 lines", "4900 o keep 4900", "5000 o keep 5000")
        assert "line " not in viewer.text
        await viewer.type("/", "keep 25")
        await viewer.sees("2500 o keep 2500", "/keep 25: 1 line")
        await viewer.press("escape")
        await viewer.sees("2499 o line 2499", "2500 o keep 2500", "2501 o line 2501")


@pytest.mark.slow
async def test_stderr_alone_keeps_its_place_in_the_log(runs: Runs) -> None:
    pairs = [(("out", b"fine %d\n" % n), ("err", b"bad %d\n" % n)) for n in range(1, 61)]
    run_id = runs.done(*(each for pair in pairs for each in pair))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("bad 60")
        await viewer.press("g", "e")
        await viewer.sees("stderr only", "   2 e bad 1", "   4 e bad 2")
        assert "fine" not in viewer.text
        await viewer.press("pagedown")
        await viewer.until(lambda: viewer.shown[0] == "  44 e bad 22")
        await viewer.press("e")
        await viewer.until(lambda: viewer.shown[:2] == ["  44 e bad 22", "  45 o fine 23"])


@pytest.mark.slow
async def test_wrap_times_and_sideways(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(b"a" * 70 + b"b" * 70 + b"c" * 70 + b"\nshort\n")
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("short")
        assert "ccc" not in viewer.text
        await viewer.press(*["right"] * 20, sees="ccc")
        assert "short" not in viewer.text
        await viewer.press("w")
        await viewer.sees("1 o aaa", "ccc", "2 o short")
        await viewer.press("t", sees="1 12:00:41 o aaa")
        await viewer.press("w", "t")
        await viewer.until(lambda: "ccc" not in viewer.text)


@pytest.mark.slow
async def test_the_position_to_the_side_is_kept_while_following(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.begin()
    sqlite_runs.say(run_id, b"x" * 100 + b"MARK" + b"x" * 100 + b"\n")
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("o xxx")
        await viewer.press(*["right"] * 10, sees="MARK")
        for number in range(40):
            sqlite_runs.say(run_id, b"y" * 100 + b"%4d" % number + b"\n")
        await viewer.sees("  39", "[FOLLOW]")
        assert viewer.lines.scroll_offset.x == 80


@pytest.mark.slow
async def test_a_wrapped_log_can_be_read_to_its_last_part(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(*(b"%d" % (n % 10) * 500 + b"<%d>\n" % n for n in range(30)))
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees(" 30 o 999")
        await viewer.press("w", "G", sees="<29>")
        assert viewer.shown[-1].endswith("<29>")
        await viewer.press("g", sees="  1 o 000")
        for _ in range(12):
            await viewer.press("pagedown")
        await viewer.sees("<29>")
        await viewer.press("k")
        assert not viewer.shown[-1].endswith("<29>")


async def test_the_runs_before_and_after(runs: Runs) -> None:
    ids = [runs.done(b"run %d\n" % n) for n in range(3)]
    runs.stage.insert_run(task="backup", state="waiting")
    async with viewing(runs.log, ids[2]) as viewer:
        await viewer.sees("o run 2")
        for key, number in [("[", 1), ("[", 0), ("]", 1), ("]", 2)]:
            await viewer.press(key)
            await viewer.sees(f"o run {number}", f"run {ids[number]}")
        await viewer.press("]", sees="has no later run")
        assert "o run 2" in viewer.text


async def test_what_was_dropped_from_the_middle_is_a_line(runs: Runs) -> None:
    run_id = runs.begin()
    runs.say(run_id, b"head\n")
    runs.say(run_id, b"tail\n", skipping=28_100_000)
    runs.end(run_id)
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("1 o head", "... 28.1 MB dropped here ...", "3 o tail")
        assert "out 2 lines" in viewer.title


@pytest.mark.slow
async def test_a_log_of_which_the_middle_goes_while_it_is_read_stays_readable(runs: Runs) -> None:
    run_id = runs.begin()
    block = b"".join(b"%07d\n" % n for n in range(65_536))  # 512 KiB
    for _ in range(20):
        runs.say(run_id, block)
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("1310720 o 0065535")
        await viewer.press("g", "pagedown", sees="  22 o 0000021")
        for _ in range(3):
            runs.say(run_id, block)
        await viewer.press("G")
        await viewer.until(lambda: viewer.shown[-1].endswith("o 0065535"))
        await viewer.sees("out 1,310,720 lines")
        await viewer.type("&", "dropped")
        await viewer.sees("&dropped: 0 lines")


@pytest.mark.slow
async def test_y_copies_the_line_that_was_found_or_the_number_of_the_run(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(b"one\n\x1b[31mtwo\x1b[0m\n")
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("two")
        await viewer.press("y")
        assert viewer.app.clipboard == str(run_id)
        await viewer.type("/", "two")
        await viewer.until(lambda: viewer.lines.marked == 1)
        await viewer.press("y")
        assert viewer.app.clipboard == "two"
        await viewer.pilot.click("LogView", offset=(10, 0))
        await viewer.press("y")
        assert viewer.app.clipboard == "one"


async def test_colours_are_shown_only_when_asked_for(sqlite_runs: Runs) -> None:
    run_id = sqlite_runs.done(b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x1b\\plain\x1b[5;8m\n")
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("o red plain")

        def looks() -> list[tuple[str, str | None]]:
            strip = viewer.screen._compositor.render_strips()[1]
            return [
                (part.text, part.style.color.name if part.style and part.style.color else None)
                for part in strip
                if part.text in ("red", " plain")
            ]

        assert looks() == []
        await viewer.press("c")
        await viewer.until(looks)
        assert looks()[0] == ("red", "#cd0000") or looks()[0][0] == "red"
        await viewer.press("c")
        await viewer.until(lambda: not looks())


async def test_the_pager_gets_an_inert_log(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = base64.b64encode(b"rm -rf")
    run_id = runs.done(
        b"\x1b]52;c;" + secret + b"\x07first\n", b"x" * 100_000 + b"\n", ("err", b"\x9b31mlast")
    )
    read = tmp_path / "read"
    pager = tmp_path / "pager"
    pager.write_text(f'#!/bin/sh\nexec cat > "{read}"\n')
    pager.chmod(0o755)
    monkeypatch.setenv("PAGER", str(pager))
    async with viewing(runs.log, run_id) as viewer:
        await viewer.sees("first")
        await viewer.press("|")
        await viewer.until(read.exists)
        assert read.read_text().split("\n") == [
            f"backup, run {run_id}", "first", "x" * 100_000, "\ufffd31mlast", "",
        ]  # fmt: skip


async def test_a_pager_that_is_not_there_is_said(sqlite_runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "/nowhere/pager")
    async with viewing(sqlite_runs.log, sqlite_runs.done(b"x\n")) as viewer:
        await viewer.sees("o x")
        await viewer.press("|", sees="cannot be started")


@pytest.mark.slow
async def test_esc_takes_one_thing_away_at_a_time(sqlite_runs: Runs) -> None:
    async with viewing(sqlite_runs.log, sqlite_runs.done(b"ab\nb\n")) as viewer:
        await viewer.sees("o ab")
        await viewer.type("/", "a")
        await viewer.type("&", "b")
        await viewer.sees("&b: 2 lines", "/a: 1 line")
        await viewer.press("/", "escape", "escape")
        await viewer.until(lambda: "&b" not in viewer.hints)
        assert "/a" in viewer.hints
        await viewer.press("escape", "escape")
        await viewer.until(lambda: viewer.app.screen is not viewer.screen)


@pytest.mark.parametrize("size", [(40, 10), (20, 6), (200, 60)])
async def test_every_size_shows_the_task_and_the_end(sqlite_runs: Runs, size: tuple[int, int]) -> None:
    run_id = sqlite_runs.begin()
    sqlite_runs.say(run_id, numbered(1, 100))
    async with viewing(sqlite_runs.log, run_id, size) as viewer:
        await viewer.sees("line 99")
        assert "backup" in viewer.title or size[0] < 40
        await viewer.pilot.resize_terminal(80, 24)
        await viewer.sees("line 99", "line 80", "[FOLLOW]")


async def test_a_search_may_be_typed_in_one_go(sqlite_runs: Runs) -> None:
    """Keys that come faster than the prompt opens are text all the same."""
    run_id = sqlite_runs.done(b"w/e\nother\n")
    async with viewing(sqlite_runs.log, run_id) as viewer:
        await viewer.sees("o other")
        for key in ("slash", "w", "slash", "e"):
            letter = {"slash": "/"}.get(key, key)
            viewer.app.post_message(Key(key, letter))
        await viewer.until(lambda: viewer.screen.prompt.entry.value == "w/e")
        await viewer.press("enter", sees="/w/e: 1 line")
        assert not viewer.lines.wraps
