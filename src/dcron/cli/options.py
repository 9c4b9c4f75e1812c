"""Arguments and options that several verbs share."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from dcron.cli import completion
from dcron.model import LAST_RUN

if TYPE_CHECKING:
    from dcron.cli.task_options import TaskOptions


def _or_before_the_verb(ctx: typer.Context, value: str | None) -> str | None:
    """`dcron --db URL list` means the same as `dcron list --db URL`."""
    above: Any = ctx
    while not value and (above := above.parent):
        value = above.params.get("db")
    return value


Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The database, if not that of $DCRON_DB or the config file.",
        callback=_or_before_the_verb,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("-f", "--force", help="Do not ask.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The task's name, or a beginning of it that no other has.",
        show_default=False,
    ),
]
ReadName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="The task's name, or a beginning of it that no other has.",
        show_default=False,
    ),
]
WholeName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The task's whole name; of a beginning you are asked on a terminal.",
        show_default=False,
    ),
]
WholeNames = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...",
        help="The tasks' whole names; of a beginning you are asked on a terminal.",
        show_default=False,
    ),
]
SomeNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME...",
        help="Only these tasks, by their whole names; of a beginning you are asked on a terminal.",
        show_default=False,
    ),
]
MaybeName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Only this task.", show_default=False),
]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="COMMAND...",
        help="One word is a shell line; several are executed as they are.",
        show_default=False,
    ),
]


def run_number(text: str) -> int:
    """A run's number as it was typed. Raises BadParameter, which typer tells with the place."""
    if not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is not a run's number; `dcron runs` shows the runs by number")
    return min(int(text), LAST_RUN) if len(text) < 20 else LAST_RUN


RunIds = Annotated[
    list[int],
    typer.Argument(
        metavar="RUN...", help="The runs' numbers, as `dcron runs` shows them.", parser=run_number
    ),
]


class Verb(TyperCommand):
    """A verb whose usage line reads as people write it: `dcron view NAME`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Without the braces that typer puts around what is required."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class CommandLast(Verb):
    """A verb that ends in a command, whose words are its own: `dcron add '0 9 * * *' backup --full`.

    Options of dcron stand before the command. After a command in quotes, `'backup --full'`, they may follow:
    it is a whole line, so nothing that follows can belong to it.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Bring the options together, and the rest behind a `--`."""
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
    """Whether an option's value is the word that follows it."""
    if word.startswith("--"):
        return "=" not in word and takes_value.get(word, False)
    for position, letter in enumerate(word[1:], 2):
        if takes_value.get(f"-{letter}"):
            return position == len(word)
    return False


def offer_completions(verb: Callable[..., Any]) -> None:
    """Let the shell complete what the verb takes, by what its help calls it. Options name new things NAME."""
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
    """A word for the shell, as typer's own class has it, which moves between its versions."""

    value: str
    type: str = "plain"
    help: str | None = None


class NounGroup(TyperGroup):
    """A verb with verbs of its own that also takes one name: `dead backup`, `dead dismiss 12`."""

    name_option = ""
    """The hidden option that gets the name."""

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Offer the verbs, the options and the names of tasks."""
        names = completion.offers("NAME", ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *(_Offered(name) for name, _ in names)]

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Give a word that is none of the verbs to the option, with or without options around it."""
        options, rest = split_options(self.params, args)
        if rest and rest[0] not in self.commands:
            more, too_many = split_options(self.params, rest[1:])
            if too_many:
                ctx.fail(f"{ctx.info_name} takes one name; {too_many[0]!r} is one too many")
            args = [*options, *more, self.name_option, rest[0]]
        return super().parse_args(ctx, args)


def takes(group: "type[TaskOptions]") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb a group of task options, which it gets as one value named `options`."""
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
