"""`report`: what happened to the whole crontab."""

from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, SelectorOption, option
from dcron.cli.asking.which import read_selector
from dcron.cli.output import console, json_output, report_text
from dcron.cli.output.times import past_time
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import UsageError
from dcron.schedule.zones import zone

FORMATS = ("text", "json")


def command(
    since: Annotated[
        str, option("--since", "TIME", "Begin at this time: 24h (ago), today [default: yesterday].")
    ] = "yesterday",
    selector: SelectorOption = None,
    form: Annotated[str, option("--format", "text|json", "Format [default: text].")] = "text",
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Report what failed, was skipped, late, lost or changed.

    \b
    dcron report
    dcron report -l team=shop --since 24h
    dcron add -n morning '0 8 * * 1-5' 'dcron report --since 24h'

    It also lists new dead letters, and tasks that take longer than in as much time before.
    """
    if form not in FORMATS:
        raise UsageError(f"--format {form!r}: give {', '.join(FORMATS)}")
    chooser = read_selector(selector)
    with opened_crontab(db) as crontab:
        here = zone(own_zone())
        report = services.report.Reports(crontab).since(past_time(since, here, crontab.now()), chooser)
    if as_json or form == "json":
        console.emit(json_output.report_shape(report))
        return
    for line in report_text.plain(report_text.sections(report, here)):
        console.data(line)
