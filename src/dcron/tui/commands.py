"""The command line of the screen, `:`, with the words of the shell's; the palette has the same entries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from textual.content import Content

from dcron.errors import UsageError
from dcron.model import Node, Run, Task
from dcron.safetext import safe
from dcron.services.dashboard import Dashboard, TaskDetail
from dcron.services.name_prefix import NotExact
from dcron.tui import actions, recovering
from dcron.tui.theme import THEMES
from dcron.tui.views import VIEWS

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp


@dataclass(frozen=True)
class Command:
    """A word, what may follow it, and what it does."""

    word: str
    takes: str
    told: str
    run: Callable[["DcronApp", str], None]
    """Gets what follows the word. Raises UsageError."""


def run_command(app: "DcronApp", text: str) -> None:
    """Do what was typed. Raises UsageError for a word that there is none of."""
    word, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(SHORT.get(word, word))
    if command is None:
        near = get_close_matches(word, COMMANDS, n=1)
        raise UsageError(
            f"there is no command {word!r}" + (f"; did you mean {near[0]}?" if near else "; ? lists them")
        )
    if not rest.strip() and command.takes and not command.takes.startswith("["):
        raise UsageError(f"{command.word} {command.takes}: say which")
    command.run(app, rest.strip())


def _view(name: str) -> Callable[["DcronApp", str], None]:
    return lambda app, _: app.main.action_view(name)


def _runs(app: "DcronApp", name: str) -> None:
    from dcron.tui.views.runs import RunsPane

    if not name:
        app.main.action_view("runs")
        return
    app.fetch(
        lambda board: board.crontab.find(name),
        lambda task: app.main.drill(RunsPane(task_id=task.id, title=task.name)),
    )


def _details(app: "DcronApp", name: str) -> None:
    from dcron.tui.detail import detail_facts
    from dcron.tui.detail_panel import told
    from dcron.tui.modals import NoticeDialog

    def show(detail: TaskDetail | None) -> None:
        if detail:
            heading = detail.row.task.name
            app.push_screen(NoticeDialog(heading, lambda: told(detail_facts(detail, app.health.now()))))

    app.fetch(lambda board: board.task_detail(board.crontab.find(name).id), show)


def _why(app: "DcronApp", text: str) -> None:
    from dcron.services.why import Cause, Why
    from dcron.tui.modals import NoticeDialog

    name, _, when = text.partition(" ")

    def causes(board: Dashboard) -> list[Cause]:
        asked = Why(board.crontab)
        return asked.explain(name, asked.meant(name, when) if when.strip() else None)

    def show(found: list[Cause]) -> None:
        content = Content("\n\n").join(Content(safe(cause.sentence)) for cause in found)
        app.push_screen(NoticeDialog(f"why {text}", lambda: content))

    app.fetch(causes, show)


def _node(app: "DcronApp", name: str) -> None:
    from dcron.tui.views.runs import RunsPane

    def found(board: Dashboard) -> RunsPane:
        for node in reversed(board.nodes()):
            if name in (node.id, node.name):
                return RunsPane(node_id=node.id, node_since=node.started_at, title=node.id)
        raise UsageError(f"there is no node {name!r}; `:nodes` shows what there is")

    app.fetch(found, app.main.drill)


def _log(app: "DcronApp", what: str) -> None:
    if what.isdecimal():
        app.fetch(lambda board: board.crontab.find_run(int(what)).id, app.open_log)
    else:
        app.fetch(lambda board: board.crontab.run_to_follow(what).id, app.open_log)


def _on_run(act: Callable[["DcronApp", Sequence[Run]], None]) -> Callable[["DcronApp", str], None]:
    def run(app: "DcronApp", run_id: str) -> None:
        if not run_id.isdecimal():
            raise UsageError(f"{run_id!r} is not the number of a run")
        app.fetch(lambda board: board.crontab.find_run(int(run_id)), lambda found: act(app, [found]))

    return run


def _drain(app: "DcronApp", name: str) -> None:
    def found(board: Dashboard) -> list[Node]:
        nodes = [node for node in board.nodes() if name in (node.id, node.name)]
        if not nodes:
            raise UsageError(f"there is no node {name!r}; `:nodes` shows what there is")
        return nodes

    app.fetch(found, lambda nodes: recovering.drain(app, nodes))


def _on_task(
    word: str, act: Callable[["DcronApp", Sequence[Task]], None], *, asks: bool = False
) -> Callable[["DcronApp", str], None]:
    return lambda app, name: _to_change(app, word, name, lambda task: act(app, [task]), asks=asks)


def _new(app: "DcronApp", _: str) -> None:
    from dcron.tui.forms.opening import new_task

    new_task(app)


def _edit(app: "DcronApp", name: str) -> None:
    from dcron.tui.forms.opening import edit_task

    _to_change(app, "edit", name, lambda task: edit_task(app, task))


def _to_change(
    app: "DcronApp", word: str, typed: str, do: Callable[[Task], None], *, asks: bool = False
) -> None:
    """Act on the task of this whole name; ask first about the only one whose name begins so.

    An act that `asks` names the task in a question of its own.
    """

    def found(board: Dashboard) -> tuple[Task, bool]:
        try:
            return board.crontab.get(typed), True
        except NotExact as beginning:
            if len(beginning.names) != 1:
                raise
            return board.crontab.get(beginning.names[0]), asks

    def go(answer: tuple[Task, bool]) -> None:
        task, is_agreed = answer
        if is_agreed:
            do(task)
            return
        details = [f"{task.schedule}  {task.command}"]
        app.confirm(f"{word} {task.name}", details, lambda yes: do(task) if yes else None)

    app.fetch(found, go)


def _filter(app: "DcronApp", text: str) -> None:
    if app.main.pane:
        app.main.pane.set_filter(text)
        app.redraw_chrome()


def _theme(app: "DcronApp", name: str) -> None:
    if name not in THEMES:
        raise UsageError(f"there is no theme {name!r}; there are {', '.join(THEMES)}")
    app.theme = THEMES[name]


def _sort(app: "DcronApp", order: str) -> None:
    from dcron.tui.pane import TablePane

    pane = app.main.pane
    orders = pane.orders if isinstance(pane, TablePane) else ()
    if not isinstance(pane, TablePane) or order not in orders:
        raise UsageError(f"cannot sort by {order!r}; there are {', '.join(orders) or 'no orders here'}")
    pane.sort_by(order)


COMMANDS = {
    command.word: command
    for command in (
        *(
            Command(view.name, "", f"Show the view {view.title}.", _view(view.name))
            for view in VIEWS
            if view.name != "runs"
        ),
        Command("runs", "[TASK]", "Show the runs, of all tasks or of one.", _runs),
        Command("node", "NODE", "Show the runs of a node.", _node),
        Command("view", "TASK", "Show all there is to know about a task.", _details),
        Command("why", "TASK [WHEN]", "Tell why a task did, did not, or will not run.", _why),
        Command("logs", "RUN|TASK", "Show what a run printed.", _log),
        Command("new", "", "Write a new task.", _new),
        Command("edit", "TASK", "Change a task.", _edit),
        Command("run", "TASK", "Run a task now.", _on_task("run", actions.run_now)),
        Command("pause", "TASK", "Pause a task.", _on_task("pause", actions.pause)),
        Command("resume", "TASK", "Resume a task.", _on_task("resume", actions.resume)),
        Command("rm", "TASK", "Delete a task.", _on_task("rm", actions.delete, asks=True)),
        Command("cancel", "RUN", "Cancel a run.", _on_run(actions.cancel)),
        Command("retry", "RUN", "Try a run that ended badly again.", _on_run(recovering.retry)),
        Command("dismiss", "RUN", "Take a run off the dead letters.", _on_run(recovering.dismiss)),
        Command("drain", "NODE", "Let a node take nothing new.", _drain),
        Command("filter", "[WORDS]", "Show only what these words let through.", _filter),
        Command("sort", "ORDER", "Sort by a column.", _sort),
        Command("theme", "NAME", f"Change the colours: {', '.join(THEMES)}.", _theme),
        Command("refresh", "", "Look at the database now.", lambda app, _: app.action_refresh_now()),
        Command("help", "", "Show the keys and the commands.", lambda app, _: app.action_help()),
        Command("quit", "", "Leave.", lambda app, _: app.exit()),
    )
}
SHORT = {"q": "quit", "q!": "quit", "log": "logs", "h": "help", "list": "tasks", "delete": "rm"}
