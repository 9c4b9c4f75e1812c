"""`doctor`: what needs an operator's attention."""

import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dcron import config, presentation, services
from dcron.cli.asking.options import Db, Json, flag
from dcron.cli.output import console
from dcron.cli.output.colours import Title
from dcron.cli.output.documents import make
from dcron.cli.output.tables import shown_line
from dcron.cli.running.context import opened_database, require_named_file
from dcron.errors import ExitCode, UsageError
from dcron.values.safe_text import safe


def command(
    deep: Annotated[
        bool, flag("--deep", "Also read a whole SQLite file for damage: about 1 s for each GB.")
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
    with opened_database(db) as database:
        require_named_file(database)
        found = services.doctor.Doctor(database, _spool()).examine(deep=deep)
    if as_json:
        console.emit(_shape(found))
    else:
        for finding in found:
            _print(finding)
        if not found:
            console.note("the doctor found nothing")
    if found:
        raise typer.Exit(ExitCode.FAILED)


def _spool() -> Path | None:
    """Return the spool of an agent that this account starts here."""
    try:
        return config.files.spool_directory(config.files.load_config())
    except UsageError:
        return None


def _print(finding: "presentation.doctor.Finding") -> None:
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


def _shape(found: "Sequence[presentation.doctor.Finding]") -> dict[str, Any]:
    return make("doctor", findings=[make("problem", each) for each in found])
