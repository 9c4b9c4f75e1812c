"""`freeze`: let nothing start by itself."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab, own_zone
from dcron.cli.options import Db, Force, Json

if TYPE_CHECKING:
    from dcron.model import Freeze


def command(
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Begin at this time: 22:00, +30m [default: now]."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End at this time: 06:00; 2h is after the begin."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; everybody sees it.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the active runs, too.")] = False,
    force: Force = False,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Start no run by itself, on any node, until the crontab is thawed.

    \b
    dcron freeze --until 06:00 --reason 'database upgrade'
    dcron freeze --from 'tomorrow 22:00' --until 4h

    What a person starts with `run` or `retry` runs, and active runs continue. Afterwards the catch-up rule of
    each task decides about its missed occurrences. `dcron pause` stops single tasks.
    """
    from dcron.cli.json_output import freeze_shape
    from dcron.schedule import parse_time, zone
    from dcron.services.freezes import Freezes

    if cancel and from_time is not None:
        from dcron.errors import UsageError

        raise UsageError("give --cancel or --from, not both: it cancels what is active now")
    with opened_crontab(db) as crontab:
        freezes, now, here = Freezes(crontab), crontab.now(), zone(own_zone())
        begin = parse_time(from_time, here, now) if from_time else None
        end = parse_time(until, here, begin or now) if until else None
        question = _question(len(freezes.active_runs()) if cancel else 0)
        if cancel or console.consent.protected:
            console.require_consent(question, force=force)
        frozen = freezes.freeze(from_at=begin, until_at=end, reason=reason)
        cancelled = freezes.cancel_active() if cancel else []
        active = [] if cancel or from_time else freezes.active_runs()
        now = crontab.now()
    if as_json:
        console.emit(freeze_shape(frozen, now) | {"cancelled": cancelled})
        return
    _print(frozen)
    for run_id in cancelled:
        console.data(f"cancelling  run {run_id}")
    if active:
        from dcron.presentation.humanize import plural

        console.note(f"{plural(len(active), 'active run')} continue{'s' * (len(active) == 1)}")


def _question(active: int) -> str:
    from dcron.presentation.humanize import plural

    return f"freeze the crontab and cancel {plural(active, 'active run')}" if active else "freeze the crontab"


def _print(frozen: "Freeze") -> None:
    from dcron.presentation import humanize
    from dcron.schedule import zone

    here = zone(own_zone())
    begins = f" from {humanize.full(frozen.from_at.astimezone(here))}"
    when = begins if frozen.from_at > frozen.created_at else ""
    when += f" until {humanize.full(frozen.until_at.astimezone(here))}" if frozen.until_at else ""
    reason = f": {frozen.reason}" if frozen.reason else ""
    console.data(f"freeze {frozen.id}  nothing starts by itself{when or ' until `dcron thaw`'}{reason}")
