"""The options that verbs share without declaring them: context, consent, form of the output, reason."""

import os
from collections.abc import Callable
from copy import copy
from typing import Any

import typer
from typer.core import TyperOption

from dcron.cli.asking import completion
from dcron.cli.output import console
from dcron.cli.running.help import OUTPUT
from dcron.errors import UsageError

FORMATS = {
    "table": "for people",
    "wide": "a table with more columns",
    "json": "one JSON document",
    "jsonl": "a JSON object a line",
    "csv": "the values of each row",
    "name": "only names, or numbers",
}
OLD_SPELLINGS = {
    "--reason": ("--note", "--message"),
    "--until": ("--to",),
    "--wait-timeout": ("--timeout",),
    "--dry-run": ("-n",),
}
"""Options, and how they were spelled in 0.1 in some verbs. The old spellings are accepted and not shown."""
CONTEXT, CONSENT, OUTPUT_FORM, REASON = "dcron.context", "dcron.consent", "dcron.output", "dcron.reason"
"""Where the context of a verb keeps what these options give."""


def add_shared_options(
    parameters: list[Any], *, asks: bool | None, writes: bool, shows_output: bool | None = True
) -> None:
    """Add the options that verbs share to those of a verb that has declared the others.

    `asks`: the verb asks before it acts (True), or in a protected context only (False), or never (None). A
    verb that `writes` takes the reason. `shows_output`: the help has -o (True), or not; None: there is none.
    """
    names = {parameter.name for parameter in parameters}
    if "db" in names:
        parameters.append(context_option(hidden=True))
    if "as_json" in names and shows_output is not None:
        parameters.append(_output_option(hidden=not shows_output))
    if asks is not None:
        parameters += _consent_options(names, hidden=not asks)
    if writes:
        parameters.append(
            shared_option(["-m", "--reason"], "Why you do it, for `dcron history`.", _keep_reason, "TEXT")
        )
    _accept_old_spellings(parameters)


def shared_option(
    spellings: list[str],
    help: str,
    callback: Callable[[Any, Any, Any], None],
    metavar: str | None = None,
    **more: Any,
) -> TyperOption:
    """Return an option whose value its callback keeps; without a metavar, a flag."""
    return TyperOption(
        param_decls=spellings,
        is_flag=metavar is None,
        metavar=metavar,
        help=help,
        callback=callback,
        expose_value=False,
        required=False,
        **more,
    )


def context_option(*, hidden: bool) -> TyperOption:
    """Return the option --context."""
    help = "Context of the config file to use, such as prod [default: $DCRON_CONTEXT]."
    return shared_option(
        ["-c", "--context"],
        help,
        _choose_context,
        "CONTEXT",
        is_eager=True,
        hidden=hidden,
        autocompletion=lambda ctx, _, incomplete: completion.offers("CONTEXT", ctx, incomplete),
    )


def _choose_context(ctx: Any, _parameter: Any, name: str | None) -> None:
    if name:
        ctx.meta[CONTEXT] = name
        # In the environment, for the programs and threads that this command starts.
        os.environ["DCRON_CONTEXT"] = name
        os.environ.pop("DCRON_DB", None)


def choose_url(ctx: Any) -> None:
    """Note that --db names the database. Raises BadParameter beside --context."""
    if ctx.resilient_parsing:
        return
    if CONTEXT in ctx.meta:
        raise typer.BadParameter("give --db or --context, not both")
    os.environ["DCRON_CONTEXT"] = ""


def _consent_options(names: set[str], *, hidden: bool) -> list[TyperOption]:
    """Return --yes and --confirm, and --dry-run where labels can choose what the verb changes.

    --force is the old spelling of --yes where nothing is forced.
    """
    help = "Agree to a change of this protected context."
    options = [
        shared_option(["-y", "--yes"], "Answer the question with yes.", _kept_as("yes"), hidden=hidden),
        shared_option(["--confirm"], help, _kept_as("confirmed"), "CONTEXT", hidden=hidden),
    ]
    if "selector" in names and "dry_run" not in names:
        help = "Only show what would be done."
        options.insert(1, shared_option(["--dry-run"], help, _kept_as("dry_run")))
    if "force" not in names:
        help = "The old spelling of --yes."
        options.append(shared_option(["-f", "--force"], help, _kept_as("yes"), hidden=True))
    return options


def _kept_as(field: str) -> Callable[[Any, Any, Any], None]:
    """Return what keeps a value as a field of the user's consent."""

    def keep(ctx: Any, _parameter: Any, value: Any) -> None:
        if value:
            ctx.meta.setdefault(CONSENT, {})[field] = value

    return keep


def keep_yes(ctx: Any, parameter: Any, value: bool) -> bool:
    """Note that an option such as --force also answers the question with yes."""
    _kept_as("yes")(ctx, parameter, value)
    return value


def take_consent(ctx: Any) -> None:
    """Let the question of the verb know the options that were typed."""
    given = ctx.meta.get(CONSENT, {})
    if given.get("dry_run") and ctx.params.get("as_json"):
        raise UsageError("--dry-run prints what would be done as text here; leave out --json")
    console.consent = console.Consent(**given)


def _output_option(*, hidden: bool) -> TyperOption:
    return shared_option(
        ["-o", "--output"],
        "Print a table, wide, json, jsonl, csv or name.",
        _choose_output,
        "FORMAT",
        is_eager=True,
        hidden=hidden,
        autocompletion=lambda ctx, _, incomplete: [
            each for each in FORMATS.items() if each[0].startswith(incomplete)
        ],
        rich_help_panel=OUTPUT,
    )


def _choose_output(ctx: Any, _parameter: Any, value: str | None) -> None:
    if value is not None and value not in FORMATS:
        *others, last = FORMATS
        raise UsageError(f"-o {value}: give {', '.join(others)} or {last}")
    ctx.meta[OUTPUT_FORM] = value


def wants_data(ctx: Any, as_json: bool) -> bool:
    """Return whether the verb prints data for programs, by --json or -o. Raises UsageError."""
    chosen = ctx.meta.get(OUTPUT_FORM)
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"give --json or -o {chosen}, not both")
    console.form = "json" if as_json else chosen or "table"
    if console.form in ("csv", "name"):
        _require_rows(" ".join(ctx.command_path.split()[1:]), console.form)
    return console.form not in ("table", "wide")


def _require_rows(verb: str, form: str) -> None:
    """Refuse a format that has nothing to print of this verb's document. Raises UsageError."""
    from dcron.cli.output.documents import own_name, printed

    document, is_list = printed().get(verb, ("", False))
    if not document or own_name(document) or (form == "csv" and is_list):
        return
    raise UsageError(f"-o {form}: {verb} prints no rows with names; -o json prints all it has")


def _keep_reason(ctx: Any, _parameter: Any, value: str | None) -> None:
    ctx.meta[REASON] = value


def _accept_old_spellings(parameters: list[Any]) -> None:
    """Let the options be typed by their old spellings, too, where these mean nothing else."""
    taken = {spelling for parameter in parameters for spelling in parameter.opts}
    for parameter in list(parameters):
        name = max(parameter.opts, key=len)
        if old := [each for each in OLD_SPELLINGS.get(name, ()) if each not in taken]:
            former = copy(parameter)  # with the same name: the parser gives its value to the option
            former.opts, former.hidden, former.expose_value = old, True, False
            former.required = False
            parameters.append(former)
