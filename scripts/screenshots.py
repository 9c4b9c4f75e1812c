"""Make the pictures of the documentation (`make screenshots`) from the real program with three real agents.

Textual and Rich draw what a terminal would show as SVG. It names fonts that readers have, and fetches none.
"""

import asyncio
import re
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.text import Text

from dcron.cli.commands.demo import running_agents, url_in
from dcron.database import Database
from dcron.services.crontab import Crontab
from dcron.tui.app import DcronApp
from dcron.tui.settings import TuiSettings
from tests.support import views
from tests.support.forms import fill
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
    "thumbnails": "echo 214 pictures; sleep 2",
    "mail": "cat >/dev/null",
}
"""What stands in for the shop's programs while the pictures are taken."""
FONTS = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
"""Fonts with a fixed width that systems bring."""


async def _schedule(screen: Screen) -> None:
    """The editor, where a schedule is typed that the clock change meets."""
    await views.editor(screen, "billing-close")
    await fill(screen, schedule="30 2 28 * *")
    await screen.shows("does not exist")


SHOTS: dict[str, tuple[tuple[int, int], Callable[[Screen], Awaitable[None]]]] = {
    "tasks": ((132, 28), views.detail),
    "timeline": ((132, 24), views.timeline),
    "log": ((110, 28), views.log),
    "editor": ((140, 40), _schedule),
    "runs": ((110, 24), views.runs),
    "nodes": ((120, 26), views.nodes),
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
    with tempfile.TemporaryDirectory(prefix="dcron-pictures-") as name:
        directory = Path(name)
        programs = Path(tempfile.gettempdir()) / "shop"  # a picture shows this path
        _write_programs(programs)
        _seed(directory, programs)
        with running_agents(directory, NODES):
            asyncio.run(_screens(url_in(directory)))
            for picture, command_lines in COMMANDS.items():
                _save(picture, _printed(url_in(directory), command_lines))


def _write_programs(programs: Path) -> None:
    programs.mkdir(exist_ok=True)
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)


def _seed(directory: Path, programs: Path) -> None:
    stage = Stage(url_in(directory))
    stage.now = datetime.now(UTC)
    tasks = seed(stage, env={"PATH": f"{programs}:/usr/bin:/bin"})
    for name in ("import-orders", "sync-mirror", "disk-usage", "thumbnails"):
        stage.crontab.run(tasks[name])
    stage.database.close()


async def _screens(url: str) -> None:
    for picture, (size, go_there) in SHOTS.items():
        app = DcronApp(SETTINGS, lambda: Crontab(Database(url), "ann@desk"), lambda: HERE)
        async with app.run_test(size=size, notifications=True) as pilot:
            screen = Screen(app, pilot)
            await screen.until(lambda app=app: app.counts and app.counts.activity.running, 60)
            await go_there(screen)
            await asyncio.sleep(1.5)  # what comes later: counts, details, more output
            _save(picture, app.export_screenshot(title=f"dcron tui: {picture}"))


def _printed(url: str, command_lines: list[list[str]]) -> str:
    """What these command lines print on a terminal."""
    console = Console(record=True, width=100, file=StringIO(), force_terminal=True)
    for words in command_lines:
        with terminal(*words, size=(40, 100), DCRON_DB=url, TZ=str(HERE)) as screen:
            screen.ends()
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        console.print(Text(f"$ dcron {shown}", "bold"))
        console.print(Text.from_ansi(screen.bytes.decode().replace("\r\n", "\n")))
    return console.export_svg(title="dcron")


def _save(name: str, svg: str) -> None:
    """Write the picture, without the fonts that it would fetch."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: [^;]*Fira Code[^;]*;", f"font-family: {FONTS};", svg)
    svg = "\n".join(line.rstrip() for line in svg.split("\n"))
    (PICTURES / f"{name}.svg").write_text(svg)
    print(f"screenshots/{name}.svg")


if __name__ == "__main__":
    main()
