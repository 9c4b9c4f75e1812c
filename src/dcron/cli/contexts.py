"""The options --context and --confirm, which every verb has that needs them, and what they choose."""

import os
from typing import Any

import typer
from typer.core import TyperOption

from dcron.cli import completion, console

_CHOSEN = "dcron.context"
"""The note on a command line that it has --context."""


def add_options(parameters: list[Any]) -> None:
    """Add --context to a verb with --db, and --confirm to a verb with --force. They keep its help short."""
    names = {parameter.name for parameter in parameters}
    if "db" in names:
        parameters.append(context_option(hidden=True))
    if "force" in names:
        parameters.append(_confirm_option())


def context_option(*, hidden: bool) -> TyperOption:
    """Return the option --context."""
    return TyperOption(
        param_decls=["-c", "--context"],
        metavar="CONTEXT",
        help="Context of the config file to use, such as prod [default: $DCRON_CONTEXT].",
        callback=_choose,
        expose_value=False,
        is_eager=True,
        hidden=hidden,
        autocompletion=lambda ctx, _, incomplete: completion.offers("CONTEXT", ctx, incomplete),
        required=False,
    )


def _confirm_option() -> TyperOption:
    return TyperOption(
        param_decls=["--confirm"],
        metavar="CONTEXT",
        help="With --force: the name of the protected context to change.",
        callback=_confirm,
        expose_value=False,
        required=False,
    )


def _choose(ctx: Any, parameter: Any, name: str | None) -> None:
    if name:
        ctx.meta[_CHOSEN] = name
        # In the environment, for the programs and threads that this command starts.
        os.environ["DCRON_CONTEXT"] = name
        os.environ.pop("DCRON_DB", None)


def _confirm(ctx: Any, parameter: Any, name: str | None) -> None:
    console.consent.confirmed = name


def choose_url(ctx: Any) -> None:
    """Note that --db names the database. Raises BadParameter beside --context."""
    if ctx.resilient_parsing:
        return
    if _CHOSEN in ctx.meta:
        raise typer.BadParameter("give --db or --context, not both")
    os.environ["DCRON_CONTEXT"] = ""
