"""Make the pictures of the documentation (`make screenshots`) from the real program with three real agents.

Textual and Rich draw what a terminal would show as SVG. It names fonts that readers have, and fetches none.
The picture of a lost database is of Postgres, whose connections can be cut.
"""

import asyncio
import random
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from sqlalchemy import update

from dcron.cli.commands.demo import running_agents, url_in
from dcron.database import open_database
from dcron.schema.tables import nodes
from dcron.services.crontab import Crontab
from dcron.services.fleet import Fleet
from dcron.tui.app import DcronApp
from dcron.tui.dialogs import modals
from dcron.tui.look.settings import TuiSettings
from scripts.film import BACKGROUND, COLOURS, FONTS
from tests.support import views
from tests.support.databases import PostgresServer, new_database
from tests.support.forms import fill
from tests.support.proxy import Proxy
from tests.support.shop import NODES, seed
from tests.support.stage import Stage
from tests.support.terminal import terminal
from tests.support.tui import Screen

PICTURES = Path(__file__).parent.parent / "screenshots"
SETTINGS = TuiSettings("sqlite:////srv/cron/dcron.db", unicode=True)
HERE = ZoneInfo("Europe/Berlin")
PROGRAMS = {
    "import-orders": 'i=0; while [ $i -lt 9000 ]; do i=$((i+50)); echo "imported order $i of 9000";'
    ' [ $((i % 450)) = 0 ] && echo "warning: order $i has no address" >&2; sleep 0.5; done',
    "rsync": "echo 'rsync: connection to mirror.example refused' >&2; exit 10",
    "curl": "echo 1402 prices",
    "thumbnails": "echo 214 pictures; sleep 60",
    "logrotate": "sleep 60",
    "mail": "cat >/dev/null",
}
"""What stands in for the shop's programs while the pictures are taken."""


async def _schedule(screen: Screen) -> None:
    """The editor, where a schedule is typed that the clock change meets."""
    await views.editor(screen, "billing-close")
    await fill(screen, schedule="30 2 28 * *")
    await screen.shows("does not exist")


async def _broken(screen: Screen) -> None:
    """The tasks, and the details of one that fails."""
    await views.go(screen, "sync-mirror")
    await screen.shows("has been failing")
    await screen.shows("every hour")


async def _fleet(screen: Screen) -> None:
    """The nodes, and the figures of the whole fleet."""
    await views.nodes(screen)
    await screen.shows("in the next hour")


async def _conflict(url: str, screen: Screen) -> None:
    """The dialog after two people have changed a task."""
    await views.editor(screen, "backup-db")
    await fill(screen, tries="3", timeout="30m")
    other = Crontab(open_database(url), "bob@web-1")
    other.edit(other.get("backup-db"), {"schedule": "0 3 * * *", "timeout": 3600.0})
    other.database.close()
    await screen.press("ctrl+s")
    await screen.shows("tries: 1 -> 3")
    await asyncio.sleep(2 * modals.PATIENCE)  # the dialog ignores keys at first
    await screen.press("enter")
    await screen.shows("another person changed it first")


SHOTS: dict[str, tuple[tuple[int, int], Callable[[Screen], Awaitable[None]]]] = {
    "tasks": ((132, 28), _broken),
    "timeline": ((132, 24), views.timeline),
    "log": ((110, 28), views.log),
    "editor": ((140, 36), _schedule),
    "runs": ((110, 24), views.runs),
    "nodes": ((120, 18), _fleet),
    "dead": ((110, 14), views.dead),
}
COMMANDS = {
    "preview": [
        ["preview", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-26", "--count", "4"],
    ],
    "why": [["why", "sync-mirror"], ["why", "reindex-search"], ["why", "import-orders"]],
}


def main() -> None:
    """Take all pictures anew."""
    PICTURES.mkdir(exist_ok=True)
    with running_shop() as url:
        asyncio.run(_screens(url))
        for picture, command_lines in COMMANDS.items():
            _save(picture, _printed(url, command_lines))
    asyncio.run(_lost_database())


@contextmanager
def running_shop() -> Iterator[str]:
    """Run the shop's tasks on three agents, each on a host of its own; yield the URL of the crontab."""
    with tempfile.TemporaryDirectory(prefix="shop-") as name:
        url = url_in(Path(name))
        programs = Path(tempfile.gettempdir()) / "shop"  # a picture shows this path
        _write_programs(programs)
        _seed(url, PATH=f"{programs}:/usr/bin:/bin")
        with running_agents(Path(name), NODES):
            _name_hosts(url)
            yield url


def _write_programs(programs: Path) -> None:
    programs.mkdir(exist_ok=True)
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)


def _name_hosts(url: str) -> None:
    """Give each node a host of its own, once all have joined: they share this machine."""
    database = open_database(url)
    while len(Crontab(database, "ann@desk").nodes()) < len(NODES):
        time.sleep(0.2)
    with database.write() as connection:
        connection.execute(update(nodes).values(host=nodes.c.name))
    database.close()


def _register(url: str) -> None:
    """Let the nodes join without agents."""
    stage = Stage(url)
    stage.now = datetime.now(UTC)
    for name in NODES:
        stage.node(name, lease=600)
    stage.database.close()


def _seed(url: str, **env: str) -> None:
    stage = Stage(url)
    stage.now = datetime.now(UTC)
    tasks = seed(stage, env=env)
    for name in ("import-orders", "sync-mirror", "disk-usage", "thumbnails", "log-rotate"):
        stage.crontab.run(tasks[name])
    Fleet(stage.crontab).set_queue("imports", 2)
    stage.database.close()


async def _screens(url: str) -> None:
    conflict = ((110, 32), partial(_conflict, url))
    for picture, (size, go_there) in (SHOTS | {"conflict": conflict}).items():
        async with _screen(url, SETTINGS, size) as screen:
            await screen.shows(" running ")
            await go_there(screen)
            await asyncio.sleep(1.5)  # what comes later: counts, details, more output
            _save(picture, screen.app.export_screenshot(title=f"dcron tui: {picture}"))


async def _lost_database() -> None:
    """Take the picture of a Postgres database whose connections are cut and refused."""
    settings = TuiSettings("postgresql://cron@db.example.org/cron", unicode=True)
    server = PostgresServer(durable=False)
    try:
        with new_database(server.url, Path()) as url, Proxy(server.socket, random.Random(0)) as proxy:
            _seed(url)
            _register(url)
            async with _screen(proxy.url(url), settings, (110, 24)) as screen:
                await views.tasks(screen)
                proxy.refusing = True
                proxy.cut()
                await screen.shows("lost")
                await asyncio.sleep(4)
                _save("lost", screen.app.export_screenshot(title="dcron tui: lost"))
    finally:
        server.close()


@asynccontextmanager
async def _screen(url: str, settings: TuiSettings, size: tuple[int, int]) -> AsyncIterator[Screen]:
    app = DcronApp(settings, lambda: Crontab(open_database(url), "ann@desk"), lambda: HERE)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Screen(app, pilot)


def _printed(url: str, command_lines: list[list[str]]) -> str:
    """What these command lines print on a terminal."""
    console = Console(record=True, width=100, file=StringIO(), force_terminal=True)
    for words in command_lines:
        with terminal(*words, size=(40, 100), DCRON_DB=url, TZ=str(HERE)) as screen:
            screen.ends()
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        console.print(Text(f"$ dcron {shown}", "bold"))
        console.print(Text.from_ansi(screen.bytes.decode().replace("\r\n", "\n")))
    plain = [
        _rgb(COLOURS[name]) for name in ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
    ]
    theme = TerminalTheme(_rgb(BACKGROUND), _rgb(COLOURS["default"]), plain)
    return console.export_svg(title="dcron", theme=theme)


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _save(name: str, svg: str) -> None:
    """Write the picture, without the fonts that it would fetch."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*Fira Code[^;]*;", f"font-family: {FONTS};", svg)
    svg = "\n".join(line.rstrip() for line in svg.split("\n"))
    (PICTURES / f"{name}.svg").write_text(svg)
    print(f"screenshots/{name}.svg")


if __name__ == "__main__":
    main()
