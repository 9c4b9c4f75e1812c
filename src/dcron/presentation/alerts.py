"""Format alerts for people: what is wrong, since when, and what changed before it began."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeGuard

from dcron.model import LONGEST_DURATION, Alert, AlertKind, ClosedAs
from dcron.presentation import humanize
from dcron.presentation.humanize import plural

if TYPE_CHECKING:
    from dcron.policy.alert_facts import AlertFacts

_WORDS: Mapping[str, str] = {
    AlertKind.FAILING: "failing",
    AlertKind.LATE: "late",
    AlertKind.TOO_LONG: "taking too long",
    AlertKind.TOO_SHORT: "ending too soon",
    AlertKind.STALE: "without success",
    AlertKind.MISSED: "missing runs",
    AlertKind.FLAPPING: "flapping",
    AlertKind.UNHEARD: "not heard of",
    AlertKind.NODE_LOST: "lost",
    AlertKind.UNSERVED: "not served by any agent",
    AlertKind.MAINTENANCE_BEHIND: "behind",
    AlertKind.UNDELIVERABLE: "unable to send",
    AlertKind.CLOCK: "wrong about the time",
    AlertKind.DATABASE: "in need of attention",
}
"""Words that follow `is`, `is still` and `is no longer`."""
_OF_RUNNING = (AlertKind.TOO_LONG, AlertKind.UNHEARD)
"""Kinds whose runs have not ended."""
_ABANDONED = (ClosedAs.REMOVED, ClosedAs.PAUSED)
_TIMES = (
    *(("due", "due since"), ("succeeded_at", "last success"), ("died_at", "died")),
    ("lost_after", "counts as lost after"),
)
_OTHER_SUBJECTS = {"cluster": "the crontab"}


def word(kind: str) -> str:
    """Return the words of a kind of alert, such as `late`; the kind itself if a later version wrote it."""
    return _WORDS.get(kind, kind)


def lasting(kind: str) -> str:
    """Return the words between the subject of an open alert and its time, such as `has been late`."""
    text = word(kind)
    denied = text.removeprefix("not ")
    return f"has been {text}" if denied == text else f"has not been {denied}"


def name(alert: Alert) -> str:
    """Return what the alert is about: a task's name, `node web-2`, `the crontab`."""
    if alert.task is not None:
        return alert.task
    kind, _, rest = alert.subject.partition(":")
    return f"{kind} {rest}" if rest else _OTHER_SUBJECTS.get(alert.subject, alert.subject)


def ending(alert: Alert) -> str:
    """Return how an alert was closed: `no longer late`, or `paused while late`."""
    if is_abandoned(alert):
        return f"{alert.closed_as} while {word(alert.kind)}"
    return f"no longer {word(alert.kind)}"


def is_abandoned(alert: Alert) -> bool:
    """Return whether the alert was closed although its cause was not gone."""
    return alert.closed_as in _ABANDONED


def is_acknowledged(alert: Alert, now: datetime) -> bool:
    """Return whether a person has acknowledged it, and not only for a time that is over."""
    if alert.acknowledged_at is None:
        return False
    return alert.silent_until is None or alert.silent_until > now


def cause(facts: "AlertFacts", now: datetime) -> str:
    """Return the known cause: `exit 3 on web-2 (run 8123)`; empty without any."""
    run, alert = facts.run, facts.alert
    parts = []
    if run is not None and (run.state.is_final or alert.kind in _OF_RUNNING):
        node = f" on {run.node}" if run.node else ""
        parts.append(f"{humanize.result(run, now)}{node} (run {run.id})")
        if run.reason and run.reason not in parts[0]:
            parts.append(run.reason)
    elif alert.last_run_id is not None:
        parts.append(f"run {alert.last_run_id}")
    known = " ".join(parts)
    return ": ".join([*parts, *(each for each in _recorded(alert.kind, alert.facts) if each not in known)])


def _recorded(kind: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the facts that were recorded when the alert was opened. Leave out those of another type."""
    expected, offset = (facts.get(key) for key in ("expected", "offset"))
    if kind == AlertKind.TOO_LONG and _is_number(expected):
        yield f"expected at most {humanize.span(expected)}"
    elif kind == AlertKind.TOO_SHORT and _is_number(expected):
        yield f"expected at least {humanize.span(expected)}"
    elif _is_number(expected):
        yield f"expected within {humanize.span(expected)}"
    if isinstance(flaps := facts.get("kind"), str) and _is_number(number := facts.get("opened")):
        within = facts.get("within")
        lately = f" within {humanize.span(within)}" if _is_number(within) else ""
        yield f"{word(flaps)} {plural(int(number), 'time')}{lately}"
    if _is_number(missed := facts.get("occurrences")):
        yield plural(int(missed), "occurrence")
    if _is_number(offset):
        yield f"{offset:+.1f}s"
    for key, begin in _TIMES:
        if at := _read_time(facts.get(key)):
            yield f"{begin} {time(at)}"
    if _is_number(unheard := facts.get("unheard")):
        yield f"{plural(int(unheard), 'run')} not heard of"
    for key in ("node", "reason", "problem", "error"):
        if isinstance(value := facts.get(key), str):
            yield value


def _read_time(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LONGEST_DURATION


def sentence(facts: "AlertFacts", now: datetime) -> str:
    """Return the alert in one sentence: `backup is failing since 2027-06-01 02:00 UTC: exit 3 …`."""
    alert = facts.alert
    times = f", {plural(alert.times, 'time')}" if alert.times > 1 else ""
    said = cause(facts, now)
    return (
        f"{name(alert)}: {word(alert.kind)} since {time(alert.opened_at)}{times}{f': {said}' if said else ''}"
    )


def time(at: datetime, *, seconds: bool = False) -> str:
    """Return a time in UTC, to the minute or the second."""
    return f"{at.astimezone(UTC):{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}} UTC"
