"""`diff`: what applying a source would change."""

import typer

from dcron import policy, services
from dcron.cli.asking.options import Db, FileFormat, Json
from dcron.cli.asking.source_options import (
    Adopt,
    Files,
    Overwrite,
    Prune,
    Source,
    TakeFrom,
    WithForecast,
    compared,
    places_printed,
    plan_shape,
    print_warnings,
    read_files,
    show_plan,
    summary,
)
from dcron.cli.output import console, forecast_text
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.errors import ExitCode
from dcron.schedule.zones import zone


def command(
    file: Files,
    source: Source,
    prune: Prune = False,
    adopt: Adopt = False,
    overwrite: Overwrite = False,
    take_from: TakeFrom = None,
    format: FileFormat = None,
    forecast: WithForecast = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show what `apply` would change.

    \b
    dcron diff -F cron/ --source shop/cron
    dcron diff -F cron/ --source shop/cron --prune --json
    dcron diff -F cron/ --source shop/cron --forecast

    Writes nothing. The exit code is 0 if the crontab is as the files say, 1 if it differs, 2 for a mistake in
    the files, and 5 if a task that differs was changed by hand.
    """
    with opened_crontab(db) as crontab, places_printed():
        content = read_files(crontab, file, format)
        allowed = policy.ownership.Permissions(prune, overwrite, adopt, take_from)
        plan = services.changes.applied.Apply(crontab).check(
            content.tasks, services.changes.applied.Request(source, allowed)
        )
        now, here = crontab.now(), zone(own_zone())
        comparison = compared(crontab, plan, here) if forecast else None
    if as_json:
        console.emit(plan_shape(plan, content, None, dry_run=True, forecast=comparison))
    else:
        show_plan(plan, now, reasons=True)
        console.data(summary(plan))
        print_warnings(plan, content)
        if comparison:
            forecast_text.print_comparison(comparison, here)
    if plan.kinds["conflicts"]:
        raise typer.Exit(ExitCode.CONFLICT)
    if plan.differs:
        raise typer.Exit(ExitCode.FAILED)
