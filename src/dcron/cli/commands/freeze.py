"""`freeze`: let nothing start by itself, and list the freezes."""

from datetime import datetime
from typing import Annotated

import typer

from dcron import services
from dcron.cli.asking.options import Db, Json, Verb, WritingGroup, flag, option, whole_number
from dcron.cli.output import console
from dcron.cli.output.colours import AlarmCell
from dcron.cli.output.json_output import freeze_shape
from dcron.cli.output.tables import TableColumn, print_table
from dcron.cli.running.context import opened_crontab, own_zone, reason
from dcron.errors import UsageError
from dcron.model import Freeze
from dcron.policy.starting.freezes import end_of, state_of
from dcron.presentation import humanize
from dcron.schedule.time_parser import parse_time
from dcron.schedule.zones import zone

COLUMNS = [
    TableColumn("FREEZE", right=True),
    TableColumn("STATE"),
    TableColumn("FROM", right=True),
    TableColumn("UNTIL", right=True),
    TableColumn("BY", spare=True),
    TableColumn("THAWED BY", spare=True),
    TableColumn("REASON", least=10),
]
command = typer.Typer(
    cls=WritingGroup, rich_markup_mode=None, add_completion=False, subcommand_metavar="[list ...]"
)


@command.callback(invoke_without_command=True)
def freeze(
    ctx: typer.Context,
    from_time: Annotated[
        str | None, option("--from", "TIME", "Begin at this time: 22:00, +30m [default: now].")
    ] = None,
    until: Annotated[
        str | None, option("--until", "TIME", "End at this time: 06:00; 2h is after the begin.")
    ] = None,
    cancel: Annotated[bool, flag("--cancel", "Cancel the active runs, too.")] = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Start no run by itself, on any node, until the crontab is thawed.

    \b
    dcron freeze --until 06:00 -m 'database upgrade'
    dcron freeze --from 'tomorrow 22:00' --until 4h
    dcron freeze list

    What a person starts with `run` or `retry` runs, and active runs continue. Afterwards the catch-up rule of
    each task decides about its missed occurrences. `dcron pause` stops single tasks.
    """
    if ctx.invoked_subcommand is not None:
        return
    if cancel and from_time is not None:
        raise UsageError("give --cancel or --from, not both: it cancels what is active now")
    with opened_crontab(db) as crontab:
        freezes, now, here = services.freezes.Freezes(crontab), crontab.now(), zone(own_zone())
        begin = parse_time(from_time, here, now) if from_time else None
        end = parse_time(until, here, begin or now) if until else None
        if not console.consent.is_given(asks=True):
            _agree(freezes.reach(begin or now, end), end, cancel=cancel)
        frozen = freezes.freeze(from_at=begin, until_at=end, reason=reason())
        cancelled = freezes.cancel_active() if cancel else []
        active = [] if cancel or from_time else freezes.active_runs()
        now = crontab.now()
    if as_json:
        console.emit(freeze_shape(frozen, now, cancelled_runs=cancelled))
        return
    _print(frozen)
    for run_id in cancelled:
        console.data(f"cancelling  run {run_id}")
    if active:
        console.note(f"{humanize.plural(len(active), 'active run')} continue{'s' * (len(active) == 1)}")


def _agree(reach: "services.freezes.Reach", end: datetime | None, *, cancel: bool) -> None:
    """Ask, with what the freeze stops. Without a terminal, only say it, unless active runs are cancelled.

    Raises Refused.
    """
    until = f" until {humanize.clock(end, zone(own_zone()), reach.now)}" if end else ""
    parts = [humanize.plural(reach.tasks, "task")]
    if reach.starts is not None:
        more = " or more" if reach.starts == services.freezes.MOST_STARTS else ""
        parts.append(
            f"{humanize.plural(reach.starts, 'start')}{more} fall{'s' * (reach.starts == 1)} into it"
        )
    what = f"freeze the crontab{until}: {', '.join(parts)}"
    if reach.active:
        fate = "stopped" if cancel else "not stopped"
        what += (
            f"; {humanize.plural(reach.active, 'active run')} {'is' if reach.active == 1 else 'are'} {fate}"
        )
    may_go_on = not console.is_attended() and not cancel
    if may_go_on and not console.consent.is_protected:
        console.note(what)
    console.agree(what, asks=not may_go_on)


def _print(frozen: Freeze) -> None:
    here = zone(own_zone())
    begins = f" from {humanize.full(frozen.from_at.astimezone(here))}"
    when = begins if frozen.from_at > frozen.created_at else ""
    when += f" until {humanize.full(frozen.until_at.astimezone(here))}" if frozen.until_at else ""
    reason = f": {frozen.reason}" if frozen.reason else ""
    console.data(f"freeze {frozen.id}  nothing starts by itself{when or ' until `dcron thaw`'}{reason}")


@command.command("list", cls=Verb)
def list_freezes(
    count: Annotated[int, option("-n", "--count", "N", "Most freezes to list.", parser=whole_number(1))] = 20,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """List freezes: active, planned and past ones, the newest first.

    \b
    dcron freeze list
    """
    with opened_crontab(db) as crontab:
        found, now = services.freezes.Freezes(crontab).listing(count), crontab.now()
    if as_json:
        console.emit_list(freeze_shape(each, now) for each in found)
    elif not print_table(COLUMNS, [_row(each, now) for each in found]):
        console.note("no freezes yet")


def _row(freeze: Freeze, now: datetime) -> list[str]:
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
