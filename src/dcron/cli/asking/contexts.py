"""The options --context, --yes and --confirm of the verbs that need them, and what they choose."""

import os
from typing import Any

import typer
from typer.core import TyperOption

from dcron.cli.asking import completion
from dcron.cli.output import console
from dcron.errors import UsageError

_CHOSEN = "dcron.context"
"""The note on a command line that it has --context."""
_CONSENT = "dcron.consent"
"""Where the context of a verb keeps what the user agrees to."""


def add_options(parameters: list[Any]) -> None:
    """Add --context to a verb with --db. It keeps its help short."""
    if "db" in {parameter.name for parameter in parameters}:
        parameters.append(context_option(hidden=True))


def add_consent(parameters: list[Any], *, hidden: bool) -> None:
    """Add --yes and --confirm to a verb that writes, and --dry-run if labels can choose what it changes.

    --force is the old spelling of --yes where nothing is forced. The options are `hidden` where the verb asks
    only in a protected context.
    """
    names = {parameter.name for parameter in parameters}
    parameters.append(_consent_option("yes", ["-y", "--yes"], "Answer the question with yes.", hidden=hidden))
    if "force" not in names:
        parameters.append(
            _consent_option("yes", ["-f", "--force"], "The old spelling of --yes.", hidden=True)
        )
    if "selector" in names and "dry_run" not in names:
        help = "Only show what would be done."
        parameters.append(_consent_option("dry_run", ["--dry-run"], help, hidden=False))
    parameters.append(
        _consent_option(
            "confirmed",
            ["--confirm"],
            "Agree to a change of this protected context.",
            hidden=hidden,
            metavar="CONTEXT",
        )
    )


def keep_yes(ctx: Any, _parameter: Any, value: bool) -> bool:
    """Note that an option such as --force also answers the question with yes."""
    if value:
        ctx.meta.setdefault(_CONSENT, {})["yes"] = True
    return value


def take_consent(ctx: Any) -> None:
    """Let the question of the verb know the options that were typed."""
    given = ctx.meta.get(_CONSENT, {})
    if given.get("dry_run") and ctx.params.get("as_json"):
        raise UsageError("--dry-run prints what would be done as text here; leave out --json")
    console.consent = console.Consent(**given)


def _consent_option(
    field: str, spellings: list[str], help: str, *, hidden: bool, metavar: str | None = None
) -> TyperOption:
    def keep(ctx: Any, _parameter: Any, value: Any) -> None:
        if value:
            ctx.meta.setdefault(_CONSENT, {})[field] = value

    return TyperOption(
        param_decls=spellings,
        is_flag=metavar is None,
        metavar=metavar,
        help=help,
        hidden=hidden,
        callback=keep,
        expose_value=False,
        required=False,
    )


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


def _choose(ctx: Any, parameter: Any, name: str | None) -> None:
    if name:
        ctx.meta[_CHOSEN] = name
        # In the environment, for the programs and threads that this command starts.
        os.environ["DCRON_CONTEXT"] = name
        os.environ.pop("DCRON_DB", None)


def choose_url(ctx: Any) -> None:
    """Note that --db names the database. Raises BadParameter beside --context."""
    if ctx.resilient_parsing:
        return
    if _CHOSEN in ctx.meta:
        raise typer.BadParameter("give --db or --context, not both")
    os.environ["DCRON_CONTEXT"] = ""
