"""Logs as large as they are kept: many lines, one line, and output that grows faster than it can be read."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dcron.store.runs.output import HEAD_BYTES, TAIL_BYTES
from tests.support.log_viewer import Runs, viewing

KEPT = HEAD_BYTES + TAIL_BYTES
CHUNK = 64 * 1024
LONGEST_PAUSE = 3.0
"""Seconds for which the screen may not answer, on a busy machine."""


def say_all(runs: Runs, run_id: int, data: bytes) -> None:
    """Add output in chunks as large as an agent makes them."""
    for at in range(0, len(data), CHUNK):
        runs.say(run_id, data[at : at + CHUNK])


@asynccontextmanager
async def answering() -> AsyncIterator[None]:
    """Fail if the screen does nothing for too long inside the block."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    yield
    watching.cancel()
    assert longest < LONGEST_PAUSE


@pytest.mark.slow
async def test_ten_mebibytes_of_one_byte_lines(sqlite_runs: Runs) -> None:
    count = KEPT // 2
    data = bytearray(b"a\n" * count)
    for at in (5, 3_000_000, count - 1):
        data[2 * at] = ord("b")
    run_id = sqlite_runs.begin()
    say_all(sqlite_runs, run_id, bytes(data))
    sqlite_runs.end(run_id)
    async with viewing(sqlite_runs.log, run_id) as viewer, answering():
        await viewer.sees(f"{count} o b", "out 5,242,880 lines")
        await viewer.press("g", sees="   1 o a")
        await viewer.type("/", "b")
        await viewer.sees("      6 o b", "/b: 3 lines")
        await viewer.press("n", sees="3000001 o b")
        await viewer.type("&", "b")
        await viewer.sees("&b: 3 lines", "6 o b", "3000001 o b", "5242880 o b")
        await viewer.type("&", "a")
        await viewer.sees("&a: 5,242,877 lines")


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"needle\n", "\N{LATIN SMALL LETTER E WITH ACUTE}needle".encode()])
async def test_one_line_of_ten_mebibytes(sqlite_runs: Runs, end: bytes) -> None:
    run_id = sqlite_runs.begin()
    say_all(sqlite_runs, run_id, b"first\n" + b"x" * (KEPT - 6 - len(end)) + end)
    sqlite_runs.end(run_id)
    async with viewing(sqlite_runs.log, run_id) as viewer, answering():
        await viewer.sees("1 o first", "2 o xxx", "out 2 lines")
        await viewer.type("/", "needle")
        await viewer.sees("/needle: 1 line")
        assert viewer.lines.marked == 1
        await viewer.press("w", "G", sees="| opens pager")
        line = viewer.lines.line(1)
        assert line
        assert line.text.endswith("x... +10.5 MB, | opens pager")
        await viewer.type("&", "first")
        await viewer.sees("&first: 1 line", "1 o first")


@pytest.mark.slow
async def test_a_search_counts_what_comes_and_forgets_what_is_dropped(sqlite_runs: Runs) -> None:
    """The output grows by 1 MiB a second, beyond what is kept."""
    run_id, lines = sqlite_runs.begin(), 2048
    block = b"".join(b"%-31s\n" % (b"needle" if at % 512 == 0 else b"hay") for at in range(lines))
    assert len(block) == CHUNK
    say_all(sqlite_runs, run_id, block * (KEPT // CHUNK - 8))
    async with viewing(sqlite_runs.log, run_id, (120, 24)) as viewer, answering():
        await viewer.sees("[FOLLOW]", "o hay")
        await viewer.type("/", "needle")
        await viewer.sees("/needle: 608 lines")
        for _ in range(12):
            say_all(sqlite_runs, run_id, block * 4)
            await asyncio.sleep(0.25)
        await viewer.sees("/needle: 640 lines", "out 327,680 lines")
        await viewer.press("g")
        viewer.lines.mark(None)
        await viewer.press("n")
        await viewer.until(lambda: viewer.lines.marked == 0)
        await viewer.press("G", sees="327681 o hay")
        await viewer.type("&", "needle")
        await viewer.sees("&needle: 640 lines")
        await viewer.press("G")
        row = viewer.lines.line(639)
        assert row
        assert row.number == 327_680 + 1 - 512
