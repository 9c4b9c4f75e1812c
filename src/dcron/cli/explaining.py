"""`why`: why a task did, did not, or will not run."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcron.cli import printing
from dcron.cli.opening import opened_crontab
from dcron.cli.parameters import Db, Json, Name
from dcron.safetext import safe

if TYPE_CHECKING:
    from dcron.services.why import Cause, Span

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?", re.ASCII)


def why(
    name: Name,
    when: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHEN]",
            help="A time in the task's zone, or a date for the whole day; else lately, now and next.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    db: Db = None,
) -> None:
    """Tell why a task did, did not, or will not run. One sentence a cause.

    \b
    dcron why backup                     how it did last, what it does now, when it runs next
    dcron why backup 09:00               today's 09:00; also yesterday 09:00, '2027-06-01 09:00'
    dcron why backup 2027-06-01          all of that day
    """
    from dcron.services.why import Why

    with opened_crontab(db) as crontab:
        asked = Why(crontab)
        moment = read_when(" ".join(when), asked.timezone(name), crontab.now()) if when else None
        causes = asked.explain(name, moment)
        if as_json:
            printing.emit({"task": name, **_when_shape(moment), "causes": list(map(_shape, causes))})
        else:
            for cause in causes:
                printing.data(safe(cause.sentence))


def read_when(text: str, timezone: str, now: datetime) -> "datetime | Span":
    """The time somebody means: a bare clock time is today's, a date without one is all of that day."""
    from dcron.schedule import parse_time, zone
    from dcron.services.why import Span

    here = zone(timezone)
    words = _with_date(text.split(), here, now)
    first = parse_time(" ".join(words), here, now)
    if len(words) == 1 and _DATE.fullmatch(words[0]):
        following = datetime.fromisoformat(words[0]).date() + timedelta(days=1)
        return Span(first, parse_time(following.isoformat(), here, now))
    return first


def _with_date(words: Sequence[str], here: tzinfo, now: datetime) -> list[str]:
    """`yesterday 9:00` as `2027-06-01 09:00`."""
    words = [f"0{word}" if word[1:2] == ":" else word for word in words]
    if words and _CLOCK.fullmatch(words[0]):
        words = ["today", *words]
    if not words or words[0].lower() not in _DAYS:
        return words
    day = now.astimezone(here).date() + timedelta(days=_DAYS[words[0].lower()])
    return [day.isoformat(), *words[1:]]


def _when_shape(moment: "datetime | Span | None") -> dict[str, str | None]:
    from dcron.cli.shapes import instant

    if moment is None or isinstance(moment, datetime):
        return {"when": instant(moment), "until": None}
    return {"when": instant(moment.first), "until": instant(moment.end)}


def _shape(cause: "Cause") -> dict[str, Any]:
    from dcron.cli.shapes import instant

    facts = {
        name: instant(value) if isinstance(value, datetime) else value for name, value in cause.facts.items()
    }
    return {"code": cause.code, "sentence": cause.sentence, **facts}
