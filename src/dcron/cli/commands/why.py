"""`why`: explain why a task ran, did not run, or will not run."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import console
from dcron.cli.colours import ActiveCell, AlarmCell, GoodCell, Title
from dcron.cli.context import opened_crontab
from dcron.cli.options import Db, Json, Name
from dcron.cli.tables import shown_line
from dcron.model import RunState
from dcron.presentation.emphasis import Notable

if TYPE_CHECKING:
    from dcron.services.why import Cause, Span

_KINDS: dict[str, type[str]] = {
    "running": ActiveCell,
    "starting": ActiveCell,
    "alert": AlarmCell,
    "suspended": AlarmCell,
    "daylight-saving": Notable,
    "frozen": Notable,
    "paused": Notable,
}
"""The kinds of causes by their codes; the others are a `Title`."""


def command(
    name: Name,
    when: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHEN]",
            help="Time in the task's zone, or a date [default: the last, present and next run].",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Explain why a task ran, did not run, or will not run.

    \b
    dcron why backup
    dcron why backup yesterday 09:00
    dcron why backup 2027-06-01

    Each cause is one sentence.
    """
    from dcron.services.why import Why

    with opened_crontab(db) as crontab:
        asked = Why(crontab)
        when_ = asked.meant(name, " ".join(when)) if when else None
        causes = asked.explain(name, when_)
        if as_json:
            console.emit({"task": name, **_when_shape(when_), "causes": list(map(_shape, causes))})
        else:
            for cause in causes:
                kind = _kind(cause)
                time = f"{shown_line(kind(cause.time))}: " if cause.time else ""
                console.drawn(time + shown_line(cause.text if time or kind is Title else kind(cause.text)))


def _kind(cause: "Cause") -> type[str]:
    """Return the class that sets the colour of the cause's time, or of its text if it has no time."""
    if cause.code == "ran":
        state = RunState(cause.facts["state"])
        return AlarmCell if state.is_failure else GoodCell if state is RunState.SUCCEEDED else Title
    return _KINDS.get(cause.code, Title)


def _when_shape(when_: "datetime | Span | None") -> dict[str, str | None]:
    from dcron.json_values import instant

    if when_ is None or isinstance(when_, datetime):
        return {"when": instant(when_), "until": None}
    return {"when": instant(when_.first), "until": instant(when_.end)}


def _shape(cause: "Cause") -> dict[str, Any]:
    from dcron.json_values import instant

    facts = {
        name: instant(value) if isinstance(value, datetime) else value for name, value in cause.facts.items()
    }
    return {"code": cause.code, "sentence": cause.sentence, **facts}
