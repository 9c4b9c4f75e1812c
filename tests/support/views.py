"""Ways to the views, panels and dialogs of a seeded crontab."""

from dcron.tui.forms.form import Form
from tests.support.tui import Screen


async def tasks(screen: Screen) -> None:
    """Show the tasks."""
    await screen.shows("import-orders")
    await screen.shows_not(" ... ")


async def detail(screen: Screen) -> None:
    """Show the tasks, and the details of one that runs."""
    await go(screen, "import-orders")
    await screen.shows("The orders of the market places")
    await screen.shows("every 5 minutes")


async def runs(screen: Screen) -> None:
    """Show the runs."""
    await screen.press("2", shows="result")
    await screen.shows("exit 2")


async def timeline(screen: Screen) -> None:
    """Show the next 24 hours."""
    await screen.press("3", shows="busiest minute")


async def nodes(screen: Screen) -> None:
    """Show the nodes."""
    await screen.press("4", shows="db-1")


async def dead(screen: Screen) -> None:
    """Show the dead letters."""
    await screen.press("5", shows="exit 2")


async def log(screen: Screen) -> None:
    """Show the log of the active run."""
    await go(screen, "import-orders")
    await screen.press("l", shows="has no address")
    await screen.shows("FOLLOW")


async def editor(screen: Screen, name: str = "backup-db") -> None:
    """Show a task in its form, with the preview of its schedule."""
    await go(screen, name)
    await screen.press("e")
    await screen.until(lambda: isinstance(screen.app.screen, Form))
    await screen.shows("00Z  in ")


async def delete(screen: Screen) -> None:
    """Show the question before a task is deleted."""
    await go(screen, "vacuum")
    await screen.press("D", shows="delete vacuum?")


async def filtered(screen: Screen) -> None:
    """Show the tasks that failed."""
    await screen.press("slash")
    await screen.until(lambda: screen.app.screen.query("Prompt"))
    await screen.enter("failed", shows="filter: failed")
    await screen.shows_not("vacuum")


async def history(screen: Screen) -> None:
    """Show the history of a task, with what its last change did."""
    await go(screen, "log-rotate")
    await screen.press("h", shows="-#dcron: name=log-rotate timeout=2h")


async def undo(screen: Screen) -> None:
    """Show what the undo of a change would do."""
    await history(screen)
    await screen.press("u", shows="undoes it")


async def help_(screen: Screen) -> None:
    """Show the keys."""
    await screen.press("question_mark", shows="run now")


async def go(screen: Screen, name: str) -> None:
    """Put the cursor on a task."""
    await screen.shows("vacuum")
    rows = screen.table.rows
    screen.table.move_to(next(at for at, i in enumerate(screen.table.ids) if rows[i].task.name == name))
    await screen.pilot.pause()
