"""`restore`: read a crontab that `dump` wrote."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Json
from dcron.errors import UsageError
from dcron.text_input import read_text

if TYPE_CHECKING:
    from dcron.services.dumping import Restoration, Restored


SHOWN = 20
"""Names of one kind, and differences, that are printed; the rest are counted."""


LONGEST = 1_000
"""Characters of a line in a difference."""


def command(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="File that `dcron dump` wrote, or - for stdin.", show_default=False
        ),
    ],
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Change tasks that differ without asking.")
    ] = False,
    paused: Annotated[
        bool, typer.Option("--paused", help="Pause every restored task, so that nothing starts.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would be done.")] = False,
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
    from dcron.dumpfile import MAX_BYTES, read
    from dcron.services.dumping import DumpService, Restored

    source = "<stdin>" if file == "-" else file
    text = read_text(file, "restore", MAX_BYTES)
    with opened_crontab(db, creates=True) as crontab:
        dumping = DumpService(crontab)
        try:
            dumped = read(text)
            planned = dumping.compare(dumped, paused=paused)
        except UsageError as error:
            raise UsageError(f"{source}: {error}; nothing was restored") from None
        if not as_json:
            _show_differences(planned)
        restored = Restored((), {})
        if not dry_run:
            _require_consent(planned, force=force)
            restored = dumping.apply(dumped, planned, paused=paused)
    _report(planned, restored, dry_run=dry_run, as_json=as_json)


def _show_differences(planned: "Restoration") -> None:
    for each in planned.changed[:SHOWN]:
        console.data(f"changed    {each.kind} {each.name}")
        for line in each.lines():
            console.data(f"  {line[:LONGEST]}" + ("…" if len(line) > LONGEST else ""))
    if len(planned.changed) > SHOWN:
        console.data(f"changed    … and {len(planned.changed) - SHOWN:,} more")
    sys.stdout.flush()


def _require_consent(planned: "Restoration", *, force: bool) -> None:
    if planned.changed:
        number = len(planned.changed)
        what = f"change {'what differs' if number == 1 else f'these {number:,}'} to what the dump has"
        console.require_consent(what, force=force)


def _report(planned: "Restoration", restored: "Restored", *, dry_run: bool, as_json: bool) -> None:
    from dcron.services.dumping import KINDS

    if as_json:
        kinds = {
            f"{kind}s": {
                "added": list(planned.added[kind]),
                "changed": planned.changed_names(kind),
                "unchanged": list(planned.unchanged[kind]),
            }
            for kind in KINDS
        }
        ends = {"not_started": list(restored.expired), "suspended": dict(restored.suspended)}
        console.emit({"dry_run": dry_run, **kinds, **ends})
    else:
        for kind in KINDS:
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


def _warn(restored: "Restored") -> None:
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
