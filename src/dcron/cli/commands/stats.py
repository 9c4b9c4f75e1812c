"""`stats`: statistics of runs."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated

from dcron import policy, presentation, services
from dcron.cli.asking.options import Db, Json, OptionalNames, SelectorOption, option
from dcron.cli.asking.which import tasks_to_read
from dcron.cli.output import console, json_output
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.output.times import past_time
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import UsageError
from dcron.schedule.zones import zone

SPANS = {
    "task": timedelta(days=30),
    "node": timedelta(days=1),
    "queue": timedelta(days=1),
}
"""The groups, and how far back each looks by default. All but tasks are counted from the runs themselves."""
ORDERS = ("slow", "failing", "late", "trend")


def command(
    names: OptionalNames = None,
    selector: SelectorOption = None,
    since: Annotated[
        str | None,
        option(
            "--since",
            "TIME",
            "Begin at this time: 7d (ago), today, 2027-01-01 [default: 30d; 1d if not by task].",
        ),
    ] = None,
    by: Annotated[str, option("--by", "task|node|queue", "What a row of the table is about.")] = "task",
    sort: Annotated[
        str | None,
        option(
            "--sort",
            "slow|failing|late|trend",
            "Begin with the longest p95, the lowest success rate, the latest starts, or the p95 that"
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
    dcron stats --by node --since 7d -l team=shop
    dcron stats --sort trend

    P50, P95 and LONGEST are durations of successful runs; LATE is how late 95 % of the runs started at most.
    CHANGE compares with the same length of time before. A span of a day or more begins at 00:00 UTC.
    """
    if by not in SPANS:
        raise UsageError(f"--by {by!r}: give {', '.join(SPANS)}")
    if sort is not None and sort not in ORDERS:
        raise UsageError(f"--sort {sort!r}: give {', '.join(ORDERS)}")
    with opened_crontab(db) as crontab:
        name, chooser = tasks_to_read(crontab, names, selector)
        now = crontab.now()
        start = past_time(since, zone(own_zone()), now) if since is not None else now - SPANS[by]
        report = services.statistics.RunStatistics(crontab).of(start, name, chooser, by=by)
    found = policy.statistics.ordered(report.found, sort)
    if as_json:
        console.emit_list(json_output.statistics_shape(by, report.span, each) for each in found)
    elif not _print(by, found):
        console.note(f"no runs have ended since {report.span.start:%Y-%m-%d %H:%M} UTC")
    if report.pruned_until:
        console.note(
            f"runs up to {report.pruned_until} have been pruned in part and are missing here; only the"
            " statistics by task outlive them"
        )


def _print(by: str, found: Iterable["policy.statistics.Statistics"]) -> int:
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


def _row(each: "policy.statistics.Statistics") -> list[str]:
    now = each.now
    return [
        f"{each.name} (removed)" if each.is_removed else each.name or "(none)",
        f"{now.runs:,}",
        presentation.statistics.rate(now.success_rate),
        AlarmCell(f"{now.failed:,}") if now.failed else "0",
        AlarmCell(f"{now.lost:,}") if now.lost else "0",
        f"{now.skipped:,}",
        presentation.statistics.duration(now.took.percentile(0.5)),
        presentation.statistics.duration(now.took.percentile(0.95)),
        presentation.statistics.duration(now.longest),
        presentation.statistics.duration(now.late.percentile(0.95)),
        presentation.statistics.work(now),
        presentation.statistics.changes(each),
    ]
