"""Measure the log viewer: follow a busy command, and page through a million lines."""

import asyncio
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert
from textual.app import App

from benchmarks.servers import new_database, postgres_server
from dcron.database import Database, open_database
from dcron.model import Definition
from dcron.schema.tables import runs
from dcron.services.crontab import Crontab
from dcron.services.log import RunLog
from dcron.store.runs import output
from dcron.tui.log.screen import LogScreen
from dcron.tui.log.view import LogView
from dcron.values.lists import Chunk

RATE = 2_000
LINES = 1_000_000
CHUNK = 64 * 1024
PAGES = 300


class Host(App[None]):
    """Nothing but a log."""

    def __init__(self, screen: LogScreen) -> None:
        super().__init__()
        self._log_screen = screen

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {"row-cursor": "blue"}

    def on_mount(self) -> None:
        self.push_screen(self._log_screen)


def begin(database: Database) -> int:
    """A run that is under way."""
    crontab = Crontab(database, "bench")
    line = Definition(name="busy", schedule="@yearly", timezone="UTC", command="true")
    task, now = crontab.add(line), crontab.now()
    row = {"task_id": task.id, "task": "busy", "trigger": "manual", "state": "running", "spec": {}}
    row |= {"scheduled_for": now, "due_at": now, "claimed_at": now, "started_at": now}
    with database.write() as connection:
        made = insert(runs).values(row | {"owner": "bench-00000000"}).returning(runs.c.id)
        return int(connection.execute(made).scalar_one())


def write(database: Database, run_id: int, offset: int, data: bytes) -> None:
    """A chunk of stdout."""
    with database.write() as connection:
        output.append(connection, database, [Chunk(run_id, offset, "out", datetime.now(UTC), data)])


def print_busily(database: Database, run_id: int, stop: threading.Event) -> None:
    """RATE lines a second, brought five times a second as an agent does."""
    offset, number, step = 0, 0, RATE // 5
    while not stop.wait(0.2):
        data = b"".join(b"%07d %s\n" % (number + at, b"x" * 71) for at in range(step))
        write(database, run_id, offset, data)
        offset, number = offset + len(data), number + step


def fill(database: Database, run_id: int, lines: int) -> None:
    """So many lines of ten bytes, in chunks as an agent makes them."""
    data = b"".join(b"line%05d\n" % (number % 100_000) for number in range(lines))
    for offset in range(0, len(data), CHUNK):
        write(database, run_id, offset, data[offset : offset + CHUNK])


def measure_following(kind: str, server: str, seconds: float) -> dict[str, float]:
    """The viewer has a process of its own; this one prints."""
    with new_database(kind, server) as url:
        database, stop = open_database(url), threading.Event()
        run_id = begin(database)
        printing = threading.Thread(target=print_busily, args=(database, run_id, stop))
        printing.start()
        try:
            return _viewer("follow", url, run_id, seconds)
        finally:
            stop.set()
            printing.join()
            database.close()


def measure_paging(kind: str, server: str, lines: int) -> dict[str, float]:
    """Through a log that is all there."""
    with new_database(kind, server) as url:
        database = open_database(url)
        run_id = begin(database)
        fill(database, run_id, lines)
        database.close()
        return _viewer("page", url, run_id, lines)


def _viewer(what: str, url: str, run_id: int, number: float) -> dict[str, float]:
    module = "benchmarks.bench_log"
    command = [sys.executable, "-W", "ignore", "-m", module, what, url, str(run_id), str(number)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured: dict[str, float] = json.loads(printed)
    return measured


async def follow(log: RunLog, run_id: int, seconds: float) -> dict[str, float]:
    """The share of a core it takes to stay at the end."""
    screen = LogScreen(log, run_id)
    async with Host(screen).run_test(size=(120, 40)) as pilot:
        await pilot.pause(3)
        view = screen.query_one(LogView)
        rows, before, begun = view.rows, _cpu(), time.monotonic()
        await asyncio.sleep(seconds)
        spent, elapsed = _cpu() - before, time.monotonic() - begun
        return {"share": spent / elapsed, "rate": (view.rows - rows) / elapsed, "memory": _memory()}


async def page(log: RunLog, run_id: int, lines: int) -> dict[str, float]:
    """Opening at the end, paging down from the start, and finding the one line that is not there."""
    screen = LogScreen(log, run_id)
    empty, begun = _memory(), time.monotonic()
    async with Host(screen).run_test(size=(120, 40)) as pilot:
        view = screen.query_one(LogView)
        await _until(lambda: view.rows == lines and view.line(lines - 1))
        opened = time.monotonic() - begun
        view.action_start()
        await _until(lambda: view.line(0))
        before = _cpu()
        for _ in range(PAGES):
            view.action_page(1)
            await pilot.pause()
        paging = (_cpu() - before) / PAGES
        begun = time.monotonic()
        await pilot.press("/", *"nowhere", "enter")
        await _until(lambda: screen._seek is None)
        return {
            "opened": opened,
            "page": paging,
            "memory": _memory() - empty,
            "search": time.monotonic() - begun,
        }


async def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.005)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _memory() -> float:
    """MiB of the machine's memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def report(server: str, *, lines: int, seconds: float) -> None:
    """Print two lines for each database."""
    print(f"The log viewer, on 120 by 40; following for {seconds:g} s")
    for kind in ("sqlite", "postgres"):
        found = measure_following(kind, server, seconds)
        print(
            f"  {kind:9} following {found['rate']:5,.0f} lines a second: {found['share']:5.1%} of a core,"
            f" {found['memory']:3.0f} MiB in all"
        )
        found = measure_paging(kind, server, lines)
        print(
            f"  {kind:9} {lines:9,} lines: at the end in {found['opened'] * 1000:4.0f} ms, page down"
            f" {found['page'] * 1000:4.1f} ms CPU, searched in {found['search']:4.1f} s,"
            f" {found['memory']:3.0f} MiB more"
        )
    print()


def _serve(what: str, url: str, run_id: int, number: float) -> None:
    database = open_database(url)
    log = RunLog(Crontab(database, "bench"))
    found = follow(log, run_id, number) if what == "follow" else page(log, run_id, int(number))
    print(json.dumps(asyncio.run(found)), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        with postgres_server() as own_server:
            report(own_server, lines=LINES, seconds=10)
