"""Arguments and options that several verbs share, and the classes of verbs."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from dcron.cli.asking import completion
from dcron.cli.asking.new_task import warn_of_late_options
from dcron.cli.asking.shared_options import REASON, add_shared_options, choose_url, take_consent, wants_data
from dcron.cli.asking.task_options import TaskOptions
from dcron.cli.running import context, help, other_words
from dcron.errors import UsageError
from dcron.model import LAST_RUN


def option(*words: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option with a value: its spellings, the word for its value, and its help."""
    *spellings, metavar, help = words
    return typer.Option(*spellings, metavar=metavar, help=help, rich_help_panel=panel, **more)


def flag(*words: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option without a value: its spellings and its help."""
    *spellings, help = words
    return typer.Option(*spellings, help=help, rich_help_panel=panel, **more)


def argument(metavar: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """Return an argument: the word for its value, and its help."""
    return typer.Argument(metavar=metavar, help=help, rich_help_panel=panel, **more)


def _or_before_the_verb(ctx: typer.Context, value: str | None) -> str | None:
    """Return the URL given behind the verb, or before it: `dcron --db URL list` is `dcron list --db URL`."""
    above: Any = ctx
    while not value and (above := above.parent):
        value = above.params.get("db")
    if value:
        choose_url(ctx)
    return value


Db = Annotated[
    str | None,
    option(
        "--db", "URL", "Database [default: $DCRON_DB, or the config file's].", callback=_or_before_the_verb
    ),
]
Json = Annotated[bool, flag("--json", "Print JSON.", callback=wants_data, panel=help.OUTPUT)]
At = Annotated[str | None, option("--at", "TIME", "As the crontab was then: 2h (ago), '2027-01-01 09:00'.")]
SelectorOption = Annotated[
    str | None, option("-l", "--selector", "SELECTOR", "Tasks with these labels: team=shop,tier!=gold.")
]
FileFormat = Annotated[
    Literal["text", "json", "toml"] | None,
    option("--format", "text|json|toml", "Format of the files [default: by their names]."),
]
_UNIQUE_PREFIX = argument("NAME", "Name of the task, or a prefix that fits no other.")
Name = Annotated[str, _UNIQUE_PREFIX]
OptionalName = Annotated[str | None, _UNIQUE_PREFIX]
_NAMES = argument("NAME...", "Names of tasks, prefixes, or patterns: 'shop-*'.")
OptionalNames = Annotated[list[str] | None, _NAMES]
WholeName = Annotated[str, argument("NAME", "Whole name of the task; a prefix needs your confirmation.")]
OptionalWholeNames = Annotated[
    list[str] | None, argument("NAME...", "Whole names of tasks; a prefix needs your confirmation.")
]
Words = Annotated[
    list[str], argument("COMMAND...", "A shell line in quotes, or words for no shell.", panel="What")
]
Payload = Annotated[
    str | None, option("--payload", "TEXT|@FILE", "Text for the command, on stdin and in $DCRON_PAYLOAD.")
]
NodeName = Annotated[str, argument("NODE", "Whole name or ID of a node, as `dcron nodes` shows it.")]


def is_number(word: str) -> bool:
    """Return whether a word is the number of a run: no new task has such a name."""
    return word.isascii() and word.isdigit()


def run_number(text: str) -> int:
    """Return a run's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "a run; `dcron runs`")


def alert_number(text: str) -> int:
    """Return an alert's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "an alert; `dcron alerts`")


def freeze_number(text: str) -> int:
    """Return a freeze's number. Raises BadParameter, to which typer adds the name of the option."""
    return _row_number(text, "a freeze; `dcron freeze list`")


def _row_number(text: str, row: str) -> int:
    if not is_number(text):
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


RunsOrNames = Annotated[
    list[str] | None,
    argument("RUN|NAME...", "Numbers of runs, as `dcron runs` shows them, or whole names of tasks."),
]


def runs_or_names(words: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the numbers of runs, or the names of tasks: a word of digits is a run. Raises UsageError."""
    numbers = list(filter(is_number, words))
    if numbers and len(numbers) < len(words):
        raise UsageError("give numbers of runs or names of tasks, not both")
    return list(dict.fromkeys(map(run_number, numbers))), [] if numbers else list(words)


class Verb(TyperCommand):
    """A verb: its usage line has no braces, its help lists the options in sections."""

    asks: bool | None = None
    """Whether it asks before it acts; False: in a protected context only; None: it changes nothing."""
    writes = False
    """Whether it changes the crontab: then it takes the reason for the audit log."""
    shows_output: bool | None = True
    """Whether its help has -o; None: it does not take it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Add the options that verbs share."""
        super().__init__(*args, **options)
        add_shared_options(self.params, asks=self.asks, writes=self.writes, shows_output=self.shows_output)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Answer `-f FILE`, as kubectl has it: here -f forces."""
        file = args[args.index("-f") + 1 : args.index("-f") + 2] if "-f" in args else []
        takes_file = any("--file" in each.opts for each in self.params)
        if takes_file and not {"-F", "--file"} & set(args) and file and not file[0].startswith("-"):
            ctx.fail(f"a file is given with -F: `{ctx.command_path} -F {file[0]}` (-f is --force)")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, with its name for the audit log."""
        with _act(ctx):
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line without the braces that typer puts around required arguments."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections."""
        help.format_options(self, ctx, formatter)


class AskingVerb(Verb):
    """A verb that starts, changes or stops something: it asks."""

    asks = True


class GuardedVerb(AskingVerb):
    """A verb that asks in a protected context only."""

    asks = False


class WritingVerb(AskingVerb):
    """A verb that changes the crontab."""

    writes = True
    shows_output: bool | None = False


class GuardedWritingVerb(WritingVerb):
    """A verb that changes the crontab, and asks in a protected context only."""

    asks = False


@contextmanager
def _act(ctx: Any) -> Iterator[None]:
    """Let the verb know the user's consent, and the audit log its name and reason."""
    take_consent(ctx)
    with context.act(_words_of(ctx), ctx.meta.get(REASON)):
        yield


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


_MAY_BE_LATE = "dcron.late"
"""Where the context of a verb keeps the words behind a command among which an option of dcron may be."""


class CommandLast(GuardedWritingVerb):
    """A verb that ends in a command: `dcron add '0 9 * * *' backup --full`.

    Options of dcron come before the command. They may also follow a command in quotes, `'backup --full'`: it
    is a whole line, so no later word belongs to it. A `--` ends them: all that follows is the command's.
    """

    shows_output = None  # its command may have an option -o

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
        have_ended = len(options) + len(rest) < len(args)  # by a `--`
        first, words = rest[0], rest[1:]
        if not have_ended:
            more, behind = split_options(self.params, words)
            have_ended = len(more) + len(behind) < len(words)
            options, words = options + more, behind
        if not have_ended and len(words) > 1 and any(map(str.isspace, words[0])):
            more, rest = split_options(self.params, words[1:])
            if not rest:
                options, words = options + more, words[:1]
        ctx.meta[_MAY_BE_LATE] = [] if have_ended else words[1:]
        if not words and (line := _whole_line(first)):
            ctx.fail(line)
        return super().parse_args(ctx, [*options, "--", first, *words])

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. Then warn of an option of dcron that follows the command."""
        done = super().invoke(ctx)
        warn_of_late_options(ctx.meta[_MAY_BE_LATE])
        return done


def _whole_line(text: str) -> str | None:
    """Return the message about a line of a crontab that was typed as one word, or None."""
    fields = text.split(None, 5)
    if len(fields) < 6 or not all(re.fullmatch(r"[\w*/,#~-]+", field) for field in fields[:5]):
        return None
    schedule, command = " ".join(fields[:5]), fields[5]
    other = "; `dcron import -` reads lines with % or MAILTO" if "%" in command else ""
    quoted = command if re.fullmatch(r"[\w./-]+", command) else f"'{command}'"
    return f"this is a whole line: dcron add '{schedule}' {quoted}{other}"


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
            is_option = isinstance(info, OptionInfo)
            is_new = is_option and info.metavar == "NAME"
            # In an Annotated, typer has the first spelling in the place of the default.
            is_since = is_option and "--since" in (info.default, *(info.param_decls or ()))
            kind = "SINCE" if is_since else info.metavar
            if not is_new and completion.completes(kind):
                info.autocompletion = completer(kind)


def completer(metavar: str) -> Callable[[typer.Context, str], list[completion.Offer]]:
    """Return what completes a parameter as one with this metavar."""

    def complete(ctx: typer.Context, incomplete: str) -> list[completion.Offer]:
        return completion.offers(metavar, ctx, incomplete)

    return complete


class Group(TyperGroup):
    """A verb with verbs of its own, such as `queue set` and `queue list`."""

    writes = False
    """Whether it changes the crontab when it is typed alone, such as `freeze`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Add the options that verbs share."""
        super().__init__(*args, **options)
        add_shared_options(self.params, asks=self.writes or None, writes=self.writes)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let a noun alone list: `queue` is `queue list`. One without a list prints its help."""
        alone = not self.invoke_without_command and not ctx.resilient_parsing
        if alone and not args and "list" not in self.commands:
            print(ctx.get_help())
            raise typer.Exit
        if alone and (lists := self.commands.get("list")):
            options, rest = split_options(lists.params, args)
            if not rest and not {"-h", "--help"} & set(options):
                args = ["list", *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that was typed; the error for another word suggests the closest verb."""
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            group, typed = str(ctx.info_name), args[0]
            if verb := other_words.of_group(group, typed, self.commands):
                return super().resolve_command(ctx, [verb, *args[1:]])
            answers = other_words.SUB_ANSWERS.get(group, {})
            answer = answers.get(typed) or answers.get("")
            hint = f": {answer}" if answer else other_words.verb_meant(typed, self.commands)
            ctx.fail(f"there is no verb {f'{group} {typed}'!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in sections, then the verbs."""
        help.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def group(sentence: str, kind: type[Group] = Group) -> typer.Typer:
    """Return a verb that has verbs of its own."""
    return typer.Typer(
        cls=kind, help=sentence, subcommand_metavar=help.VERB, rich_markup_mode=None, add_completion=False
    )


class GroupWithName(Group):
    """A group that also takes names: `dead backup report`, `dead dismiss 12`."""

    name_option = ""
    """The hidden option that receives each name."""

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Return the verbs, the options and the names of tasks."""
        names = completion.words("NAME", ctx, incomplete)
        return [*super().shell_complete(ctx, incomplete), *map(completion.Offered, names)]

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Pass words that are no verb to the hidden option."""
        options, rest = split_options(self.params, args)
        if rest and rest[0] not in self.commands:
            args = options
            while rest:
                more, later = split_options(self.params, rest[1:])
                args = [*args, self.name_option, rest[0], *more]
                rest = later
        return super().parse_args(ctx, args)


class WritingGroup(Group):
    """A group that changes the crontab when it is typed alone, such as `freeze`."""

    writes = True

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, with its name for the audit log."""
        with _act(ctx):
            return super().invoke(ctx)


def takes(group: type[TaskOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
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
