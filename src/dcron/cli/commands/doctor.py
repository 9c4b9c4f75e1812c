"""`doctor`: what needs an operator's attention."""

import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.colours import Title
from dcron.cli.context import opened_database, require_named_file
from dcron.cli.options import Db, Json
from dcron.cli.tables import shown_line
from dcron.errors import ExitCode
from dcron.safetext import safe

if TYPE_CHECKING:
    from dcron.services.doctor import Finding


def command(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read a whole SQLite file for damage: about 1 s for each GB.")
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Look for what needs an operator's attention.

    \b
    dcron doctor
    dcron doctor --deep
    dcron doctor --json

    It examines the nodes, the tasks, the database and this machine, and changes nothing. A finding says what
    it is, what it causes, what to do. Off a terminal each one is one line. The exit code is 1 if there are
    findings.
    """
    from dcron.services.doctor import Doctor

    with opened_database(db) as database:
        require_named_file(database)
        found = Doctor(database).examine(deep=deep)
    if as_json:
        console.emit({"findings": list(map(_shape, found))})
    else:
        for finding in found:
            _print(finding)
        if not found:
            console.note("the doctor found nothing")
    if found:
        raise typer.Exit(ExitCode.FAILED)


def _print(finding: "Finding") -> None:
    """Print the finding on one line; on a terminal, its code and its parts on lines of their own."""
    if not console.is_terminal():
        console.data(f"{finding.code}: {finding.sentence}")
        return
    console.drawn(shown_line(Title(finding.code)))
    for part in (finding.problem, finding.effect, finding.advice):
        for line in _wrapped(safe(part), shutil.get_terminal_size().columns):
            console.drawn(line)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the text as indented lines. A command in backticks is not broken."""
    whole = re.sub("`[^`]+`", lambda command: command[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(
        whole,
        width,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _shape(finding: "Finding") -> dict[str, Any]:
    return {
        "code": finding.code,
        "problem": finding.problem,
        "effect": finding.effect,
        "advice": finding.advice,
        "subjects": list(finding.subjects),
    }
