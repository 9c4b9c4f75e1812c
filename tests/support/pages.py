"""Every page, panel and dialog of the screen, and the way to it from the list of tasks."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from textual.content import Content

from dcron.services.freezes import Freezes
from dcron.tui.dialogs.modals import ConflictDialog
from dcron.tui.dialogs.shell import OutputDialog
from dcron.tui.forms.form import Form
from dcron.tui.views.tasks import NO_GROUPS, TasksPane
from tests.support import views
from tests.support.alerts import insert_alert
from tests.support.forms import fill
from tests.support.shop import open_shop
from tests.support.stage import Stage
from tests.support.tui import Screen

Way = Callable[[Screen], Awaitable[None]]
HELP = "? help"
"""The last hint of the main screen."""


@dataclass(frozen=True)
class Page:
    """A page, and what must be readable on it at every size."""

    open: Way
    essential: tuple[str, ...]
    """Texts that no size may cut."""
    rows: int = 0
    """Least rows of its table on 24 lines."""


def seed_troubled_shop(stage: Stage) -> None:
    """Fill a crontab with all that pages show: labels, a flow, alerts, a freeze, dead letters."""
    tasks = open_shop(stage)
    for number, name in enumerate(("backup-db", "cert-renew", "digest-mail", "vacuum")):
        stage.crontab.edit(tasks[name], {"labels": {"team": ("shop", "ops")[number % 2]}})
    stage.task("report-daily", "@after backup-db, import-orders", command="report --day")
    stage.task("report-mail", "@after report-daily", command="mail -s report shop@example.org")
    began = stage.now - timedelta(hours=3)
    for name in ("sync-mirror", "price-feed"):
        insert_alert(stage.database, began, tasks[name], count=4)
    Freezes(stage.crontab).freeze(
        until_at=stage.now + timedelta(hours=2), reason="the new switch is built in"
    )


def _keys(*pressed: str, shows: str) -> Way:
    """Return the way that presses these keys and waits for a text."""

    async def go_there(screen: Screen) -> None:
        await screen.press(*pressed)
        await screen.shows(shows)

    return go_there


def _on(task: str, *pressed: str, shows: str) -> Way:
    """Return the way that puts the cursor on a task before it presses the keys."""

    async def go_there(screen: Screen) -> None:
        await views.go(screen, task)
        await _keys(*pressed, shows=shows)(screen)

    return go_there


def _then(*ways: Way) -> Way:
    """Return the way that takes these, one after the other."""

    async def go_there(screen: Screen) -> None:
        for way in ways:
            await way(screen)

    return go_there


def _command(text: str, shows: str) -> Way:
    """Return the way that types a command."""

    async def go_there(screen: Screen) -> None:
        screen.app.start_command(text)
        await _keys("enter", shows=shows)(screen)

    return go_there


def _push(make: Callable[[Screen], Any], shows: str) -> Way:
    """Return the way to a dialog that no key opens on a quiet crontab."""

    async def go_there(screen: Screen) -> None:
        screen.app.push_screen(make(screen))
        await screen.shows(shows)

    return go_there


def _conflict(_: Screen) -> ConflictDialog:
    return ConflictDialog(
        "bob@desk changed backup-db 3 minutes ago",
        Content("schedule: 30 2 * * * -> 0 3 * * *"),
        "dcron pause backup-db --until 'tomorrow 09:00' --reason 'the disk is full'",
    )


async def _details(screen: Screen) -> None:
    await views.go(screen, "import-orders")
    if not screen.app.main.has_class("-wide"):
        await screen.press("p")
    await screen.shows("The orders of the market places")


async def _review(screen: Screen) -> None:
    await views.editor(screen)
    await fill(screen, schedule="45 2 * * *")
    await screen.press("ctrl+s", shows="change backup-db?")


async def _new(screen: Screen) -> None:
    await screen.press("n")
    await screen.until(lambda: isinstance(screen.app.screen, Form))
    await screen.shows("new task")


def _tab(number: int, shows: str) -> Way:
    return _on("report-daily", "enter", *["tab"] * number, shows=shows)


_NODE = _then(views.nodes, _keys("g", "j", "enter", shows="Overview"))
_BACKUP = "backup-db"

PAGES: Mapping[str, Page] = {
    "tasks": Page(views.tasks, ("import-orders", HELP), rows=14),
    "tasks-details": Page(_details, (HELP,), 4),
    "tasks-grouped": Page(_then(_keys("b", shows="group by"), _keys("1", shows="ops")), (HELP,), 14),
    "tasks-marked": Page(_keys("a", shows="16 marked"), (HELP,), 14),
    "filter": Page(_keys("slash", shows="/"), ("vacuum",), 14),
    "filtered": Page(views.filtered, ("filter: failed", HELP), 2),
    "command": Page(_keys("colon", "r", "e", shows=":re"), (":re",), 14),
    "runs": Page(views.runs, ("exit 2", HELP), rows=14),
    "timeline": Page(views.timeline, ("busiest", HELP), rows=12),
    "timeline-heat": Page(
        _then(views.timeline, _keys("m", shows="its last run failed")), (HELP, "busiest"), 12
    ),
    "timeline-jump": Page(_then(views.timeline, _keys("J", shows="show which time?")), ("Esc leaves",)),
    "nodes": Page(views.nodes, ("db-1", HELP), rows=3),
    "node": Page(_NODE, ("Overview", HELP)),
    "node-runs": Page(_then(_NODE, _keys("tab", shows="took")), (HELP,), 8),
    "dead": Page(views.dead, ("sync-mirror", HELP), rows=2),
    "dead-letters": Page(_then(views.dead, _keys("b", shows="try")), ("sync-mirror", HELP), 2),
    "alerts": Page(_keys("6", shows="failing"), ("sync-mirror", HELP), 2),
    "acknowledge": Page(_then(_keys("6", shows="failing"), _keys("A", shows="acknowledge")), ("Esc leaves",)),
    "task": Page(_on(_BACKUP, "enter", shows="at 02:30"), ("Overview", HELP)),
    "task-runs": Page(_on(_BACKUP, "enter", "tab", shows="took"), (HELP,), 8),
    "task-log": Page(_on("import-orders", "enter", "tab", "tab", shows="no address"), (HELP,)),
    "task-history": Page(_on("log-rotate", "enter", "tab", "tab", "tab", shows="timeout=2h"), (HELP,)),
    "task-dependencies": Page(_tab(4, "report-mail"), ("backup-db", HELP)),
    "history": Page(views.history, (HELP,), 3),
    "change": Page(_then(views.history, _keys("enter", shows="change ")), ()),
    "undo": Page(views.undo, ("Esc",)),
    "log": Page(views.log, ("FOLLOW",)),
    "log-search": Page(_then(views.log, _keys("slash", shows="search")), ("search",)),
    "form": Page(views.editor, ("schedule",)),
    "form-new": Page(_new, ("schedule",)),
    "review": Page(_review, ("goes on editing",)),
    "delete": Page(views.delete, ("No", "Yes")),
    "pause": Page(_on(_BACKUP, "s", shows="pause backup-db: why?"), ("Esc leaves",)),
    "payload": Page(_on(_BACKUP, "R", shows="with a payload"), ("Esc leaves",)),
    "freeze": Page(_command("freeze", "nothing starts by itself, on any node"), ("Esc leaves",)),
    "thaw": Page(_command("thaw", "thaw the crontab?"), ("No", "Yes")),
    "sort": Page(_keys("o", shows="sort by"), ("name",)),
    "columns": Page(_keys("c", shows="hide or show a column"), ("owner",)),
    "why": Page(_on("sync-mirror", "w", shows="it failed after"), ("why sync-mirror",)),
    "help": Page(views.help_, ("keys",)),
    "palette": Page(_keys("ctrl+p", "f", "r", "e", shows="freeze"), ("freeze",)),
    "conflict": Page(_push(_conflict, "changed it first"), ("leave it",)),
    "output": Page(
        _push(lambda _: OutputDialog(["preview", "30 2 * * *", "--tz", "UTC"], {}), "02:30"), ("leave",)
    ),
}
"""The pages by their names."""


async def go_home(screen: Screen) -> None:
    """Leave the page: show the list of tasks as it was at the beginning."""
    app, main = screen.app, screen.app.main
    while app.screen is not main:
        await app.pop_screen()
    app.clear_notifications()
    if main.prompt.is_open:
        await screen.press("escape")
    main.remove_class("-show-detail", "-hide-detail")
    for stack in main._stacks.values():
        while len(stack) > 1:
            stack.pop().remove()
    main.action_show_tasks("")
    pane = screen.pane
    if isinstance(pane, TasksPane) and pane.grouping.key:
        pane._group_by(NO_GROUPS)
    screen.table.marks = set()
    await screen.until(lambda: screen.pane.is_ready and main.has_keys)
