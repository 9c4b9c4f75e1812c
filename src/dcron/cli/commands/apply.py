"""`apply`: make the tasks of a source what its files say."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from dcron import policy, services
from dcron.cli.asking.options import Db, FileFormat, Json, whole_number
from dcron.cli.asking.shared_options import keep_yes
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
    require_readable,
    show_plan,
    summary,
)
from dcron.cli.output import console, forecast_text
from dcron.cli.running.context import missing_file, opened_crontab, own_zone
from dcron.schedule.zones import zone


def command(
    file: Files,
    source: Source,
    prune: Prune = False,
    adopt: Adopt = False,
    overwrite: Overwrite = False,
    take_from: TakeFrom = None,
    max_removed: Annotated[
        int | None,
        typer.Option(
            "--max-removed",
            metavar="N",
            help="Most tasks that --prune removes [default: 10, or a fifth of them].",
            parser=whole_number(0),
        ),
    ] = None,
    format: FileFormat = None,
    forecast: WithForecast = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only try what would be done.")] = False,
    force: Annotated[
        bool,
        typer.Option("-f", "--force", help="Remove as many tasks as --prune finds.", callback=keep_yes),
    ] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Make the tasks of a source what its files say.

    \b
    dcron apply -F cron/ --source shop/cron
    dcron apply -F cron/ --source shop/cron --prune -m "release 42"
    dcron export -c staging | dcron apply -c prod -F - --source shop/cron

    Adds tasks, and changes those of this source; with --prune, removes those that the files lost. Tasks of
    other sources, and of none, are never touched. If a task was changed by hand since, nothing is applied
    (exit code 5). It does not ask: `dcron diff` shows the changes before.
    """
    if missing_file(db):
        with places_printed():
            require_readable(file, format)
    with opened_crontab(db, creates=True, dry_run=dry_run) as crontab, places_printed():
        content = read_files(crontab, file, format)
        service = services.changes.applied.Apply(crontab)
        allowed = policy.ownership.Permissions(prune, overwrite, adopt, take_from)
        plan = service.check(
            content.tasks, services.changes.applied.Request(source, allowed, max_removed, force)
        )
        here = zone(own_zone())
        comparison = compared(crontab, plan, here) if forecast else None
        batch = service.author.batch if plan.writes and not dry_run else None
        if not as_json:
            show_plan(plan, crontab.now(), reasons=False)
            print_warnings(plan, content)
            if comparison:
                forecast_text.print_comparison(comparison, here)
        elif not plan.is_possible:
            console.emit(plan_shape(plan, content, None, dry_run=dry_run, forecast=comparison))
        if plan.writes and plan.is_possible and not dry_run:
            console.agree(f"{summary(plan)} of {source}", asks=False)
        with _progress(service, plan, is_quiet=as_json or dry_run) as written:
            service.apply(plan, dry_run=dry_run, written=written)
    if as_json:
        console.emit(plan_shape(plan, content, batch, dry_run=dry_run, forecast=comparison))
        return
    console.data(summary(plan))
    if dry_run:
        console.data("nothing was changed")
    elif batch:
        console.data(f"applied; `dcron undo --batch {batch}` takes it back")


class _Progress:
    """Counts the changes that were made, and shows them on a terminal."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self.done = 0
        self.total = total
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._is_line_open = False

    def __call__(self, number: int) -> None:
        """Count the changes of one transaction."""
        self.done += number
        if self._is_shown and number < self.total:
            sys.stderr.write(f"\r{self.done:,} of {self.total:,} changes")
            sys.stderr.flush()
            self._is_line_open = True

    def end_line(self) -> None:
        """End the line on the terminal, if there is one."""
        if self._is_line_open:
            sys.stderr.write("\n")
            self._is_line_open = False


@contextmanager
def _progress(
    service: "services.changes.applied.Apply", plan: "services.changes.source_plan.Plan", *, is_quiet: bool
) -> Iterator[_Progress]:
    """Yield the counter of changes. If they end half-way, print how to go on."""
    progress = _Progress(len(plan.writes), is_quiet=is_quiet)
    try:
        yield progress
        progress.end_line()
    except BaseException:
        progress.end_line()
        if 0 < progress.done < progress.total:
            batch = service.author.batch
            console.complain(
                f"{progress.done:,} of {progress.total:,} changes were made; apply it again to make the"
                f" others, or `dcron undo --batch {batch}` takes them back"
            )
        raise
