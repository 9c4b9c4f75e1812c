"""Arguments and options that several verbs share, and the classes of verbs."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import ArgumentInfo, OptionInfo

from dcron.cli import completion, context, contexts, help
from dcron.model import LAST_RUN

if TYPE_CHECKING:
    from dcron.cli.task_options import TaskOptions


def _or_before_the_verb(ctx: typer.Context, value: str | None) -> str | None:
    """Return the URL given behind the verb, or before it: `dcron --db URL list` is `dcron list --db URL`."""
    above: Any = ctx
    while not value and (above := above.parent):
        value = above.params.get("db")
    if value:
        contexts.choose_url(ctx)
    return value


Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database [default: $DCRON_DB, or the config file's].",
        callback=_or_before_the_verb,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=help.OUTPUT)]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="As the crontab was then: 2h (ago), '2027-01-01 09:00'."),
]
SelectorOption = Annotated[
    str | None,
    typer.Option(
        "-l", "--selector", metavar="SELECTOR", help="Tasks with these labels: team=shop,tier!=gold."
    ),
]
FileFormat = Annotated[
    Literal["text", "json", "toml"] | None,
    typer.Option("--format", metavar="text|json|toml", help="Format of the files [default: by their names]."),
]
Force = Annotated[bool, typer.Option("-f", "--force", help="Do not ask for confirmation.")]
_UNIQUE_PREFIX = typer.Argument(
    metavar="NAME", help="Name of the task, or a prefix that fits no other.", show_default=False
)
Name = Annotated[str, _UNIQUE_PREFIX]
OptionalName = Annotated[str | None, _UNIQUE_PREFIX]
WholeName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Whole name of the task; a prefix needs your confirmation.",
        show_default=False,
    ),
]
_WHOLE_NAMES = typer.Argument(
    metavar="NAME...",
    help="Whole names of tasks; a prefix needs your confirmation.",
    show_default=False,
)
WholeNames = Annotated[list[str], _WHOLE_NAMES]
OptionalWholeNames = Annotated[list[str] | None, _WHOLE_NAMES]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="One word is a shell line; several run without a shell.",
        show_default=False,
        rich_help_panel="What",
    ),
]
Payload = Annotated[
    str | None,
    typer.Option(
        "--payload", metavar="TEXT|@FILE", help="Text for the command, on stdin and in $DCRON_PAYLOAD."
    ),
]
NodeName = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="Whole name or ID of a node, as `dcron nodes` shows it.", show_default=False
    ),
]


def run_number(text: str) -> int:
    """Return a run's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "a run; `dcron runs`")


def alert_number(text: str) -> int:
    """Return an alert's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "an alert; `dcron alerts`")


def freeze_number(text: str) -> int:
    """Return a freeze's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "a freeze; `dcron freezes`")


def _row_number(text: str, row: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is not the number of {row} shows the numbers")
    return min(int(text), LAST_RUN) if len(text) < 20 else LAST_RUN


def whole_number(least: int, most: int | None = None) -> Callable[[Any], int]:
    """Return the reader of an option that takes a whole number between these bounds."""
    right = f"{least} or more" if most is None else f"{least} to {most:,}"

    def read(text: Any) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", str(text)) else None
        if number is None or number < least or (most is not None and number > most):
            raise typer.BadParameter(f"{text} is not valid; give {right}")
        return number

    return read


_RUN_IDS = typer.Argument(
    metavar="RUN...", help="Numbers of runs, as `dcron runs` shows them.", parser=run_number
)
OptionalRunIds = Annotated[list[int] | None, _RUN_IDS]


NOTE = "dcron.note"
"""Where the context of a verb keeps the reason given by -m."""


class Verb(TyperCommand):
    """A verb: its usage line has no braces, its help lists the options in sections."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Add the options that verbs with a database have."""
        super().__init__(*args, **options)
        contexts.add_options(self.params)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, with its name for the audit log."""
        with context.act(_words_of(ctx), ctx.meta.get(NOTE)):
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line without the braces that typer puts around required arguments."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections."""
        help.format_options(self, ctx, formatter)


class WritingVerb(Verb):
    """A verb that changes the crontab: it takes the reason for the audit log."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the option to the verb's own ones."""
        super().__init__(*args, **kwargs)
        self.params.append(
            TyperOption(
                param_decls=["-m", "--note"],
                metavar="WHY",
                help="Reason of the change, for `dcron history`.",
                callback=_keep_note,
                expose_value=False,
            )
        )


def _keep_note(ctx: Any, _parameter: Any, value: str | None) -> None:
    ctx.meta[NOTE] = value


def _words_of(ctx: Any) -> str:
    """Return the verb as it is typed, such as `queue set`."""
    above = ctx.parent
    return f"{_words_of(above)} {ctx.info_name}" if above and above.parent else str(ctx.info_name)


class CommandAfterWith(WritingVerb):
    """A verb that may end in a command: `dcron run backup --with -- pg_dump -j8 shop`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Give the words behind `--with --` to the hidden option that takes them."""
        ends = [at for at, pair in enumerate(pairwise(args)) if pair == ("--with", "--")]
        if ends:
            words = args[ends[0] + 2 :]
            if not words:
                ctx.fail("--with -- needs a command behind it")
            args = [*args[: ends[0]], *(f"--with-word={word}" for word in words)]
        return super().parse_args(ctx, args)


class CommandLast(WritingVerb):
    """A verb that ends in a command: `dcron add '0 9 * * *' backup --full`.

    Options of dcron come before the command. They may also follow a command in quotes, `'backup --full'`: it
    is a whole line, so no later word belongs to it.
    """

    def get_help_option(self, ctx: Any) -> Any:
        """Return --help without a line of its own: these verbs have the most options."""
        if option := super().get_help_option(ctx):
            option.hidden = True
        return option

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Move the options to the front, and the rest behind a `--`."""
        options, rest = split_options(self.params, args)
        if not rest:
            return super().parse_args(ctx, options)
        first, words = rest[0], rest[1:]
        if "--" not in args[: len(args) - len(rest)]:
            more, words = split_options(self.params, words)
            options += more
        if len(words) > 1 and any(map(str.isspace, words[0])):
            more, rest = split_options(self.params, words[1:])
            if not rest:
                options, words = options + more, words[:1]
        return super().parse_args(ctx, [*options, "--", first, *words])


def split_options(parameters: Sequence[Any], words: list[str]) -> tuple[list[str], list[str]]:
    """Return the leading options with their values, and what follows them."""
    takes_value = {
        spelling: not getattr(parameter, "is_flag", False)
        for parameter in parameters
        for spelling in parameter.opts
        if spelling.startswith("-")
    }
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 2 if _wants_next(words[at], takes_value) else 1
    return words[:at], words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]


def _wants_next(word: str, takes_value: dict[str, bool]) -> bool:
    """Return whether the next word is the value of this option."""
    if word.startswith("--"):
        return "=" not in word and takes_value.get(word, False)
    for position, letter in enumerate(word[1:], 2):
        if takes_value.get(f"-{letter}"):
            return position == len(word)
    return False


def offer_completions(verb: Callable[..., Any]) -> None:
    """Let the shell complete the parameters of a verb by their metavar.

    An option with the metavar NAME gives a new name: it is not completed.
    """
    for parameter in inspect.signature(verb).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if not isinstance(info, ArgumentInfo | OptionInfo) or info.autocompletion or not info.metavar:
                continue
            is_new = isinstance(info, OptionInfo) and info.metavar == "NAME"
            if not is_new and completion.completes(info.metavar):
                info.autocompletion = _completer(info.metavar)


def _completer(metavar: str) -> Callable[[typer.Context, str], list[completion.Offer]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[completion.Offer]:
        return completion.offers(metavar, ctx, incomplete)

    return complete


@dataclass
class _Offered:
    """A completion, like typer's own class, which moves between versions of typer."""

    value: str
    type: str = "plain"
    help: str | None = None


class Group(TyperGroup):
    """A verb with verbs of its own, such as `queue set` and `queue list`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that was typed; the error for another word suggests the closest verb."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            from dcron.cli.similar_words import did_you_mean

            typed = f"{ctx.info_name} {args[0]}"
            ctx.fail(f"there is no verb {typed!r}{did_you_mean(args[0], self.commands)}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections, then the verbs."""
        help.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def group(sentence: str) -> typer.Typer:
    """Return a verb that has verbs of its own."""
    return typer.Typer(
        cls=Group, help=sentence, subcommand_metavar=help.VERB, rich_markup_mode=None, add_completion=False
    )


class GroupWithName(Group):
    """A group that also takes one name: `dead backup`, `dead dismiss 12`."""

    name_option = ""
    """The hidden option that receives the name."""

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Return the verbs, the options and the names of tasks."""
        names = completion.offers("NAME", ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *(_Offered(name) for name, _ in names)]

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Pass a word that is no verb to the hidden option."""
        options, rest = split_options(self.params, args)
        if rest and rest[0] not in self.commands:
            more, too_many = split_options(self.params, rest[1:])
            if too_many:
                ctx.fail(f"{ctx.info_name} takes one name; leave out {too_many[0]!r}")
            args = [*options, *more, self.name_option, rest[0]]
        return super().parse_args(ctx, args)


def takes(group: "type[TaskOptions]") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a group of task options to a verb, which receives them as one value named `options`."""
    shared = group.parameters()

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        own = [each for each in inspect.signature(verb).parameters.values() if each.name != "options"]

        @wraps(verb)
        def with_options(**given: Any) -> None:
            options = group(**{each.name: given.pop(each.name) for each in shared})
            verb(**given, options=options)

        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        with_options.__signature__ = inspect.Signature([*parameters, *shared])  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in [*own, *shared]}
        return with_options

    return decorate
