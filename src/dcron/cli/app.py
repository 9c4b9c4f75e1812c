"""The verbs of `dcron` in the order of its help. A verb's module is imported when the verb is used."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dcron import __version__
from dcron.cli import contexts
from dcron.cli.help import VERB

SECTIONS: dict[str, dict[str, str]] = {
    "Everyday": {
        "add": "Add a task.",
        "list": "List the tasks with their next and last runs.",
        "view": "Show one task or one run in full.",
        "set": "Change the given options of tasks.",
        "edit": "Edit the crontab, or some of its tasks, as text in your editor.",
        "rm": "Remove tasks.",
        "pause": "Start no runs of these tasks until they are resumed.",
        "resume": "End the pauses of tasks.",
        "run": "Run tasks now, on the first node with a free slot.",
        "at": "Run a command once, at a time.",
        "in": "Run a command once, after a delay.",
        "runs": "List waiting, active and past runs, the newest first.",
        "stats": "Show success rates, durations, lateness and hours of work.",
        "report": "Report what failed, was skipped, started late, was lost or was changed.",
        "logs": "Print the output of a run: stdout and stderr, in order.",
        "emit": "Send an event: run every task whose schedule is '@on EVENT'.",
        "cancel": "Cancel runs.",
        "retry": "Retry failed, lost, skipped or cancelled runs now.",
        "dead": "List dead letters: failed and lost runs without further attempts.",
        "backfill": "Run a task for past occurrences that never succeeded.",
        "alerts": "List what is wrong now: open alerts, and who has acknowledged them.",
        "ack": "Acknowledge alerts: send no more reminders of them.",
        "preview": "Show when a schedule runs, as the agents compute it.",
        "forecast": "Forecast which runs will wait or be skipped, and what would help.",
        "quiet": "Find the times in which nothing starts by itself.",
        "why": "Explain why a task ran, did not run, or will not run.",
    },
    "Administration": {
        "calendar": "Manage calendars: named sets of dates for --except and --only.",
        "lint": "Warn of valid tasks that are probably mistakes.",
        "agent": "Run due tasks on this server until stopped.",
        "monitor": "Serve the figures of the whole crontab to Prometheus, at /cluster.",
        "tui": "Open the full-screen view of tasks, runs and nodes.",
        "nodes": "List the running agents, and those that ended within the last day.",
        "drain": "Stop a node from claiming runs; its active runs continue.",
        "undrain": "Let a drained node claim runs again.",
        "freeze": "Start no run by itself, on any node, until the crontab is thawed.",
        "thaw": "End a freeze: runs start by themselves again.",
        "freezes": "List freezes: active, planned and past ones, the newest first.",
        "channel": "List the channels that notifications are sent by, and test one.",
        "queue": "Limit how many runs of a queue are active at once, over all nodes.",
        "diff": "Show what `apply` would change.",
        "apply": "Make the tasks of a source what its files say.",
        "import": "Import a crontab file.",
        "export": "Print the crontab as a file: a crontab, JSON or TOML.",
        "prune": "Delete history that is older than settings and tasks say.",
        "hold": "Keep a run, or all runs of a task, from being pruned.",
        "unhold": "Let a run, or all runs of a task, be pruned again.",
        "dump": "Write the whole crontab, without its history, to one file.",
        "restore": "Restore a crontab that `dcron dump` wrote.",
        "doctor": "Look for what needs an operator's attention.",
        "history": "Show who changed what, when and why.",
        "undo": "Undo the last change of a task, another change, or a batch of changes.",
        "info": "Print versions, the database, and where the settings come from.",
        "config": "Manage the settings that all users of the crontab share.",
        "db": "Prepare or upgrade the database, or print its URL.",
        "demo": "Show several agents that share a crontab.",
    },
}
"""The first sentence of each verb's help. Module `commands/VERB.py` has the verb as `command`."""

ALIASES = {"ls": "list", "show": "view", "delete": "rm"}
"""Words of other tools, and the verbs with the same meaning."""
INSTEAD = {
    "status": "`dcron list` shows the tasks, `dcron nodes` the agents, `dcron view NAME` one task",
    "start": "`dcron run NAME` runs a task, `dcron resume NAME` ends its pause, `dcron agent` is one",
    "stop": "`dcron cancel RUN` stops a run, `dcron pause NAME` a task, `dcron drain NODE` drains a node",
    "remove": "`dcron rm NAME` removes a task, `dcron dead dismiss RUN` a dead letter",
    "enable": "`dcron resume NAME` ends the pause of a task",
    "disable": "`dcron pause NAME` pauses a task until it is resumed",
}
"""Words of other tools without an exact equivalent, and the verbs to use."""
VERBS = {name: verb for section in SECTIONS.values() for name, verb in section.items()}
COMMAND_LAST = ("add", "at", "in")
WRITING = (
    *("set", "edit", "rm", "pause", "resume", "run", "cancel", "retry", "backfill"),
    *("apply", "import", "restore", "drain", "undrain", "freeze", "thaw", "hold", "unhold", "undo"),
)
"""Further verbs that change the crontab and take a reason."""


class Verbs(TyperGroup):
    """The verbs, each loaded when it is used: `dcron --help` is quick, `dcron preview` needs no database."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Add the option that chooses a context."""
        super().__init__(*args, **options)
        self.params.insert(1, contexts.context_option(hidden=False))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all verbs."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a verb; None if there is no verb of this name."""
        return _load(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that was typed; the error for another word suggests the closest verb."""
        args = _understood(ctx, args)
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            if args[0] in INSTEAD:
                ctx.fail(f"there is no verb {args[0]!r}: {INSTEAD[args[0]]}")
            from dcron.cli.similar_words import did_you_mean

            known = [*VERBS, *ALIASES, *INSTEAD]
            ctx.fail(f"there is no verb {args[0]!r}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. Handle a closed pipe here: typer would return its own exit code."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            from dcron.cli import error_handler

            raise typer.Exit(error_handler.explain(error)) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs in their sections."""
        width = max(map(len, VERBS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", sentence) for name, sentence in section.items()])


def _understood(ctx: Any, words: list[str]) -> list[str]:
    """Return the words with aliases replaced; `help VERB` becomes `VERB --help`."""
    match words:
        case ["version"]:
            _print_version(True)
        case ["help"] if not ctx.resilient_parsing:
            print(ctx.get_help())
            raise typer.Exit
        case ["help", *verb] if verb:
            return [*_understood(ctx, verb), "--help"]
    return [ALIASES.get(words[0], words[0]), *words[1:]]


def _load(name: str) -> Any:
    """Return a verb: typer's command of its function, or of its Typer if it has verbs of its own."""
    from typer.main import get_command

    from dcron.cli.options import CommandAfterWith, CommandLast, Verb, WritingVerb, offer_completions

    module = f"{name}_" if iskeyword(name) else name
    found = import_module(f"dcron.cli.commands.{module}").command
    for verb in _functions(found):
        offer_completions(verb)
    if not isinstance(found, typer.Typer):
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        kind = WritingVerb if name in WRITING else Verb
        kind = CommandLast if name in COMMAND_LAST else CommandAfterWith if name == "run" else kind
        holder.command(name, cls=kind)(found)
        found = holder
    return get_command(found)


def _functions(found: Any) -> list[Any]:
    """Return the function of a verb, or those of its Typer."""
    if not isinstance(found, typer.Typer):
        return [found]
    above = found.registered_callback
    functions = [above.callback if above else None, *(each.callback for each in found.registered_commands)]
    return list(filter(None, functions))


def _print_version(is_given: bool) -> None:
    if is_given:
        print(f"dcron {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Verbs,
    subcommand_metavar=VERB,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def dcron(
    ctx: typer.Context,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="URL", help="Database to use [default: $DCRON_DB, or the config file's]."
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """One crontab that many servers share through SQLite or Postgres.

    \b
    dcron add '30 2 * * *' backup --full    add a task
    dcron agent                             run due tasks, on every server
    dcron list                              show their last and next runs
    """
    if ctx.invoked_subcommand is None:
        from dcron.cli.commands import tui
        from dcron.cli.screen import has_screen

        if has_screen():
            tui.command(ctx, db=db)
        else:
            print(ctx.get_help())


def run() -> NoReturn:
    """Run the command line of this process, and exit."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it is closed: the next file to be opened would take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Run one command line, and return its exit code."""
    try:
        code = app(list(words), prog_name="dcron", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        from dcron.cli import error_handler

        return error_handler.explain(error, words)
    return code if isinstance(code, int) else 0
