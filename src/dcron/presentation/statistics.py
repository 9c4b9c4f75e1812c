"""Format statistics of runs. Shared by the CLI and the TUI."""

from collections.abc import Iterator

from dcron.policy.statistics import FEWEST, Statistics, Totals
from dcron.presentation.humanize import plural, span, took

_POINT = 0.01
"""By how much of one a success rate differs at least if it has changed."""


def rate(share: float | None) -> str:
    """Return a success rate, such as `99.7%`; empty without one. Only a perfect record is 100%."""
    return "" if share is None else _percent(share)


def duration(seconds: float | None) -> str:
    """Return a duration; empty without one."""
    return "" if seconds is None else took(seconds)


def work(totals: Totals) -> str:
    """Return how long commands ran: `1h 20m`."""
    return span(totals.work / 1000)


def changes(found: Statistics) -> str:
    """Return what has changed against the span before: `p95 4m 0s → 11m 2s ▲`; empty if nothing has."""
    shown = []
    before, now = found.before.took.percentile(0.95), found.now.took.percentile(0.95)
    if found.has_changed and before is not None and now is not None:
        shown.append(f"p95 {took(before)} → {took(now)} {'▲' if now > before else '▼'}")
    if min(_judged(found.before), _judged(found.now)) >= FEWEST:
        was, is_ = found.before.success_rate or 0.0, found.now.success_rate or 0.0
        if abs(is_ - was) >= _POINT:
            shown.append(f"ok {_percent(was)} → {_percent(is_)} {'▲' if is_ > was else '▼'}")
    return ", ".join(shown)


def lines(found: Statistics) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the lines that describe a task; none without a run that was judged."""
    now = found.now
    if now.success_rate is None:
        return
    failures = f", {plural(now.failures, 'failure')}" if now.failures else ""
    yield (
        "30 days",
        f"{rate(now.success_rate)} ok of {plural(now.runs, 'run')}{failures}, {work(now)} of work",
    )
    p50, p95 = (duration(now.took.percentile(share)) for share in (0.5, 0.95))
    changed = f"; {changes(found)}" if changes(found) else ""
    yield "took", f"p50 {p50}, p95 {p95}, at most {duration(now.longest)}{changed}" if p50 else changes(found)
    yield "late", f"p95 {duration(now.late.percentile(0.95))}, at most {took(now.late.longest / 1000)}"


def _judged(totals: Totals) -> int:
    return totals.succeeded + totals.failures


def _percent(share: float) -> str:
    tenths = int(share * 1000 + 1e-6)  # rounded down: 99.96% is not 100%
    return "100%" if tenths == 1000 else f"{tenths / 10:.1f}%"
