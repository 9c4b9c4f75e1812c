"""`freezes`: list freezes."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.colours import AlarmCell
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, Json, whole_number
from dcron.cli.tables import TableColumn, print_table
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.model import Freeze

COLUMNS = [
    TableColumn("FREEZE", right=True),
    TableColumn("STATE"),
    TableColumn("FROM", right=True),
    TableColumn("UNTIL", right=True),
    TableColumn("BY", spare=True),
    TableColumn("THAWED BY", spare=True),
    TableColumn("REASON", least=10),
]


def command(
    count: Annotated[
        int, typer.Option("-n", "--count", metavar="N", help="Most freezes to list.", parser=whole_number(1))
    ] = 20,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List freezes: active, planned and past ones, the newest first.

    \b
    dcron freezes
    """
    from dcron.cli.json_output import freeze_shape
    from dcron.services.freezes import Freezes

    with opened_crontab(db) as crontab:
        found, now = Freezes(crontab).listing(count), crontab.now()
    if as_json:
        console.emit_list(freeze_shape(each, now) for each in found)
    elif not print_table(COLUMNS, [_row(each, now) for each in found]):
        console.note("no freezes yet")


def _row(freeze: "Freeze", now: datetime) -> list[str]:
    from dcron.policy.freezes import end_of, state_of
    from dcron.schedule import zone

    here, end, state = zone(own_zone()), end_of(freeze), state_of(freeze, now)
    return [
        str(freeze.id),
        AlarmCell(state) if state == "active" else state,
        humanize.clock(freeze.from_at, here, now),
        humanize.clock(end, here, now) if end else "",
        freeze.created_by or "",
        freeze.thawed_by or "",
        freeze.reason or "",
    ]
