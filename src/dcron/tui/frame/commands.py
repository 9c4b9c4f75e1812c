"""The commands of the prompt and the palette. They have the names of the shell's verbs."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dcron.errors import NotFound, UsageError
from dcron.model import Node, Run, Task
from dcron.services.alerts import Alerts
from dcron.services.dashboard import Dashboard
from dcron.services.name_prefix import NotExact
from dcron.tui.actions import alerts, freezes, nodes, runs, tasks
from dcron.tui.actions.why import explain
from dcron.tui.dialogs.shell import run_verb
from dcron.tui.history.pane import HistoryPane
from dcron.tui.host import Host
from dcron.tui.keys.completion import MOST_NAMES, Completion, among
from dcron.tui.look.colours import THEMES
from dcron.tui.table.filters import complete_from_database, node_names
from dcron.tui.views import VIEWS
from dcron.tui.views.dead import DeadPane
from dcron.tui.views.runs import RunsPane
from dcron.values.similar import did_you_mean


@dataclass(frozen=True)
class Command:
    """A command: its word, its argument, its help and its function."""

    word: str
    takes: str
    help: str
    run: Callable[[Host, str], None]
    """Gets the argument. Raises UsageError."""


def command_of(host: Host, text: str) -> Callable[[], None]:
    """Return what a typed command does. Raises UsageError for an unknown one or a missing argument."""
    word, _, rest = text.strip().partition(" ")
    alias, _, more = ALIASES.get(word, word).partition(" ")
    command, rest = COMMANDS.get(alias), f"{more} {rest}".strip()
    if command is None:
        hint = did_you_mean(word, [*COMMANDS, *ALIASES], "? lists them", count=3)
        raise UsageError(f"there is no command {word!r}{hint}")
    argument = rest or default_argument(host, command)
    if rest.startswith("-") and rest not in ("-h", "--help"):  # options alone: of the row under the cursor
        argument = f"{default_argument(host, command)} {rest}".strip()
    if not argument and command.takes and not command.takes.startswith("["):
        raise UsageError(f"{command.word} needs {command.takes}")

    def run() -> None:
        host.state.add_command(f"{command.word} {rest}".strip())
        command.run(host, argument)

    return run


def default_argument(host: Host, command: Command) -> str:
    """Return the task, run or node under the cursor if the command needs one; else an empty text."""
    kinds = command.takes.partition(" ")[0].split("|")
    return next(filter(None, (host.subject(kind.lower()) for kind in kinds if kind in _SUBJECTS)), "")


def _shell(words: str, *, writes: bool = False) -> Callable[[Host, str], None]:
    word, _, more = words.partition(" ")
    return lambda host, text: run_verb(host, word, f"{more} {text}".strip(), writes=writes)


def _view(name: str) -> Callable[[Host, str], None]:
    return lambda host, _: host.show_view(name)


def _runs(host: Host, name: str) -> None:
    if not name:
        host.show_view("runs")
        return
    host.fetch(
        lambda board: board.crontab.find(name),
        lambda task: host.open_pane(RunsPane(task.id, title=task.name)),
    )


def _dead(host: Host, which: str) -> None:
    if which not in ("", *DEAD_WORDS):
        raise UsageError(f"dead takes {' or '.join(DEAD_WORDS)}; without a word it shows them by task")
    host.show_view("dead", from_top=True)
    if which:
        host.open_pane(DeadPane())


def _events(host: Host, _: str) -> None:
    host.show_view("tasks", from_top=True)
    host.filter_rows("schedule:@on")


def _history(host: Host, name: str) -> None:
    if not name:
        host.open_pane(HistoryPane())
        return

    def whole_name(board: Dashboard) -> str:
        with suppress(NotFound):
            return board.crontab.find(name).name
        return board.crontab.exact_task_id(name)[1]  # it may be removed

    host.fetch(whole_name, lambda found: host.open_pane(HistoryPane(found)))


def _page(host: Host, name: str) -> None:
    host.fetch(lambda board: board.crontab.find(name), lambda task: host.open_task(task.id, task.name))


def _why(host: Host, text: str) -> None:
    name, _, when = text.partition(" ")
    explain(host, name, when)


def _nodes_named(name: str) -> Callable[[Dashboard], list[Node]]:
    def find(board: Dashboard) -> list[Node]:
        found = [node for node in board.nodes() if name in (node.id, node.name)]
        if not found:
            raise UsageError(f"there is no node {name!r}; `:nodes` lists the nodes")
        return found

    return find


def _log(host: Host, name: str) -> None:
    def find(board: Dashboard) -> int:
        crontab = board.crontab
        return (crontab.find_run(int(name)) if name.isdecimal() else crontab.run_to_follow(name)).id

    host.fetch(find, host.open_log)


def _on_run(act: Callable[[Host, Sequence[Run]], None]) -> Callable[[Host, str], None]:
    def run(host: Host, run_id: str) -> None:
        if not run_id.isdecimal():
            raise UsageError(f"{run_id!r} is not the number of a run")
        host.fetch(lambda board: board.crontab.find_run(int(run_id)), lambda found: act(host, [found]))

    return run


def _on_nodes(act: Callable[[Host, Sequence[Node]], None]) -> Callable[[Host, str], None]:
    return lambda host, name: host.fetch(_nodes_named(name), lambda found: act(host, found))


def _ack(host: Host, name: str) -> None:
    host.fetch(lambda board: Alerts(board.crontab).find(name), lambda found: alerts.acknowledge(host, found))


def _on_task(
    word: str, act: Callable[[Host, Sequence[Task]], None], *, asks: bool = False
) -> Callable[[Host, str], None]:
    return lambda host, name: _to_change(host, word, name, lambda task: act(host, [task]), asks=asks)


def _to_change(host: Host, word: str, typed: str, do: Callable[[Task], None], *, asks: bool = False) -> None:
    """Act on the task of this name. If it is the beginning of one name only, ask first.

    An act that `asks` anyway names the task in its question.
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
        host.confirm(f"{word} {task.name}", details, lambda: do(task))

    host.fetch(found, go)


def _theme(host: Host, name: str) -> None:
    if name not in THEMES:
        raise UsageError(f"there is no theme {name!r}; there are {', '.join(THEMES)}")
    host.set_theme(name)


def _sort(host: Host, order: str) -> None:
    orders = host.sort_orders()
    if order not in orders:
        raise UsageError(f"cannot sort by {order!r}; there are {', '.join(orders) or 'no orders here'}")
    host.sort_rows(order)


DEAD_WORDS = ("runs",)
"""What may follow `dead`."""
READING_VERBS = (
    ("preview", "TASK [OPTIONS]", "Show when a task runs, as the agents compute it."),
    ("stats", "[TASK] [OPTIONS]", "Show success rates, durations and lateness."),
    ("report", "[OPTIONS]", "Report what failed, was skipped, late, lost or changed."),
    ("forecast", "[OPTIONS]", "Forecast which runs will wait or be skipped."),
    ("lint", "[OPTIONS]", "Warn of valid tasks that are probably mistakes."),
    ("doctor", "[OPTIONS]", "Look for what needs an operator's attention."),
    ("export", "[OPTIONS]", "Show the crontab as a file."),
    ("diff", "OPTIONS", "Show what `dcron apply` would change."),
    ("info", "", "Show the database, its tables and its settings."),
)
"""The verbs of the shell that change nothing: they are run as they are, and their output is shown."""
WRITING_VERBS = (
    ("backfill", "TASK OPTIONS", "Run a task for past times: `backfill report --from 2d`."),
    ("emit", "EVENT [OPTIONS]", "Send an event: run the tasks that wait for it."),
    ("queue", "list|set ...", "List the queues, or set the limit of one."),
    ("calendar", "list|view|add|rm ...", "List, show, add or remove calendars."),
    ("channel", "list|test ...", "List the channels of notifications, or test one."),
    ("config", "list|set|unset ...", "List the settings that all users share, or change one."),
    ("set", "TASK OPTIONS", "Change options of a task: `set backup --timeout 2h`."),
    ("at", "TIME COMMAND", "Run a command once, at a time or after a delay: `at 1h date`."),
    ("hold", "RUN|TASK [OPTIONS]", "Keep a run, or all runs of a task, from being pruned."),
    ("unhold", "RUN|TASK", "Let a run, or all runs of a task, be pruned again."),
)
"""The verbs of the shell that may change something: the screen asks first."""
SHELL_VERBS = frozenset(verb for verb, _, _ in (*READING_VERBS, *WRITING_VERBS))
COMMANDS = {
    command.word: command
    for command in (
        *(
            Command(view.name, "", f"Show the view {view.title}.", _view(view.name))
            for view in VIEWS
            if view.name not in ("runs", "dead")
        ),
        Command("runs", "[TASK]", "Show the runs, of all tasks or of one.", _runs),
        Command("dead", "[runs]", "Show the dead letters by task, or run by run.", _dead),
        Command(
            "node",
            "NODE",
            "Show the page of a node.",
            _on_nodes(lambda host, found: host.open_node(found[-1])),
        ),
        Command("view", "TASK", "Show the page of a task.", _page),
        Command("why", "TASK [WHEN]", "Explain why a task did, did not, or will not run.", _why),
        Command("history", "[TASK]", "Show who changed what: all, or one task.", _history),
        Command("logs", "RUN|TASK", "Show the output of a run.", _log),
        Command("new", "", "Add a task.", lambda host, _: tasks.new(host)),
        Command(
            "edit", "TASK", "Change a task.", _on_task("edit", lambda host, found: tasks.edit(host, found[0]))
        ),
        Command("run", "TASK", "Run a task now.", _on_task("run", tasks.run_now)),
        Command("pause", "TASK", "Pause a task.", _on_task("pause", tasks.pause)),
        Command("resume", "TASK", "Resume a task.", _on_task("resume", tasks.resume)),
        Command("rm", "TASK", "Delete a task.", _on_task("rm", tasks.delete, asks=True)),
        Command("cancel", "RUN", "Cancel a run.", _on_run(runs.cancel)),
        Command("retry", "RUN", "Retry a run that did not succeed.", _on_run(runs.retry)),
        Command("dismiss", "RUN", "Dismiss a dead letter.", _on_run(runs.dismiss)),
        Command("drain", "NODE", "Let a node take no new runs.", _on_nodes(nodes.drain)),
        Command("ack", "TASK", "Acknowledge the open alerts of a task.", _ack),
        Command(
            "freeze", "", "Let nothing start by itself, on any node.", lambda host, _: freezes.freeze(host)
        ),
        Command(
            "freezes", "[OPTIONS]", "List the freezes: active, planned and past ones.", _shell("freeze list")
        ),
        Command("thaw", "", "End the freezes that hold.", lambda host, _: freezes.thaw(host)),
        Command("undrain", "NODE", "Let a drained node take runs again.", _on_nodes(nodes.undrain)),
        Command(
            "filter",
            "[WORDS]",
            "Show only rows that match these words.",
            lambda host, text: host.filter_rows(text),
        ),
        Command("events", "", "Show the tasks that wait for an event.", _events),
        Command("sort", "ORDER", "Sort by a column.", _sort),
        *(Command(word, takes, text, _shell(word)) for word, takes, text in READING_VERBS),
        *(Command(word, takes, text, _shell(word, writes=True)) for word, takes, text in WRITING_VERBS),
        Command("theme", "NAME", f"Change the colours: {', '.join(THEMES)}.", _theme),
        Command(
            "refresh", "", "Check the database for changes now.", lambda host, _: host.action_refresh_now()
        ),
        Command("help", "", "Show the keys and the commands.", lambda host, _: host.action_help()),
        Command("quit", "", "Leave.", lambda host, _: host.exit()),
    )
}
_SUBJECTS = ("TASK", "RUN", "NODE")
"""Arguments for which a command takes the row under the cursor."""
ALIASES = {
    **{"q": "quit", "q!": "quit", "log": "logs", "h": "help", "list": "tasks", "delete": "rm"},
    **{"queues": "queue list", "calendars": "calendar list", "channels": "channel list"},
    **{"settings": "config list", "quiet": "forecast --quiet", "in": "at"},
}
"""Other words for commands, with arguments."""


def complete_command(host: Host, text: str, take: Callable[[Completion], None]) -> None:
    """Find what may follow the text of a command, and hand it on; names are read from the database."""
    verb, space, rest = text.lstrip().partition(" ")
    if not space:
        take(among(verb, [*COMMANDS, *ALIASES]))
        return
    verb, _, more = ALIASES.get(verb, verb).partition(" ")
    rest = f"{more} {rest}".lstrip()
    complete_verb = host.settings.complete_verb
    if verb in SHELL_VERBS and complete_verb:
        *before, beginning = rest.split(" ")
        words = [verb, *filter(None, before)]
        complete_from_database(
            host, beginning, lambda board: complete_verb(board.crontab, words, beginning), take
        )
        return
    command = COMMANDS.get(verb)
    takes = command.takes if command else ""
    if " " in rest:
        take(Completion("", ()))
    elif takes == "[runs]":
        take(among(rest, DEAD_WORDS))
    elif takes == "ORDER":
        take(among(rest, host.sort_orders()))
    elif takes == "NAME":
        take(among(rest, THEMES))
    elif "TASK" in takes:
        complete_from_database(host, rest, lambda board: board.crontab.names(rest, MOST_NAMES), take)
    elif "NODE" in takes:
        complete_from_database(host, rest, node_names, take)
    else:
        take(Completion(rest, ()))
