"""`hold`: keep history from being pruned."""

from typing import TYPE_CHECKING, Annotated, Any

from dcron import services
from dcron.cli.asking.options import Db, Json, argument, is_number, run_number
from dcron.cli.asking.which import agreed
from dcron.cli.output import console
from dcron.cli.output.documents import make
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab, reason
from dcron.errors import UsageError
from dcron.presentation import humanize
from dcron.values.safe_text import safe

if TYPE_CHECKING:
    from dcron.store.retention.holds import Held

COLUMNS = [
    TableColumn("ON HOLD", least=10),
    TableColumn("SINCE", right=True),
    TableColumn("BY", spare=True),
    TableColumn("REASON", least=10),
]


def command(
    which: Annotated[
        str | None, argument("RUN|NAME", "Number of a run, or whole name of a task for all its runs.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Keep a run, or all runs of a task, from being pruned.

    \b
    dcron hold 1307 -m "incident 42"
    dcron hold payroll -m audit
    dcron hold

    It lasts until `dcron unhold`, also when the task is removed. Without an argument, list what is on hold.
    """
    why = reason()
    if which is None and why is not None:
        raise UsageError("--reason: give the number of a run, or the name of a task")
    with opened_crontab(db) as crontab:
        retention = services.retention.Retention(crontab)
        if which is None:
            found = retention.holds()
            if as_json:
                console.emit_list(make("hold", each) for each in found)
            elif not print_table(COLUMNS, [_row(each, crontab.now()) for each in found]):
                console.note("nothing is on hold")
            return
        if why is None:
            raise UsageError("give a reason with -m: people will ask why it is kept")
        if is_number(which):
            held = retention.hold_run(run_number(which), why)
        else:
            held = retention.hold_task(agreed(crontab.get, "hold", which), why)
    if as_json:
        console.emit(make("hold", held))
    else:
        console.data(safe(f"on hold  {named(held)}: {held.reason}"))


def named(held: "Held") -> str:
    """Return what is on hold, for people."""
    return f"all runs of {held.task}" if held.run_id is None else f"run {held.run_id} of {held.task}"


def _row(held: "Held", now: Any) -> list[str]:
    return [named(held), humanize.ago(held.created_at, now), held.created_by or "", held.reason]
