"""`forecast`: whether the agents suffice for the coming runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, Json, whole_number
from dcron.cli.source_options import Prune, edits_of, places_printed, read_files
from dcron.errors import UsageError

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.services.forecast import Edit

Until = Annotated[
    str,
    typer.Option("--until", metavar="TIME", help="End: 06:00, tomorrow, +2d [default: +24h]."),
]


def command(
    until: Until = "+24h",
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NODE", help="As if this node were gone; repeatable."),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            metavar="N",
            help="As if each agent had N slots, or one agent if none is running.",
            parser=whole_number(1, 10_000),
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "-F", "--file", metavar="FILE|DIR|-", help="As if these files were applied; needs --source."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="SOURCE", help="Source of the files, as for `dcron apply`."),
    ] = None,
    prune: Prune = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Forecast which runs will wait or be skipped, and what would help.

    \b
    dcron forecast
    dcron forecast --until 06:00 --without web-3
    dcron forecast --slots 24
    dcron forecast -F cron/ --source shop/cron

    It plays the coming runs of all tasks against the slots of the agents. A run takes as long as one of the
    last 50 successful runs of its task. Every run succeeds: retries are left out, and so are events and what
    people run by hand. Nothing is written.
    """
    from dcron.cli import forecast_text, json_output
    from dcron.schedule import parse_time, zone
    from dcron.services.forecast import Forecast

    if (file is None) != (source is None) or (prune and not file):
        raise UsageError("give -F and --source together, as to `dcron apply`; --prune only with them")
    here = zone(own_zone())
    with opened_crontab(db) as crontab, places_printed():
        end = parse_time(until, here, crontab.now())
        edits = _edits(crontab, file, source, prune=prune) if file and source else []
        outlook = Forecast(crontab).of(end, without or (), slots, edits, here=here)
    if as_json:
        console.emit(json_output.forecast_shape(outlook, here.key))
    else:
        forecast_text.print_outlook(outlook, here)
    for name, problem in outlook.left_out.unreadable:
        console.complain(f"warning: {name} is omitted: {problem}")


def _edits(crontab: "Crontab", files: list[str], source: str, *, prune: bool) -> "list[Edit]":
    """Return what applying these files would change."""
    from dcron.policy.ownership import Permissions
    from dcron.services.apply import Apply, Request

    content = read_files(crontab, files, None)
    plan = Apply(crontab).check(content.tasks, Request(source, Permissions(prune=prune)))
    return edits_of(plan)
