"""The verbs of `dcron` in the order of its help. A verb's module is imported when the verb is used."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from dcron import __version__
from dcron.cli.asking import completion, shared_options
from dcron.cli.output import console
from dcron.cli.running.help import VERB
from dcron.cli.running.verbs import VERBS, first_screen

COMMAND_LAST = ("add", "at")
WRITING = (
    *("set", "edit", "rm", "pause", "resume", "run", "cancel", "retry", "backfill", "ack"),
    *("apply", "import", "restore", "drain", "undrain", "freeze", "thaw", "hold", "unhold", "undo"),
)
"""Further verbs that change the crontab and take a reason."""
GUARDED = ("apply", "drain", "undrain", "thaw", "hold", "unhold", "ack")
"""Those of them that ask only in a protected context, or never."""
_JSON = {"--json", "json", "jsonl", "-ojson", "-ojsonl", "--output=json", "--output=jsonl"}
"""Words by which a command line asks for JSON: then no note is printed about an old form."""


class Verbs(TyperGroup):
    """The verbs, each loaded when it is used: `dcron --help` is quick, `dcron preview` needs no database."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Add the option that chooses a context."""
        super().__init__(*args, **options)
        self.params.insert(1, shared_options.context_option(hidden=False))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Answer the options of crontab(1)."""
        if args and args[0].startswith("-") and not ctx.resilient_parsing:
            from dcron.cli.running import other_words

            if answer := other_words.of_crontab(args):
                ctx.fail(answer)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all verbs."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a verb; None if there is no verb of this name."""
        return _load(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that was typed; another tool's word for it and the form of 0.1 count, too."""
        if args[0] not in VERBS or args[0] == "runs":
            args = _understood(ctx, args)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the first screen."""
        formatter.write(first_screen())

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the verbs with their sentences, in the order of the first screen, without loading one."""
        offered = [
            completion.Offered(name, help=completion.inert(verb.sentence)) for name, verb in VERBS.items()
        ]
        options = TyperCommand.shell_complete(self, ctx, incomplete)
        return [*(each for each in offered if each.value.startswith(incomplete)), *options]

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. Handle a closed pipe here: typer would return its own exit code."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            from dcron.cli.running import error_handler

            raise typer.Exit(error_handler.explain(error)) from None


def _understood(ctx: Any, words: list[str]) -> list[str]:
    """Return the command line of words that no verb begins.

    `version` and `help` print something, and end the program. Raises a usage error with an answer.
    """
    from dcron.cli.running import other_words

    if words == ["version"]:
        _print_version(True)
    if words[0] == "help" and not ctx.resilient_parsing:
        from dcron.cli.running.help_pages import command_line

        return command_line(ctx, words[1:])
    words, change = other_words.current_form(words)
    if change and not _JSON & set(words) and not ctx.resilient_parsing:
        from dcron.database.url import redact_typed

        console.complain(redact_typed(change, words))
    words = other_words.without_alias(words)
    is_option = words[0].startswith("-") and words[0] != "-"
    if words[0] not in VERBS and not is_option and not ctx.resilient_parsing:
        ctx.fail(f"there is no verb {words[0]!r}{_hint(words)}")
    return words


def _hint(words: list[str]) -> str:
    """Return the end of the message about an unknown word: what serves it, or a similar verb."""
    from dcron.cli.running.other_words import ALIASES, ANSWERS, answer, verb_meant

    if found := answer(words[0], words[1:]):
        return f": {found}"
    return verb_meant(words[0], [*VERBS, *ALIASES, *ANSWERS])


def _load(name: str) -> Any:
    """Return a verb: typer's command of its function, or of its Typer if it has verbs of its own."""
    from typer.main import get_command

    from dcron.cli.asking import options

    module = f"{name}_" if iskeyword(name) else name
    found = import_module(f"dcron.cli.commands.{module}").command
    for verb in _functions(found):
        options.offer_completions(verb)
    if not isinstance(found, typer.Typer):
        holder = typer.Typer(rich_markup_mode=None, add_completion=False)
        kinds = {
            **dict.fromkeys(WRITING, options.WritingVerb),
            **dict.fromkeys(GUARDED, options.GuardedWritingVerb),
            **dict.fromkeys(COMMAND_LAST, options.CommandLast),
            "run": options.CommandAfterWith,
            "emit": options.GuardedVerb,
            "prune": options.AskingVerb,
        }
        holder.command(name, cls=kinds.get(name, options.Verb))(found)
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
    """One crontab that many servers share, in SQLite or Postgres."""
    if ctx.invoked_subcommand is None:
        from dcron.cli.commands import tui
        from dcron.cli.running.screen import has_screen

        if has_screen():
            tui.command(ctx, db=db)
        else:
            print(ctx.get_help())


def run() -> NoReturn:
    """Run the command line of this process, and exit."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it is closed: the next file to be opened would take its number
            flags = os.O_RDONLY if name == "stdout" else os.O_RDWR  # what a verb prints is not lost silently
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))


def main(words: Sequence[str]) -> int:
    """Run one command line, and return its exit code."""
    try:
        code = app(list(words), prog_name="dcron", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        from dcron.cli.running import error_handler

        return error_handler.explain(error, words)
    return code if isinstance(code, int) else 0
