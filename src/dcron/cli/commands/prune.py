"""`prune`: delete old history by hand, or show what would be deleted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from dcron import services
from dcron.cli.asking.options import Db, Json, SelectorOption, argument, flag, option
from dcron.cli.asking.which import agreed, read_selector, require_consent, selected
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.progress import counting
from dcron.cli.running.context import opened_crontab
from dcron.errors import UsageError
from dcron.model import Task
from dcron.presentation import humanize

_SHOWN_BYTES = 2**20 // 20
"""Bytes that are shown as 0.1 MiB."""
OTHERS = ("dismissed", "events", "nodes", "statistics", "changes")


def command(
    name: Annotated[
        str | None,
        argument(
            "NAME", "Whole name of the only task whose history is pruned; a prefix needs your confirmation."
        ),
    ] = None,
    selector: SelectorOption = None,
    keep: Annotated[
        list[str] | None,
        option("--keep", "runs=7d", "Keep this instead of what settings and tasks say; repeatable."),
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only show what would go.")] = False,
    compact: Annotated[
        bool, flag("--compact", "Then rewrite the SQLite file without its free space.")
    ] = False,
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
        retention = services.retention.Retention(crontab)
        task = (
            None
            if name is None
            else agreed(crontab.get, "prune", name, asks=bool(given) or console.consent.always_asks)
        )
        chosen = selected(crontab, chooser) if chooser else []
        tasks: Sequence[Task | None] = chosen or [task]
        if dry_run:
            amount, freed = sum_of(retention.preview(each, given) for each in tasks), None
        else:
            if chosen:
                require_consent("prune the history of", chosen, asks=len(chosen) > 1 or bool(given))
            else:
                _agree(retention, task, given)
            amount = _prune(retention, tasks, given)
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


def _prune(
    retention: "services.retention.Retention", tasks: Sequence[Task | None], given: Mapping[str, Any]
) -> "services.retention.Amount":
    """Prune the history of these tasks, and show how far that is."""
    total = services.retention.Amount()
    with counting("pruning") as show:

        def on_progress(done: Mapping[str, int]) -> None:
            now_gone = services.retention.Amount(
                done.get("runs", 0), done.get("outputs", 0), done.get("bytes", 0)
            )
            show(", ".join(amounts(sum_of([total, now_gone]))) or "nothing so far")

        for each in tasks:
            total = sum_of([total, retention.prune(each, given, on_progress)])
    return total


def sum_of(amounts: "Iterable[services.retention.Amount]") -> "services.retention.Amount":
    """Return what goes in all."""
    total = services.retention.Amount()
    for each in amounts:
        total.runs += each.runs
        total.outputs += each.outputs
        total.bytes += each.bytes
        total.oldest = min(filter(None, (total.oldest, each.oldest)), default=None)
        total.others = {**total.others, **each.others}
    return total


def _agree(retention: "services.retention.Retention", task: Task | None, given: Mapping[str, Any]) -> None:
    """Ask with --keep, and in a protected context. Raises Refused."""
    if given or console.consent.is_protected:
        amount = retention.preview(task, given)
        if amount.runs or amount.outputs or console.consent.is_protected:
            console.agree(f"prune {', '.join(amounts(amount)) or 'old history'}", asks=bool(given))


def _print(amount: "services.retention.Amount", *, dry_run: bool, now: datetime) -> None:
    parts = [*amounts(amount), *others(amount.others)]
    if not parts:
        console.note("there is nothing to prune")
        return
    console.data(f"{'would prune' if dry_run else 'pruned'}  {', '.join(parts)}")
    if dry_run and amount.oldest:
        console.note(f"the oldest ended {humanize.ago(amount.oldest, now)}")


def _why_kept(since: datetime) -> str:
    """Say which runs stay because agents have not finished with their days."""
    from dcron.store.retention.history import EARLIEST

    which = "all runs" if since == EARLIEST else f"runs that ended since {since:%Y-%m-%d %H:%M} UTC"
    return (
        f"{which} stay until an agent has summed up their days (`dcron stats`) and archived them"
        " (if `archive.url` is set)"
    )


def amounts(amount: "services.retention.Amount") -> Iterator[str]:
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


def _shape(
    amount: "services.retention.Amount", task: str | None, dry_run: bool, freed: int | None
) -> dict[str, Any]:
    numbers = {kind: amount.others.get(kind, 0) for kind in OTHERS}
    return make(
        "pruned",
        amount,
        dry_run=dry_run,
        task=task,
        dismissed=numbers["dismissed"],
        event_count=numbers["events"],
        node_count=numbers["nodes"],
        statistics_count=numbers["statistics"],
        change_count=numbers["changes"],
        compacted=freed,
    )
