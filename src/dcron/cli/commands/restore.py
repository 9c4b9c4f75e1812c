"""`restore`: read a crontab that `dump` wrote."""

import sys
from typing import Annotated

import typer

from dcron import presentation, services
from dcron.cli.asking.options import Db, Json
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.values.text_input import read_text

SHOWN = 20
"""Names of one kind, and differences, that are printed; the rest are counted."""


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="File that `dcron dump` wrote, or - for stdin.", show_default=False
        ),
    ],
    paused: Annotated[
        bool, typer.Option("--paused", help="Pause every restored task, so that nothing starts.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Restore a crontab that `dcron dump` wrote.

    \b
    dcron restore /var/backups/dcron.json --dry-run
    dcron --db postgresql://db.example.org/cron restore --paused dcron.json

    Adds what is missing, asks before it changes what differs, and removes nothing. Either everything is
    restored or nothing. Runs that were missed since the dump follow the task's catch-up rule; a one-off whose
    time has passed is not started.
    """
    from dcron.sources.dump import MAX_BYTES, read

    source = "<stdin>" if file == "-" else file
    text = read_text(file, "restore", MAX_BYTES)
    try:
        dumped = read(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error}; nothing was restored") from None
    with opened_crontab(db, creates=True, dry_run=dry_run) as crontab:
        dumping = services.changes.restored.DumpService(crontab)
        try:
            planned = dumping.compare(dumped, paused=paused)
        except UsageError as error:
            raise UsageError(f"{source}: {error}; nothing was restored") from None
        if not as_json:
            _show_differences(planned)
        restored = services.changes.restored.Restored((), {})
        if not dry_run:
            _agree(planned, source)
            restored = dumping.apply(dumped, planned, paused=paused)
    _report(planned, restored, dry_run=dry_run, as_json=as_json)


def _show_differences(planned: "services.changes.restored.Restoration") -> None:
    for each in planned.changed[:SHOWN]:
        console.data(f"changed    {each.kind} {each.name}")
        for line in presentation.differences.shortened(each.lines()):
            console.data(f"  {line}")
    if len(planned.changed) > SHOWN:
        console.data(f"changed    … and {len(planned.changed) - SHOWN:,} more")
    sys.stdout.flush()


def _agree(planned: "services.changes.restored.Restoration", source: str) -> None:
    """Ask before something changes that is there already. Raises Refused."""
    added, changed = sum(map(len, planned.added.values())), len(planned.changed)
    if added or changed:
        console.agree(f"restore {source}: {added:,} added, {changed:,} changed", asks=changed > 0)


def _report(
    planned: "services.changes.restored.Restoration",
    restored: "services.changes.restored.Restored",
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if as_json:
        kinds = {
            f"{kind}_changes": make(
                "restored-kind",
                added=planned.added[kind],
                changed=planned.changed_names(kind),
                unchanged=planned.unchanged[kind],
            )
            for kind in services.changes.restored.KINDS
        }
        ends = {"not_started": restored.expired, "suspended": restored.suspended}
        console.emit(make("restored", dry_run=dry_run, **kinds, **ends))
    else:
        for kind in services.changes.restored.KINDS:
            names = planned.added[kind]
            for name in names[:SHOWN]:
                console.data(f"added      {kind} {name}")
            if len(names) > SHOWN:
                console.data(f"added      … and {len(names) - SHOWN:,} {kind}s more")
        would = "would be " if dry_run else ""
        counts = [sum(map(len, planned.added.values())), len(planned.changed)]
        counts.append(sum(map(len, planned.unchanged.values())))
        summary = "{:,} {}added, {:,} {}changed, {:,} unchanged"
        console.data(summary.format(counts[0], would, counts[1], would, counts[2]))
    _warn(restored)


def _warn(restored: "services.changes.restored.Restored") -> None:
    for name in restored.expired[:SHOWN]:
        console.complain(
            f"warning: the last time of {name} has passed, so it was not started;"
            f" `dcron run {name}` starts it now"
        )
    if len(restored.expired) > SHOWN:
        console.complain(f"warning: {len(restored.expired) - SHOWN:,} more were not started for this reason")
    for name, reason in list(restored.suspended.items())[:SHOWN]:
        console.complain(f"warning: {name} is suspended: {reason}")
    if len(restored.suspended) > SHOWN:
        console.complain(f"warning: {len(restored.suspended) - SHOWN:,} more are suspended; see `dcron lint`")
