"""`why`: explain why a task ran, did not run, or will not run."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from dcron import services
from dcron.cli.asking.options import Db, Json, Name, argument
from dcron.cli.output import console
from dcron.cli.output.colours import ActiveCell, AlarmCell, GoodCell, Title
from dcron.cli.output.documents import Document, make
from dcron.cli.output.tables import shown_line
from dcron.cli.running.context import opened_crontab
from dcron.model import RunState
from dcron.presentation.emphasis import Notable

_KINDS: dict[str, type[str]] = {
    "running": ActiveCell,
    "starting": ActiveCell,
    "alert": AlarmCell,
    "suspended": AlarmCell,
    "unheard": AlarmCell,
    "daylight-saving": Notable,
    "frozen": Notable,
    "paused": Notable,
}
"""The kinds of causes by their codes; the others are a `Title`."""
_KEYS = {
    **{fact: f"{fact}_id" for fact in ("run", "alert", "freeze", "node", "flow", "held_by", "upstream_run")},
    **{"runs": "run_ids", "nodes": "node_ids", "ids": "last_id", "event": "event_name"},
    **{"before": "previous_at", "after": "next_at"},
}
"""The facts of a cause that have another name in JSON."""


def command(
    name: Name,
    when: Annotated[
        list[str] | None,
        argument("[WHEN]", "Time in the task's zone, or a date [default: the last, present and next run]."),
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
    with opened_crontab(db) as crontab:
        asked = services.why.Why(crontab)
        when_ = asked.meant(name, " ".join(when)) if when else None
        causes = asked.explain(name, when_)
        if as_json:
            console.emit(_shape(name, when_, causes))
        else:
            for cause in causes:
                kind = _kind(cause)
                time = f"{shown_line(kind(cause.time))}: " if cause.time else ""
                console.drawn(time + shown_line(cause.text if time or kind is Title else kind(cause.text)))


def _kind(cause: "services.why.Cause") -> type[str]:
    """Return the class that sets the colour of the cause's time, or of its text if it has no time."""
    if cause.code == "ran":
        state = RunState(cause.facts["state"])
        return AlarmCell if state.is_failure else GoodCell if state is RunState.SUCCEEDED else Title
    return _KINDS.get(cause.code, Title)


def _shape(
    name: str, when: "datetime | services.why.Span | None", causes: "Sequence[services.why.Cause]"
) -> Document:
    shapes = [
        make("cause", code=cause.code, message=cause.sentence, **_renamed(cause.facts)) for cause in causes
    ]
    begin, end = (when, None) if when is None or isinstance(when, datetime) else (when.first, when.end)
    return make("why", task=name, from_=begin, until=end, causes=shapes)


def _renamed(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {_KEYS.get(fact, fact): value for fact, value in facts.items()}
