"""`history`: who changed what, when and why."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated

from dcron import policy, presentation, services
from dcron.cli.asking.options import Db, Json, OptionalNames, SelectorOption, flag, option, whole_number
from dcron.cli.asking.which import tasks_to_read
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_facts, print_table
from dcron.cli.output.times import past_time
from dcron.cli.running.context import opened_crontab, own_zone
from dcron.cli.running.help import OUTPUT
from dcron.presentation import humanize
from dcron.schedule.zones import zone

COLUMNS = [
    TableColumn("CHANGE", right=True),
    TableColumn("WHEN", right=True),
    TableColumn("WHO", least=8),
    TableColumn("VIA", least=6, spare=True),
    TableColumn("NAME", least=10),
    TableColumn("WHAT", least=12),
    TableColumn("BATCH"),
    TableColumn("WHY", least=10),
]


def command(
    names: OptionalNames = None,
    selector: SelectorOption = None,
    count: Annotated[int, option("-n", "--count", "N", "Most changes to list.", parser=whole_number(1))] = 20,
    by: Annotated[
        str | None, option("--by", "WHO", "Only changes by this user, such as ann or ann@desk.")
    ] = None,
    since: Annotated[
        str | None, option("--since", "TIME", "Only changes since this time: 2h (ago), today.")
    ] = None,
    batch: Annotated[
        str | None, option("--batch", "ID", "Only the changes of this batch, or of this change's.")
    ] = None,
    patch: Annotated[bool, flag("-p", "--patch", "Show what each change did.", panel=OUTPUT)] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Show who changed what, when and why; `undo` takes it back. The latest come first.

    \b
    dcron history
    dcron history backup -p
    dcron history --by ann --since yesterday

    A removed task keeps its history. All changes of one command line are a batch. -l shows the changes of
    tasks that have these labels now.
    """
    with opened_crontab(db) as crontab:
        name, chooser = tasks_to_read(crontab, names, selector)
        now = crontab.now()
        since_at = past_time(since, zone(own_zone()), now) if since else None
        found = services.history.History(crontab).changes(
            count, name, by=by, since=since_at, batch=batch, selector=chooser
        )
        if as_json:
            console.emit_list(make("change", each) for each in found)
        elif not (_print_patches(found) if patch else print_table(COLUMNS, _rows(found, now))):
            console.note("no such changes" if name or chooser or by or since or batch else "no changes yet")


def _rows(found: "Iterable[policy.history.RecordedChange]", now: datetime) -> Iterator[list[str]]:
    for each in found:
        yield [
            str(each.id),
            humanize.ago(each.at, now),
            each.author,
            _via(each),
            each.subject,
            presentation.differences.what(each),
            each.batch or "",
            each.note or "",
        ]


def _via(change: "policy.history.RecordedChange") -> str:
    """Return the way of a change; with the source, if it was applied."""
    if change.via != "apply":
        return change.via or ""
    return f"apply {(change.after or change.before or {}).get('source') or ''}".strip()


def _print_patches(found: "Iterable[policy.history.RecordedChange]") -> int:
    """Print the changes in full; return how many."""
    here, number = zone(own_zone()), 0
    for number, each in enumerate(found, 1):
        if number > 1:
            console.data()
        lines = [
            AlarmCell(line) if line.startswith("-") else line
            for line in presentation.differences.of_change(each)
        ]
        print_facts(
            [
                ("change", f"{each.id}, batch {each.batch or each.id}"),
                ("when", humanize.full(each.at.astimezone(here))),
                ("who", f"{each.author}, {_via(each)}" if each.via else each.author),
                ("why", each.note),
                ("what", [f"{each.subject}: {presentation.differences.what(each)}", *lines]),
            ]
        )
    return number
