"""Complete verbs, their options and their arguments on the command line of the screen."""

from collections.abc import Sequence
from typing import Any

import typer

from dcron import services
from dcron.cli.asking import completion


def words_for(
    command: Any, crontab: "services.crontab.Crontab", words: Sequence[str], beginning: str
) -> list[str]:
    """Return what may follow these words of `dcron`: verbs, options, and names from this crontab.

    Keep those with this beginning, in order. `command` is the root command that typer made of `dcron`.
    """
    ctx = typer.Context(command, info_name="dcron", obj=crontab, resilient_parsing=True)
    left = list(words)
    while left and hasattr(command, "get_command"):
        found = command.get_command(ctx, left[0])
        if found is None:
            break
        command = found
        ctx = typer.Context(command, parent=ctx, info_name=left.pop(0), resilient_parsing=True)
    return sorted({word for word in _offered(command, ctx, left, beginning) if word.startswith(beginning)})


def _offered(command: Any, ctx: Any, words: Sequence[str], beginning: str) -> list[str]:
    """Return what may follow the words of a verb: values of an option, options, or verbs and arguments."""
    options = {name: each for each in command.params for name in each.opts if name.startswith("-")}
    before = options.get(words[-1]) if words else None
    if before is not None and not before.is_flag:
        return _names(before, ctx, beginning)
    if beginning.startswith("-"):
        return [name for name, each in options.items() if name.startswith("--") and not each.hidden]
    verbs = command.list_commands(ctx) if hasattr(command, "list_commands") and not words else []
    arguments = [each for each in command.params if not each.opts[0].startswith("-")]
    position = _number_of_arguments(words, options)
    if arguments and (position < len(arguments) or arguments[-1].nargs == -1):
        return [*verbs, *_names(arguments[min(position, len(arguments) - 1)], ctx, beginning)]
    takes_name = getattr(command, "name_option", "") and not words
    return [*verbs, *(completion.words("NAME", ctx, beginning) if takes_name else [])]


def _number_of_arguments(words: Sequence[str], options: Any) -> int:
    """Return how many of the words are neither options nor their values."""
    number, is_value = 0, False
    for word in words:
        option = options.get(word)
        number += not (is_value or word.startswith("-"))
        is_value = option is not None and not option.is_flag
    return number


def _names(param: Any, ctx: Any, beginning: str) -> list[str]:
    """Return the values that the shell completion offers for an option or argument."""
    return [each.value for each in param.shell_complete(ctx, beginning)]
