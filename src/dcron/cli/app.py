"""The verbs of `dcron`, in the order of its help; a verb's module is imported when the verb is used."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dcron import __version__

SECTIONS: dict[str, dict[str, str]] = {
    "Everyday": {
        "add": "Add a task.",
        "list": "List the tasks, when each runs next and how it went last.",
        "view": "Show all there is to know about a task, or about one run.",
        "set": "Change tasks: only what is given.",
        "edit": "Change the crontab, or some tasks, as text in your editor.",
        "rm": "Remove tasks.",
        "pause": "Let tasks start nothing until they are resumed.",
        "resume": "End the pauses of tasks.",
        "run": "Run tasks now, on whichever node is free.",
        "at": "Run a command once, at a time.",
        "in": "Run a command once, after so long.",
        "runs": "List runs, the newest first: those to come, under way and past.",
        "logs": "Print what a run wrote to stdout and stderr, in order.",
        "emit": "Send an event: starts every task whose schedule is '@on EVENT'.",
        "cancel": "Cancel runs.",
        "retry": "Try runs that ended badly once more, now.",
        "dead": "List the runs that failed or were lost and are not tried again.",
        "backfill": "Make up for a task's times in the past that never succeeded.",
        "preview": "Show when a schedule runs, computed just as the agents do.",
        "why": "Tell why a task did, did not, or will not run.",
    },
    "Running and keeping": {
        "calendar": "Name sets of dates for --except and --only of tasks.",
        "lint": "Tell what is valid and probably not meant.",
        "agent": "Run due tasks on this server until stopped.",
        "tui": "See everything, change anything, on one screen.",
        "nodes": "List the running agents, and those that ended within a day.",
        "drain": "Let a node take nothing new; what it runs runs on.",
        "undrain": "End the draining of a node: it takes runs again.",
        "queue": "Limit how many runs of a queue are alive at once, over all nodes.",
        "import": "Import a crontab file.",
        "export": "Print the crontab as a file.",
        "dump": "Write the whole crontab, without its history, to one file.",
        "restore": "Bring back what `dcron dump` wrote.",
        "info": "Print versions, the database, and where the settings come from.",
        "config": "Set what holds for all users of the crontab.",
        "db": "Prepare, upgrade or name the database.",
        "demo": "Watch agents share a crontab.",
    },
}
"""The first help sentence of each verb. Its module is `commands/VERB.py`, which has it as `command`."""

ALIASES = {"ls": "list", "show": "view", "delete": "rm"}
"""Words of other tools that mean exactly a verb."""
INSTEAD = {
    "status": "`dcron list` shows the tasks, `dcron nodes` the agents, `dcron view NAME` one task",
    "start": "`dcron run NAME` runs a task now, `dcron resume NAME` ends its pause; `dcron agent` is one",
    "stop": "`dcron cancel RUN` stops a run, `dcron pause NAME` a task, `dcron drain NODE` an agent's claims",
    "enable": "`dcron resume NAME` ends a task's pause",
    "disable": "`dcron pause NAME` lets a task start nothing until it is resumed",
}
"""Words that may mean several verbs, or one that does not do quite that."""
VERBS = {name: verb for section in SECTIONS.values() for name, verb in section.items()}
COMMAND_LAST = ("add", "at", "in")


class Verbs(TyperGroup):
    """The verbs, loaded one at a time: `dcron --help` has to be quick, `dcron preview` needs no database."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All verbs."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a verb; None if there is none of this name."""
        return _load(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed, or the one that was probably meant, in an error."""
        args = _understood(ctx, args)
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            if args[0] in INSTEAD:
                ctx.fail(f"there is no verb {args[0]!r}: {INSTEAD[args[0]]}")
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            ctx.fail(f"there is no verb {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. A closed pipe is dealt with here: typer would make it an exit code of its own."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            from dcron.cli import error_handler

            raise typer.Exit(error_handler.explain(error)) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs in their sections."""
        width = max(map(len, VERBS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", told) for name, told in section.items()])


def _understood(ctx: Any, words: list[str]) -> list[str]:
    """The words with an alias replaced by its verb; `help VERB` is `VERB --help`."""
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
    """A verb as typer makes it of its function, or of the Typer that holds verbs of its own."""
    from typer.main import get_command

    from dcron.cli.options import CommandLast, Verb, offer_completions

    module = f"{name}_" if iskeyword(name) else name
    found = import_module(f"dcron.cli.commands.{module}").command
    for verb in _functions(found):
        offer_completions(verb)
    if not isinstance(found, typer.Typer):
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        holder.command(name, cls=CommandLast if name in COMMAND_LAST else Verb)(found)
        found = holder
    return get_command(found)


def _functions(found: Any) -> list[Any]:
    """The function of a verb, or those of a Typer."""
    if not isinstance(found, typer.Typer):
        return [found]
    above = found.registered_callback
    functions = [above.callback if above else None, *(each.callback for each in found.registered_commands)]
    return list(filter(None, functions))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dcron {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Verbs,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def dcron(
    ctx: typer.Context,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="The database; else $DCRON_DB, else the config file."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """One crontab that many servers share through SQLite or Postgres.

    \b
    dcron add '30 2 * * *' backup --full    add a task
    dcron agent                             run due tasks, on every server
    dcron list                              see what ran, and what is next
    """
    if ctx.invoked_subcommand is None:
        from dcron.cli.commands import tui
        from dcron.cli.screen import has_screen

        if has_screen():
            tui.command(db=db)
        else:
            print(ctx.get_help())


def run() -> NoReturn:
    """Run the command line of this process."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed: the next file to be opened would take its place
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    try:
        code = app(list(words), prog_name="dcron", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        from dcron.cli import error_handler

        return error_handler.explain(error, words)
    return code if isinstance(code, int) else 0
