"""`diff`: what applying a source would change."""

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, FileFormat, Json
from dcron.cli.source_options import (
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
from dcron.errors import ExitCode


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
    from dcron.cli import forecast_text
    from dcron.policy.ownership import Permissions
    from dcron.schedule import zone
    from dcron.services.apply import Apply, Request

    with opened_crontab(db) as crontab, places_printed():
        content = read_files(crontab, file, format)
        allowed = Permissions(prune, overwrite, adopt, take_from)
        plan = Apply(crontab).check(content.tasks, Request(source, allowed))
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
    if plan.conflicts:
        raise typer.Exit(ExitCode.CONFLICT)
    if plan.differs:
        raise typer.Exit(ExitCode.FAILED)
