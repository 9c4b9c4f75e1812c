"""`forecast`: whether the agents suffice for the coming runs."""

from typing import Annotated, Any

import typer

from dcron import policy, services
from dcron.cli.asking.options import Db, Json, option, whole_number
from dcron.cli.asking.source_options import Prune, edits_of, places_printed, read_files
from dcron.cli.output import console, forecast_text, json_output
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import ExitCode, UsageError
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone
from dcron.values.quantities import parse_duration


def command(
    until: Annotated[str, option("--until", "TIME", "End: 06:00, tomorrow, +2d [default: +24h].")] = "+24h",
    without: Annotated[
        list[str] | None, option("--without", "NODE", "As if this node were gone; repeatable.")
    ] = None,
    slots: Annotated[
        int | None,
        option(
            "--slots",
            "N",
            "As if each agent had N slots, or one agent if none is running.",
            parser=whole_number(1, 10_000),
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        option("-F", "--file", "FILE|DIR|-", "As if these files were applied; needs --source."),
    ] = None,
    source: Annotated[
        str | None, option("--source", "SOURCE", "Source of the files, as for `dcron apply`.")
    ] = None,
    prune: Prune = False,
    quiet: Annotated[
        str | None,
        option("--quiet", "DURATION", "Find the times in which nothing starts by itself for this long: 20m."),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Forecast which runs will wait or be skipped, and what would help.

    \b
    dcron forecast
    dcron forecast --until 06:00 --without web-3
    dcron forecast --slots 24
    dcron forecast -F cron/ --source shop/cron
    dcron forecast --quiet 20m

    It plays the coming runs of all tasks against the slots of the agents. A run takes as long as one of the
    last 50 successful runs of its task. Every run succeeds: retries are left out, and so are events and what
    people run by hand. Nothing is written.

    --quiet lists times without a start, the nearest first, and the runs that will still be active then. The
    exit code is 1 if there is no such time.
    """
    if (file is None) != (source is None) or (prune and not file):
        raise UsageError("give -F and --source together, as to `dcron apply`; --prune only with them")
    if quiet is not None and (without or slots or file):
        raise UsageError("--quiet takes only --until beside it")
    here = zone(own_zone())
    if quiet is not None:
        _print_quiet(db, here, until, quiet, as_json=as_json)
        return
    with opened_crontab(db) as crontab, places_printed():
        end = parse_time(until, here, crontab.now())
        edits = _edits(crontab, file, source, prune=prune) if file and source else []
        outlook = services.forecast.Forecast(crontab).of(end, without or (), slots, edits, here=here)
    if as_json:
        console.emit(json_output.forecast_shape(outlook, here.key))
    else:
        forecast_text.print_outlook(outlook, here)
    for name, problem in outlook.left_out.unreadable:
        console.complain(f"warning: {name} is omitted: {problem}")


def _print_quiet(db: str | None, here: Any, until: str, length: str, *, as_json: bool) -> None:
    """Print the times in which nothing starts by itself. Raises Exit if there are none."""
    seconds = parse_duration(length)
    with opened_crontab(db) as crontab:
        found = services.forecast.Forecast(crontab).quiet(parse_time(until, here, crontab.now()), seconds)
    if as_json:
        console.emit(json_output.quiet_shape(found, here.key))
    else:
        forecast_text.print_quiet(found, seconds, here)
    for name, problem in found.left_out.unreadable:
        console.complain(f"warning: {name} is omitted: {problem}")
    if not found.times:
        raise typer.Exit(ExitCode.FAILED)


def _edits(
    crontab: "services.crontab.Crontab", files: list[str], source: str, *, prune: bool
) -> "list[services.forecast.Edit]":
    """Return what applying these files would change."""
    content = read_files(crontab, files, None)
    plan = services.changes.applied.Apply(crontab).check(
        content.tasks, services.changes.applied.Request(source, policy.ownership.Permissions(prune=prune))
    )
    return edits_of(plan)
