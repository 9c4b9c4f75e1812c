"""`quiet`: when nothing starts by itself."""

from typing import Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.commands.forecast import Until
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, Json
from dcron.errors import ExitCode


def command(
    duration: Annotated[
        str,
        typer.Argument(metavar="DURATION", help="How long nothing may start: 20m.", show_default=False),
    ],
    until: Until = "+24h",
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Find the times in which nothing starts by itself.

    \b
    dcron quiet 20m
    dcron quiet 5m --until tomorrow

    The nearest comes first, with the runs that will still be active when it begins. The times are those of
    `dcron forecast`: runs that wait for a slot or follow another run count, too. The exit code is 1 if there
    is no such time.
    """
    from dcron.cli import forecast_text, json_output
    from dcron.quantities import parse_duration
    from dcron.schedule import parse_time, zone
    from dcron.services.forecast import Forecast

    here: Any = zone(own_zone())
    seconds = parse_duration(duration)
    with opened_crontab(db) as crontab:
        end = parse_time(until, here, crontab.now())
        found = Forecast(crontab).quiet(end, seconds)
    if as_json:
        console.emit(json_output.quiet_shape(found, here.key))
    else:
        forecast_text.print_quiet(found, seconds, here)
    for name, problem in found.left_out.unreadable:
        console.complain(f"warning: {name} is omitted: {problem}")
    if not found.times:
        raise typer.Exit(ExitCode.FAILED)
