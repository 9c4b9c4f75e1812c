"""`export`: print the crontab as a file."""

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from dcron.cli import console
from dcron.cli.chosen_tasks import read_selector
from dcron.cli.context import opened_crontab
from dcron.cli.options import At, Db, SelectorOption
from dcron.cli.past_crontab import read_past
from dcron.errors import UsageError
from dcron.model import Definition
from dcron.safetext import safe_lines

SHOWN = 20
"""Names of tasks that a warning lists."""


def command(
    form: Annotated[
        Literal["text", "json", "toml", "crontab"],
        typer.Option("--format", metavar="text|json|toml", help="Format: text is a crontab."),
    ] = "text",
    system: Annotated[
        bool, typer.Option("--system", help="Write an account in each line, as in /etc/cron.d.")
    ] = False,
    selector: SelectorOption = None,
    at: At = None,
    db: Db = None,
) -> None:
    """Print the crontab as a file: a crontab, JSON or TOML.

    \b
    dcron export > crontab
    dcron export --system > /etc/cron.d/from-dcron
    dcron export --format toml > tasks.toml
    dcron export --at yesterday
    dcron export -l team=shop > shop.cron

    `dcron import` reads a crontab, `dcron lint` all three. One-offs are omitted.
    """
    from dcron import sources

    format = "text" if form == "crontab" else form
    if system and format != "text":
        raise UsageError(f"--system is for crontabs: leave it out, or --format {format}")
    chooser = read_selector(selector)
    with opened_crontab(db) as crontab:
        tasks = crontab.export_tasks(chooser) if at is None else read_past(crontab, at).exported
    if chooser:
        tasks = [task for task in tasks if chooser.matches(task.labels)]
    text = sources.write(tasks, format, system=system)
    text = text.encode(errors="replace").decode()  # a row edited by hand may hold any bytes
    sys.stdout.write(safe_lines(text) if console.is_terminal() else text)
    if format == "text":
        _warn_of_comments(tasks, system=system)


def _warn_of_comments(tasks: Sequence[Definition], *, system: bool) -> None:
    """Name the tasks that cron does not run, because a crontab has no place for their accounts."""
    from dcron.presentation.humanize import first_few

    if left := [task.name for task in tasks if (task.user is None) is system]:
        shown = first_few(left, SHOWN)
        if system:
            why, remedy = "no account is given", "`dcron set NAME --user ACCOUNT` gives one"
        else:
            why, remedy = "an account is given", "`dcron export --system` writes a line with it"
        console.complain(
            f"warning: {why} for {shown}: written as comments, which cron does not run; {remedy}"
        )
