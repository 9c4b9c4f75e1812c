"""`stats`: statistics of runs."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.chosen_tasks import read_selector
from dcron.cli.colours import AlarmCell
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, Json, OptionalName, SelectorOption
from dcron.cli.tables import TableColumn, print_table
from dcron.cli.times import past_time
from dcron.errors import UsageError

if TYPE_CHECKING:
    from dcron.policy.selectors import Selector
    from dcron.policy.statistics import Statistics
    from dcron.services.crontab import Crontab
    from dcron.services.statistics import Report

SPANS = {
    "task": timedelta(days=30),
    "node": timedelta(days=1),
    "queue": timedelta(days=1),
    "hour": timedelta(days=1),
}
"""The groups, and how far back each looks by default. All but tasks are counted from the runs themselves."""
ORDERS = ("slow", "failing", "late", "trend")


def command(
    name: OptionalName = None,
    selector: SelectorOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Begin at this time: 7d (ago), today, 2027-01-01 [default: 30d; 1d if not by task].",
        ),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="task|node|queue|hour", help="What a row of the table is about.")
    ] = "task",
    sort: Annotated[
        str | None,
        typer.Option(
            "--sort",
            metavar="slow|failing|late|trend",
            help="Begin with the longest p95, the lowest success rate, the latest starts, or the p95 that"
            " has grown most [default: by name].",
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show success rates, durations, lateness and hours of work.

    \b
    dcron stats
    dcron stats backup --since 90d
    dcron stats --by hour --since 7d -l team=shop
    dcron stats --sort trend

    P50, P95 and LONGEST are durations of successful runs; LATE is how late 95 % of the runs started at most.
    CHANGE compares with the same length of time before. A span of a day or more begins at 00:00 UTC.
    """
    from dcron.cli import json_output
    from dcron.policy.statistics import ordered

    if by not in SPANS:
        raise UsageError(f"--by {by!r}: give {', '.join(SPANS)}")
    if sort is not None and sort not in ORDERS:
        raise UsageError(f"--sort {sort!r}: give {', '.join(ORDERS)}")
    chooser = read_selector(selector, name)
    with opened_crontab(db) as crontab:
        report = _report(crontab, by, since, name, chooser)
    found = ordered(report.found, sort)
    if as_json:
        console.emit_list(json_output.statistics_shape(by, report.span, each) for each in found)
    elif not _print(by, found):
        console.note(f"no runs have ended since {report.span.start:%Y-%m-%d %H:%M} UTC")
    if report.pruned_until:
        console.note(
            f"runs up to {report.pruned_until} have been pruned in part and are missing here; only the"
            " statistics by task outlive them"
        )


def _report(
    crontab: "Crontab", by: str, since: str | None, name: str | None, chooser: "Selector | None"
) -> "Report":
    from dcron.schedule import zone
    from dcron.services.statistics import RunStatistics

    statistics, here, now = RunStatistics(crontab), zone(own_zone()), crontab.now()
    start = past_time(since, here, now) if since is not None else now - SPANS[by]
    match by:
        case "node":
            return statistics.by_node(start, name, chooser)
        case "queue":
            return statistics.by_queue(start, name, chooser)
        case "hour":
            return statistics.by_hour(start, here, name, chooser)
    return statistics.by_task(start, name, chooser)


def _print(by: str, found: Iterable["Statistics"]) -> int:
    columns = [
        TableColumn(by.upper(), least=10),
        TableColumn("RUNS", right=True),
        TableColumn("OK", right=True),
        TableColumn("FAILED", right=True),
        TableColumn("LOST", right=True, spare=True),
        TableColumn("SKIPPED", right=True, spare=True),
        TableColumn("P50", right=True),
        TableColumn("P95", right=True),
        TableColumn("LONGEST", right=True, spare=True),
        TableColumn("LATE", right=True),
        TableColumn("WORK", right=True, spare=True),
        TableColumn("CHANGE", least=8),
    ]
    return print_table(columns, map(_row, found))


def _row(each: "Statistics") -> list[str]:
    from dcron.presentation import statistics

    now = each.now
    return [
        f"{each.name} (removed)" if each.is_removed else each.name or "(none)",
        f"{now.runs:,}",
        statistics.rate(now.success_rate),
        AlarmCell(f"{now.failed:,}") if now.failed else "0",
        AlarmCell(f"{now.lost:,}") if now.lost else "0",
        f"{now.skipped:,}",
        statistics.duration(now.took.percentile(0.5)),
        statistics.duration(now.took.percentile(0.95)),
        statistics.duration(now.longest),
        statistics.duration(now.late.percentile(0.95)),
        statistics.work(now),
        statistics.changes(each),
    ]
