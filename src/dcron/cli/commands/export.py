"""`export`: the crontab as a file."""

import sys
from typing import Annotated, Literal

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db
from dcron.safetext import safe_lines

SHOWN = 20
"""Names of tasks that a warning lists."""


def command(
    form: Annotated[
        Literal["crontab"], typer.Option("--format", metavar="crontab", help="The form of the file.")
    ] = "crontab",
    system: Annotated[
        bool, typer.Option("--system", help="Each line names its account, as in /etc/cron.d.")
    ] = False,
    db: Db = None,
) -> None:
    """Print the crontab as a file. `dcron import` reads it back; one-offs are left out.

    \b
    dcron export > crontab
    dcron export --system > /etc/cron.d/from-dcron
    """
    from dcron.crontabfile import write

    with opened_crontab(db) as crontab:
        lines = crontab.export_tasks()
    text = write(lines, system=system)
    text = text.encode(errors="replace").decode()  # a row that was written by hand may hold any bytes
    sys.stdout.write(safe_lines(text) if console.is_terminal() else text)
    if left := [line.name for line in lines if (line.user is None) is system]:
        shown = ", ".join(left[:SHOWN]) + (", …" if len(left) > SHOWN else "")
        if system:
            why, remedy = "no account is given", "`dcron set NAME --user ACCOUNT` gives one"
        else:
            why, remedy = "an account is given", "`dcron export --system` writes a line with it"
        console.complain(f"warning: {why} for {shown}: in comments, which cron does not run; {remedy}")
