"""`emit`: send an event."""

from typing import TYPE_CHECKING, Annotated

import typer

from dcron.cli import console
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Json
from dcron.cli.warnings import mention_idleness
from dcron.model import Run, RunState
from dcron.safetext import safe
from dcron.text_input import text_or_file

if TYPE_CHECKING:
    pass


EventName = Annotated[
    str, typer.Argument(metavar="EVENT", help="The event's name, such as deploy.", show_default=False)
]


def command(
    event: EventName,
    payload: Annotated[
        str | None,
        typer.Option(
            "--payload", metavar="TEXT|@FILE", help="What the commands get on stdin and in $DCRON_PAYLOAD."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="Of events of one name and key only the first counts."),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Send an event: starts every task whose schedule is '@on EVENT'.

    Each of them runs once; one that is paused is recorded as skipped.

    \b
    dcron add -n migrate '@on deploy' ./migrate
    dcron emit deploy --payload v1.4.2
    dcron emit upload --key "$order" --payload @order.json
    """
    from dcron.cli import json_output

    text = text_or_file(payload, "--payload") if payload is not None else None
    with opened_crontab(db) as crontab:
        from dcron.services.triggers import Triggers

        emitted = Triggers(crontab).emit(event, text, key)
        now = crontab.now()
        if as_json:
            console.emit(json_output.emitted_shape(emitted, now))
        else:
            for run in emitted.runs:
                console.data(_told(run))
        if emitted.event is None:
            console.note(f"an event {event} with this key came before; nothing was done")
        elif not emitted.runs:
            console.note("no task waits for this event")
        elif any(run.state is RunState.WAITING for run in emitted.runs):
            mention_idleness(crontab)


def _told(run: Run) -> str:
    told = f"is skipped: {run.reason}" if run.state is RunState.SKIPPED else "is due"
    return safe(f"run {run.id} of {run.task} {told}")
