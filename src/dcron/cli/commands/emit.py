"""`emit`: send an event."""

from typing import Annotated

from dcron import services
from dcron.cli.asking.options import Db, Json, Payload, argument, option
from dcron.cli.asking.warnings import print_idle_agents
from dcron.cli.output import console, json_output
from dcron.cli.running.context import opened_crontab
from dcron.model import Run, RunState
from dcron.values.safe_text import safe
from dcron.values.text_input import text_or_file

EventName = Annotated[str, argument("EVENT", "Name of the event, such as deploy.")]


def command(
    event: EventName,
    payload: Payload = None,
    key: Annotated[
        str | None, option("--key", "KEY", "Ignore the event if one with this name and key was sent before.")
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Send an event: run every task whose schedule is '@on EVENT'.

    \b
    dcron add -n migrate '@on deploy' ./migrate
    dcron emit deploy --payload v1.4.2
    dcron emit upload --key "$order" --payload @order.json

    Each task runs once. The run of a paused task is recorded as skipped.
    """
    text = text_or_file(payload, "--payload") if payload is not None else None
    with opened_crontab(db) as crontab:
        console.agree(f"send the event {event}", asks=False)
        emitted = services.runs.triggers.Triggers(crontab).emit(event, text, key)
        now = crontab.now()
        if as_json:
            console.emit(json_output.emitted_shape(emitted, now))
        else:
            for run in emitted.runs:
                console.data(_sentence(run))
        if emitted.event is None:
            console.note(f"an event {event} with this key was sent before; nothing was done")
        elif not emitted.runs:
            console.note("no task waits for this event")
        elif any(run.state is RunState.WAITING for run in emitted.runs):
            print_idle_agents(crontab)


def _sentence(run: Run) -> str:
    outcome = f"is skipped: {run.reason}" if run.state is RunState.SKIPPED else "is due"
    return safe(f"run {run.id} of {run.task} {outcome}")
