"""The lines above and below a log: task, run, state, counts, filter and errors."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from dcron.model import Run, RunState
from dcron.policy.conditions.lateness import frozen_for
from dcron.presentation import humanize
from dcron.tui.log.opened import OpenedLog
from dcron.tui.reads.health import Health
from dcron.values.safe_text import NAME_CELLS, cells, safe, shorten

LEAST_NAME = 8


def title(log: OpenedLog, follow: str, monotonic_now: float, width: int) -> str:
    """Return the title in at most `width` cells; the least important parts are left out first."""
    run = log.run
    name = safe(run.task, NAME_CELLS)
    node = safe(run.node or "", NAME_CELLS)
    status = state(log, monotonic_now)
    counts = f"out {humanize.plural(log.text.out, 'line')}"
    errors = f"err {log.text.err:,}"
    for parts in (
        (node, status, counts, errors, follow),
        (status, counts, errors, follow),
        (status, errors, follow),
        (status, follow),
        (follow or status,),
    ):
        line = _line(name, run.id, parts)
        if cells(line) <= width:
            return line
    rest = cells(line) - cells(name)
    return shorten(_line(shorten(name, max(LEAST_NAME, width - rest)), run.id, parts), width)


def state(log: OpenedLog, monotonic_now: float) -> str:
    """Return the state: `RUNNING 41s`, `FAILED exit 2 after 3.1s`, `WAITING due in 5m`."""
    run = log.run
    now = log.now + timedelta(seconds=max(0.0, monotonic_now - log.read_at))
    word = run.state.value.upper()
    duration = run.duration(now)
    match run.state:
        case RunState.WAITING:
            left = humanize.until_start(run.due_at, now, frozen_for(run, log.frozen))
            return f"{word} {left}" if left == humanize.FROZEN else f"{word} due {_due(run, left, now)}"
        case RunState.RUNNING:
            unheard = humanize.unheard(run, now)
            return f"{word} {humanize.span(duration or 0.0)}{', ' if unheard else ''}{unheard}"
        case RunState.FAILED:
            word = f"{word} {humanize.result(run, now)}"
    return f"{word} after {humanize.took(duration)}" if duration is not None else word


def following(log: OpenedLog, *, follows: bool, new: int, key: str) -> str:
    """Return `[FOLLOW]`, or that it is off and its key; empty if no more output will come."""
    if log.run.state.is_final and not new:
        return ""
    if follows:
        return "[FOLLOW]"
    return f"[FOLLOW off: {new:,} new - {key}]" if new else f"[FOLLOW off - {key}]"


def lost(health: Health, log: OpenedLog | None, zone: tzinfo) -> str:
    """Return the error of the database and the age of the shown lines; empty if there is no error."""
    if not (health.is_old or (health.heard_at is None and health.asked_at)):
        return ""
    as_of = f"as of {log.now.astimezone(zone):%H:%M:%S}" if log else ""
    return "  ".join(filter(None, (health.summary(), as_of, safe(str(health.error or "")))))


def filters(log: OpenedLog | None, err_key: str, back_key: str) -> str:
    """Return the filter and the search with their counts, and the keys that end them; empty without both."""
    if log is None:
        return ""
    criteria, search = log.search.criteria, log.search
    parts = [f"stderr only ({err_key})"] if criteria.err_only else []
    if criteria.filter:
        parts.append(f"&{criteria.filter.text}: {humanize.plural(len(search.rows), 'line')}")
    if criteria.sought:
        parts.append(f"/{criteria.sought.text}: {humanize.plural(len(search.hits), 'line')}")
    if (criteria.filter or criteria.sought) and not log.is_searched:
        parts.append("searching ...")
    return "  ".join([*parts, back_key] if criteria.filter or criteria.sought else parts)


def _due(run: Run, left: str, now: datetime) -> str:
    return f"in {left}" if run.due_at > now else left


def _line(name: str, run_id: int, parts: Sequence[str]) -> str:
    return "  ".join(part for part in (f" {name} > run {run_id}", *parts) if part)
