"""`prune`: delete old history by hand, or show what would be deleted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.chosen_tasks import read_selector, require_consent, selected
from dcron.cli.context import opened_crontab
from dcron.cli.name_arguments import to_change
from dcron.cli.options import Db, Force, Json, SelectorOption
from dcron.errors import UsageError
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.services.retention import Amount

_SHOWN_BYTES = 2**20 // 20
"""Bytes that are shown as 0.1 MiB."""
OTHERS = ("dismissed", "events", "nodes", "statistics", "changes")


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Whole name of the only task whose history is pruned; a prefix needs your confirmation.",
            show_default=False,
        ),
    ] = None,
    selector: SelectorOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="runs=7d",
            help="Keep this instead of what settings and tasks say; repeatable.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("-n", "--dry-run", help="Only show what would go.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Then rewrite the SQLite file without its free space.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Delete history that is older than settings and tasks say.

    \b
    dcron prune --dry-run
    dcron prune
    dcron prune poll --keep runs=1d --keep last=5
    dcron prune -l tier=bronze --keep runs=1d
    dcron prune --compact

    Agents do the same by themselves every ten minutes. This needs no agent, and does not wait for the day
    after an upgrade on which they begin. With --keep it asks first.
    """
    from dcron.fields.retention import KEEP

    given = KEEP.parse(keep or [])
    if dry_run and compact:
        raise UsageError("--dry-run shows what would go; leave out --compact")
    chooser = read_selector(selector, name)
    with opened_crontab(db) as crontab:
        from dcron.services.retention import Retention

        retention = Retention(crontab)
        task = None if name is None else to_change(crontab, "prune", name, force=force, asks=bool(given))
        chosen = selected(crontab, chooser) if chooser else []
        tasks: Sequence[Task | None] = chosen or [task]
        if dry_run:
            amount, freed = sum_of(retention.preview(each, given) for each in tasks), None
        else:
            if len(chosen) > 1:
                require_consent("prune the history of", chosen, force=force)
            elif given:
                _require_consent(retention.preview(tasks[0], given), force=force)
            amount = sum_of(retention.prune(each, given) for each in tasks)
            freed = retention.compact() if compact else None
        since = None if as_json or chooser else retention.unready_since(task, given)
        now = crontab.now()
    if as_json:
        console.emit(_shape(amount, task.name if task else None, dry_run, freed))
        return
    _print(amount, dry_run=dry_run, now=now)
    if since:
        console.note(_why_kept(since))
    if freed is not None:
        smaller = f"{freed / 2**20:,.1f} MiB smaller" if freed >= _SHOWN_BYTES else "as large as before"
        console.data(f"compacted  the file is {smaller}")


def sum_of(amounts: "Iterable[Amount]") -> "Amount":
    """Return what goes in all."""
    from dcron.services.retention import Amount

    total = Amount()
    for each in amounts:
        total.runs += each.runs
        total.outputs += each.outputs
        total.bytes += each.bytes
        total.oldest = min(filter(None, (total.oldest, each.oldest)), default=None)
        total.others = {**total.others, **each.others}
    return total


def _require_consent(amount: "Amount", *, force: bool) -> None:
    if amount.runs or amount.outputs:
        console.require_consent(f"prune {', '.join(amounts(amount))}", force=force)


def _print(amount: "Amount", *, dry_run: bool, now: datetime) -> None:
    parts = [*amounts(amount), *others(amount.others)]
    if not parts:
        console.note("there is nothing to prune")
        return
    console.data(f"{'would prune' if dry_run else 'pruned'}  {', '.join(parts)}")
    if dry_run and amount.oldest:
        console.note(f"the oldest ended {humanize.ago(amount.oldest, now)}")


def _why_kept(since: datetime) -> str:
    """Say which runs stay because agents have not finished with their days."""
    from dcron.store.retention import EARLIEST

    which = "all runs" if since == EARLIEST else f"runs that ended since {since:%Y-%m-%d %H:%M} UTC"
    return (
        f"{which} stay until an agent has summed up their days (`dcron stats`) and archived them"
        " (if `archive.url` is set)"
    )


def amounts(amount: "Amount") -> Iterator[str]:
    """Yield how many runs and outputs, and how many bytes, as words."""
    if amount.runs:
        yield humanize.plural(amount.runs, "run")
    if amount.outputs:
        yield f"the output of {humanize.plural(amount.outputs, 'run')}"
    if amount.bytes:
        yield f"{amount.bytes / 2**20:,.1f} MiB of output in all"


def others(numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield how many rows of other kinds than runs and output, as words."""
    words = {
        "dismissed": "dead letters dismissed",
        "changes": "entries of the audit log",
        "statistics": "rows of statistics",
        "pages": "free pages of the file",
    }
    for kind, number in numbers.items():
        yield f"{number:,} {words.get(kind, kind)}"


def _shape(amount: "Amount", task: str | None, dry_run: bool, freed: int | None) -> dict[str, Any]:
    from dcron.json_values import instant

    return {
        "dry_run": dry_run,
        "task": task,
        "runs": amount.runs,
        "outputs": amount.outputs,
        "bytes": amount.bytes,
        "oldest": instant(amount.oldest),
        **{kind: amount.others.get(kind, 0) for kind in OTHERS},
        "compacted": freed,
    }
