"""Print the options of a verb in sections, each with its title in the left margin."""

import re
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

SECTIONS = ("What", "When", "Limits", "Retries", "Where", "Alerts", "Options", "Output")
"""The order of the sections. A parameter names its own by `rich_help_panel`."""
OUTPUT = "Output"
VERB = "VERB ..."
"""How a usage line names the verb, and what follows it."""
WIDEST_OPTION = 22
"""Cells of an option. A longer value is shown as a word; a longer option has its help on the next line."""
SHARED = ("--reason", "--yes", "--confirm", "--json", "--output", "--db", "--context", "--help")
"""Options that mean the same in all verbs: the help of a verb has one line for all of them."""
_WORDS = {"CALENDAR|none": "NAME", "SELECTOR": "K=V", "high|normal|low": "LEVEL", "skip|last|all": "WHICH"}
"""The word for a long value; HOW, if the value is a choice of others."""
_ON_OFF = re.compile(r"--(\S+) / --no-\1$")
Entry = tuple[str, str]
"""An option or argument as it is typed, and its help."""


def format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments and options of a typer command, section by section, and those that verbs share."""
    parameters = command.get_params(ctx)
    sections = sections_of((each for each in parameters if not is_shared(each)), ctx)
    shared = ", ".join(_short_spelling(each) for each in parameters if is_shared(each))
    margin = max(map(len, [*sections, "Also"])) + len(": ")
    sections = {title: [(_fitting(option), text) for option, text in sections[title]] for title in sections}
    spellings = [spelling for entries in sections.values() for spelling, _ in entries]
    column = max((len(each) for each in spellings if len(each) <= WIDEST_OPTION), default=0) + 2
    formatter.write("\n")
    for title, entries in sections.items():
        heading = f"{title}:"
        for entry in entries:
            for line in _lines(entry, column, formatter.width - margin - column):
                formatter.write(f" {heading:<{margin}}{line}".rstrip() + "\n")
                heading = ""
    for number, line in enumerate(wrap(f"{shared} (dcron help options)", formatter.width - margin - 1)):
        formatter.write(f" {'' if number else 'Also:':<{margin}}{line}\n")


def is_shared(parameter: Any) -> bool:
    """Return whether a parameter is an option that means the same in all verbs."""
    is_old = parameter.hidden and parameter.name != "context"
    return not is_old and any(each in SHARED for each in parameter.opts)


def _short_spelling(parameter: Any) -> str:
    """Return the shortest spelling of an option, with its value: `-c NAME`."""
    return f"{min(parameter.opts, key=len)} {'' if parameter.is_flag else parameter.metavar}".rstrip()


def _fitting(spelling: str) -> str:
    """Return the spelling of an option with a shorter value, if it is too long."""
    option, _, value = spelling.rpartition(" ")
    if len(spelling) <= WIDEST_OPTION or not option.startswith("-"):
        return spelling
    word = _WORDS.get(value) or ("HOW" if re.fullmatch(r"[a-z|-]+", value) else value.split("|")[0])
    return f"{option} {word}"


def sections_of(parameters: Iterable[Any], ctx: Any) -> dict[str, list[Entry]]:
    """Return the entries of each section that has any."""
    found: dict[str, list[Entry]] = {title: [] for title in SECTIONS}
    for each in parameters:
        if record := each.get_help_record(ctx):
            is_argument = each.param_type_name == "argument"
            title = getattr(each, "rich_help_panel", None) or ("What" if is_argument else "Options")
            spelling = _ON_OFF.sub(r"--[no-]\1", record[0])
            entries = found.setdefault(title.capitalize(), [])
            entry = (spelling, _help(each))
            entries[-1:] = (
                [pair] if entries and (pair := _pair(entries[-1], entry)) else [*entries[-1:], entry]
            )
    return {title: entries for title, entries in found.items() if entries}


def _pair(entry: Entry, other: Entry) -> Entry | None:
    """Return one entry for two options with the same value and help: `--except, --only CALENDAR`."""
    (spelling, help), (other_spelling, other_help) = entry, other
    name, _, metavar = spelling.partition(" ")
    _, _, other_metavar = other_spelling.partition(" ")
    if help != other_help or not metavar or metavar != other_metavar:
        return None
    return f"{name}, {other_spelling}", help


def _help(parameter: Any) -> str:
    """Return the help of a parameter, with its default where the text has none."""
    text = str(parameter.help)
    shows_default = not callable(parameter.default) and parameter.default not in (None, "", False, [])
    if shows_default and parameter.show_default and "[default:" not in text:
        return f"{text.removesuffix('.')} [default: {parameter.default}]."
    if parameter.required and parameter.param_type_name == "option":
        return f"{text.removesuffix('.')} [required]."
    return text


def _lines(entry: Entry, column: int, width: int) -> Iterator[str]:
    """Yield the lines of one entry: the option, and its help beside or below it."""
    spelling, text = entry
    lines = wrap(text, max(width, 20), break_on_hyphens=False)
    if len(spelling) > column - 2:
        yield spelling
        spelling = ""
    for number, line in enumerate(lines or [""]):
        yield f"{'' if number else spelling:<{column}}{line}"
