"""Write the man page and the completion files from what the command line says of itself.

The build of a wheel does that (scripts/build_hook.py). By hand: `python -m scripts.man DIRECTORY`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer._completion_shared import get_completion_script
from typer.main import get_command

from dcron import __version__, errors
from dcron.cli import app
from dcron.cli.running import help
from dcron.cli.running.topics import TOPICS
from dcron.cli.running.verbs import GROUPS, VERBS, first_screen

FILES = {
    "dcron.1": "share/man/man1/dcron.1",
    "dcron": "share/bash-completion/completions/dcron",
    "_dcron": "share/zsh/site-functions/_dcron",
    "dcron.fish": "share/fish/vendor_completions.d/dcron.fish",
}
"""The files, and where they belong below the prefix of an installation."""
_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga"})
PAGES = ("schedules", "times", "names", "consent", "json", "contexts")
"""Topics of `dcron help` that are sections of the man page."""
_SHELLS = {"dcron": "bash", "_dcron": "zsh", "dcron.fish": "fish"}
_ENVIRONMENT = {
    "DCRON_DB": "URL of the database: sqlite:////srv/dcron.db or postgresql://cron@db.example.org/cron.",
    "DCRON_CONFIG": "Config file to read instead of the two below.",
    "DCRON_SPOOL": "Directory in which an agent keeps results that the database does not have yet.",
    "DCRON_PATIENCE": "How long a command waits for a locked database, such as 30s [default: 10s].",
    "NO_COLOR": "Print no colours.",
}
_CONFIG_FILES = {
    "/etc/dcron/config.toml": "Settings of the machine.",
    "~/.config/dcron/config.toml": "Settings of the user; they win.",
    "~/.local/share/dcron/dcron.db": "The database of a user who names no other.",
}


def page() -> str:
    """Return the man page, in the macros of man(7)."""
    command = get_command(app.app)
    sentence = command.help or ""
    lines = [
        f'.TH DCRON 1 "" "dcron {_escaped(__version__)}" "User Commands"',
        ".SH NAME",
        f"dcron \\- {_escaped(sentence[0].lower() + sentence[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B dcron",
        "[\\-c CONTEXT] VERB [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        *_lines_of(first_screen().split("\n", 2)[2]),
    ]
    for group in GROUPS:
        lines.append(f".SH {group.upper()}")
        for name, verb in VERBS.items():
            if verb.group == group:
                lines += _verb(f"dcron {name}", app._load(name))
    lines += [".SH GLOBAL OPTIONS", *_global_options(command)]
    for topic in PAGES:
        lines += [f".SH {topic.upper()}", *_lines_of(TOPICS[topic].strip("\n"))]
    lines += [".SH EXIT STATUS", *_pairs(_exit_codes())]
    lines += [".SH ENVIRONMENT", *_pairs(_ENVIRONMENT), ".SH FILES", *_pairs(_CONFIG_FILES)]
    return "\n".join([*lines, ".SH EXAMPLES", *_lines_of(cheat_sheet()), ""])


def cheat_sheet() -> str:
    """Return the everyday commands of README.md; a source distribution has it, too."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    return text.partition("## Everyday commands")[2].split("```")[1].partition("\n")[2].rstrip("\n")


def write(directory: Path) -> None:
    """Write all files into this directory, under the names of FILES."""
    (directory / "dcron.1").write_text(page())
    for name, shell in _SHELLS.items():
        script = get_completion_script(prog_name="dcron", complete_var="_DCRON_COMPLETE", shell=shell)
        (directory / name).write_text(script + "\n")


def _verb(name: str, command: Any) -> Iterator[str]:
    """Yield the section of a verb, and those of its own verbs."""
    context = typer.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_escaped(f'{name} {usage}')}"
    yield from _text(_paragraphs(command.help or ""))
    yield from _parameters(command, context)
    for inner in getattr(command, "commands", {}).values():
        if not inner.hidden:
            yield from _verb(f"{name} {inner.name}", inner)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    """Yield the parameters that are the verb's own."""
    own = (parameter for parameter in command.params if not help.is_shared(parameter))
    for entries in help.sections_of(own, context).values():
        for spelling, text in entries:
            yield from _pair(spelling, text)


def _global_options(command: Any) -> Iterator[str]:
    """Yield the options of dcron itself, and those that mean the same in all verbs."""
    shared = [each for name in ("pause", "list", "freeze") for each in app._load(name).params]
    found: dict[str, str] = {}
    for parameter in (*command.params, *filter(help.is_shared, shared)):
        parameter.hidden = False
        for entries in help.sections_of([parameter], typer.Context(command)).values():
            found |= {spelling: found.get(spelling, text) for spelling, text in entries}
    yield from _pairs(found)


def _lines_of(text: str) -> Iterator[str]:
    """Yield lines as they are."""
    yield from (".PP", ".nf", *map(_escaped, text.splitlines()), ".fi")


def _pairs(texts: dict[str, str]) -> Iterator[str]:
    for name, text in texts.items():
        yield from _pair(name, text)


def _pair(name: str, text: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{_escaped(name)}\\fR", _escaped(" ".join(text.split())))


def _paragraphs(text: str) -> list[str]:
    return inspect.cleandoc(text).split("\n\n")


def _text(paragraphs: list[str]) -> Iterator[str]:
    """Yield paragraphs; one that begins with \\b keeps its lines, as in the help."""
    for paragraph in paragraphs:
        yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *map(_escaped, paragraph.splitlines()[1:]), ".fi")
        else:
            yield _escaped(" ".join(paragraph.split()))


def _escaped(text: str) -> str:
    found = text.translate(_ESCAPES)
    found = re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match[0]):04X}]", found)
    return f"\\&{found}" if found.startswith(".") else found


def _exit_codes() -> dict[str, str]:
    """Return the meaning of each exit code, as the source says it."""
    [tree] = ast.parse(inspect.getsource(errors.ExitCode)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for member, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            found[str(ast.literal_eval(member.value))] = str(ast.literal_eval(text.value))
    return found


if __name__ == "__main__":
    write(Path(sys.argv[1]))
