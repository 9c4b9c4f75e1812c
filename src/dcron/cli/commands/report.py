"""`report`: what happened to the whole crontab."""

from typing import Annotated

import typer

from dcron.cli import console
from dcron.cli.chosen_tasks import read_selector
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, SelectorOption
from dcron.cli.times import past_time
from dcron.errors import UsageError

FORMATS = ("text", "markdown", "json")


def command(
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Begin at this time: 24h (ago), today [default: yesterday]."
        ),
    ] = "yesterday",
    selector: SelectorOption = None,
    form: Annotated[
        str, typer.Option("--format", metavar="text|markdown|json", help="Format [default: text].")
    ] = "text",
    db: Db = None,
) -> None:
    """Report what failed, was skipped, started late, was lost or was changed.

    \b
    dcron report
    dcron report -l team=shop --since 24h --format markdown
    dcron add -n morning '0 8 * * 1-5' 'dcron report --since 24h'

    It also lists new dead letters, and tasks that take longer than in as much time before.
    """
    from dcron.cli import json_output, report_text
    from dcron.schedule import zone
    from dcron.services.report import Reports

    if form not in FORMATS:
        raise UsageError(f"--format {form!r}: give {', '.join(FORMATS)}")
    chooser = read_selector(selector)
    with opened_crontab(db) as crontab:
        here = zone(own_zone())
        report = Reports(crontab).since(past_time(since, here, crontab.now()), chooser)
    if form == "json":
        console.emit(json_output.report_shape(report))
        return
    lines = report_text.markdown if form == "markdown" else report_text.plain
    for line in lines(report_text.sections(report, here)):
        console.data(line)
