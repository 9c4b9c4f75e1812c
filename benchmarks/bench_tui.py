"""Measure the screen: first paint, memory, a page, a refresh, and an idle screen."""

import asyncio
import fcntl
import gc
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

from benchmarks.bench_idle import seed
from benchmarks.servers import new_database, postgres_server
from dcron.__main__ import NEW_OBJECTS

SIZE = (40, 120)
CHROME = b"1 Tasks"
ROWS = b"task-000"


def started(url: str, awaited: bytes, seconds: float = 30) -> float:
    """Seconds from the start of `dcron tui` on a terminal until it shows `awaited`; then it is quit."""
    began = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
        os.environ.update(TERM="xterm-256color", DCRON_DB=url)
        os.execv(sys.executable, [sys.executable, "-m", "dcron", "tui"])
    shown, took = b"", 0.0
    while time.perf_counter() - began < seconds:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
        if not took and awaited in shown:
            took = time.perf_counter() - began
            os.write(terminal, b"\x11")  # ctrl+q
    os.close(terminal)
    os.waitpid(child, 0)
    return took


def bare() -> float:
    """Seconds of a bare interpreter."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


async def costs(url: str, seconds: float) -> dict[str, float]:
    """CPU milliseconds of a page and a refresh, the share of a core of sitting there, and memory in MiB."""
    from dcron.database import open_database
    from dcron.services.crontab import Crontab
    from dcron.tui.app import DcronApp
    from dcron.tui.look.settings import TuiSettings

    app = DcronApp(TuiSettings(url), lambda: Crontab(open_database(url), "bench"), lambda: UTC)
    async with app.run_test(size=(SIZE[1], SIZE[0])):
        await _until(lambda: app.main.pane is not None and app.counts is not None)
        pane = app.main.pane
        table = pane.table  # type: ignore[union-attr]
        await _until(lambda: table.cursor_row is not None)
        await asyncio.sleep(1)
        pages = 40

        async def page() -> None:
            before = table.cursor
            app.simulate_key("pagedown")
            await _until(lambda: table.cursor != before and table.cursor_row is not None)
            await asyncio.sleep(0.05)  # until it is drawn

        page_cpu = await _cpu_of(page, pages)

        async def refresh() -> None:
            before = table.rows
            pane.refresh_data()  # type: ignore[union-attr]
            await _until(lambda: table.rows is not before)

        refresh_cpu = await _cpu_of(refresh, pages)
        before = time.process_time()
        await asyncio.sleep(seconds)
        idle = (time.process_time() - before) / seconds
    return {"page": page_cpu, "refresh": refresh_cpu, "idle": idle, "memory": _memory()}


def _memory() -> float:
    """The most this process ever had, in MiB; what its parent had does not count."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


async def _cpu_of(do: Callable[[], "object"], times: int) -> float:
    before = time.process_time()
    for _ in range(times):
        await do()  # type: ignore[misc]
    return (time.process_time() - before) / times * 1000


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def report(server: str, *, tasks: int, seconds: float, rounds: int = 5) -> None:
    """Print a line for each database."""
    print(f"The terminal interface, {tasks:,} tasks, 120 columns by 40 lines")
    bare_start = statistics.median(bare() for _ in range(rounds))
    for kind in ("sqlite", "postgres"):
        with new_database(kind, server) as url, tempfile.TemporaryDirectory() as directory:
            seed(url, tasks)
            chrome = statistics.median(started(url, CHROME) for _ in range(rounds))
            rows = statistics.median(started(url, ROWS) for _ in range(rounds))
            command = [sys.executable, "-W", "ignore", "-m", "benchmarks.bench_tui", url, str(seconds)]
            output = Path(directory) / "figures"
            with output.open("w") as file:
                subprocess.run(command, check=True, stdout=file)
            cost = json.loads(output.read_text().splitlines()[-1])
        print(
            f"  {kind:9} first paint {chrome * 1000:4.0f} ms (ratio {chrome / bare_start:.0f}),"
            f" rows {rows * 1000:.0f} ms; page {cost['page']:.1f} ms, refresh"
            f" {cost['refresh']:.1f} ms of CPU, idle {cost['idle']:.2%} of a core, {cost['memory']:.0f} MiB"
        )
    print()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        gc.set_threshold(NEW_OBJECTS)  # as `dcron tui` does
        print(json.dumps(asyncio.run(costs(sys.argv[1], float(sys.argv[2])))))
    else:
        with postgres_server() as own_server:
            report(own_server, tasks=100_000, seconds=20)
