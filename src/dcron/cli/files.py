"""`export`: the crontab as a file."""

import sys
from typing import Annotated, Literal

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab
from dcron.cli.parameters import Db
from dcron.safetext import safe_lines


def export(
    form: Annotated[
        Literal["crontab"], typer.Option("--format", metavar="crontab", help="The form of the file.")
    ] = "crontab",
    db: Db = None,
) -> None:
    """Print the crontab as a file. `dcron import` reads it back; one-offs are left out."""
    from dcron.crontabfile import write

    with opened_crontab(db) as crontab:
        text = write(crontab.export_lines())
    text = text.encode(errors="replace").decode()  # a row that was written by hand may hold any bytes
    sys.stdout.write(safe_lines(text) if printing.is_terminal() else text)
