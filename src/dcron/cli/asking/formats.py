"""What a verb prints: a table for people, or the same rows as JSON, JSON lines, CSV or names (-o)."""

from typing import Any

from typer.core import TyperOption

from dcron.cli.output import console
from dcron.cli.output.documents import own_name, printed
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
_CHOSEN = "dcron.output"
"""Where the context of a verb keeps the format that -o gives."""


def add_option(parameters: list[Any], *, hidden: bool) -> None:
    """Add -o to a verb with --json."""
    if any(parameter.name == "as_json" for parameter in parameters):
        parameters.append(
            TyperOption(
                param_decls=["-o", "--output"],
                metavar="FORMAT",
                help="Print a table, wide, json, jsonl, csv or name.",
                callback=_choose,
                expose_value=False,
                is_eager=True,
                hidden=hidden,
                autocompletion=lambda ctx, _, incomplete: [
                    each for each in FORMATS.items() if each[0].startswith(incomplete)
                ],
                required=False,
                rich_help_panel=OUTPUT,
            )
        )


def _choose(ctx: Any, parameter: Any, value: str | None) -> None:
    if value is not None and value not in FORMATS:
        *others, last = FORMATS
        raise UsageError(f"-o {value}: give {', '.join(others)} or {last}")
    ctx.meta[_CHOSEN] = value


def wants_data(ctx: Any, as_json: bool) -> bool:
    """Return whether the verb prints data for programs, by --json or -o. Raises UsageError."""
    chosen = ctx.meta.get(_CHOSEN)
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"give --json or -o {chosen}, not both")
    console.form = "json" if as_json else chosen or "table"
    if console.form in ("csv", "name"):
        _require_rows(" ".join(ctx.command_path.split()[1:]), console.form)
    return console.form not in ("table", "wide")


def _require_rows(verb: str, form: str) -> None:
    """Refuse a format that has nothing to print of this verb's document. Raises UsageError."""
    document, is_list = printed().get(verb, ("", False))
    if not document or own_name(document) or (form == "csv" and is_list):
        return
    raise UsageError(f"-o {form}: {verb} prints no rows with names; -o json prints all it has")
