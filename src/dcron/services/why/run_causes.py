"""Causes, and the sentences about a run. Values only: nothing here reads the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any

from dcron.model import Run, RunState, SkipCode, Trigger
from dcron.presentation import humanize

RUNS_SHOWN = 5


@dataclass(frozen=True)
class Cause:
    """One cause, for people and for programs."""

    code: str
    """A word that never changes (docs/cli.md)."""
    text: str
    """The sentence, without the time that it is about."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts, times, and lists of these."""
    time: str = ""
    """The time that the sentence is about, as people read it; empty for none."""

    @property
    def sentence(self) -> str:
        """Return the sentence as people read it."""
        return f"{self.time}: {self.text}" if self.time else self.text

    def introduced(self, begin: str, at: datetime, time: str, **facts: Any) -> "Cause":
        """Return the cause as that of another time, with words before it."""
        return replace(self, text=begin + self.sentence, time=time, facts={**self.facts, "at": at, **facts})


@dataclass(frozen=True)
class Span:
    """A range of time, such as a day."""

    first: datetime
    end: datetime
    """Not part of it."""


@dataclass(frozen=True)
class Clock:
    """Formats times in one zone."""

    here: tzinfo
    now: datetime

    def time(self, at: datetime) -> str:
        """Return `2027-06-01 12:10 UTC`, with seconds where there are any."""
        local = at.astimezone(self.here)
        name = local.tzname() or ""
        zone = name if name[:1].isalpha() else humanize.offset_of(local)
        return f"{local:%Y-%m-%d %H:%M}{f':{local:%S}' if local.second else ''} {zone}"

    def distance(self, at: datetime) -> str:
        """Return `in 3m 20s`, or `3m ago`."""
        if at >= self.now:
            return f"in {humanize.left(at, self.now)}"
        return humanize.ago(at, self.now)


# About a run ------------------------------------------------------------------------------------------


def of_run(code: str, run: Run, clock: Clock, text: str, facts: Mapping[str, Any] | None = None) -> Cause:
    """Return a cause whose sentence begins with the run: `2027-06-01 12:10 UTC: run 7, attempt 2, …`."""
    what = [f"run {run.id}"]
    if run.attempt > 1:
        what.append(f"attempt {run.attempt}")
    if origin := _origin(run):
        what.append(origin)
    subject = f"{', '.join(what)}{',' if len(what) > 1 else ''}"
    return Cause(code, f"{subject} {text}", {**about(run), **(facts or {})}, clock.time(run.scheduled_for))


def _origin(run: Run) -> str | None:
    match run.trigger:
        case Trigger.MANUAL:
            return "asked for by hand"
        case Trigger.BACKFILL:
            return "a backfill"
        case Trigger.EVENT:
            return f"for event {run.event_id}"
        case Trigger.AFTER:
            return f"of flow {run.flow}"
        case Trigger.REBOOT:
            return "for the start of its node"
        case Trigger.NODE:
            return f"the share of {run.for_node}"
    return None


def about(run: Run) -> dict[str, Any]:
    """Return the facts that every cause about a run has."""
    return {
        "at": run.scheduled_for,
        "run": run.id,
        "state": run.state.value,
        "trigger": run.trigger.value,
        "attempt": run.attempt,
        "node": run.owner or run.for_node,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "flow": run.flow,
    }


def skipped(run: Run, clock: Clock, more: str, facts: Mapping[str, Any]) -> Cause:
    """Return the cause of a skipped run; `more` follows the reason on record."""
    code = run.skip_code or SkipCode.OTHER
    text = f"did not run: {run.reason}{more}"
    return of_run(code.value, run, clock, text, {"reason": run.reason, **facts})


def ended(run: Run, clock: Clock) -> Cause:
    """Return the cause of a run that ended, or was cancelled before it began."""
    dead = f"; it is a dead letter, `dcron retry {run.id}` tries it again" if run.dead_at else ""
    facts = {"reason": run.reason, "exit_code": run.exit_code, "signal": run.signal}
    if run.started_at is None and run.state.is_failure:
        text = f"failed before it started: {run.reason}{dead}"
        return of_run("ran", run, clock, text, {**facts, "dead": run.dead_at is not None})
    if run.started_at is None:
        text = f"was cancelled before it started: {run.reason or 'cancelled'}"
        return of_run("cancelled", run, clock, text, {"reason": run.reason})
    took = humanize.took(run.duration(clock.now) or 0)
    why = f" ({run.reason})" if run.reason and run.state is not RunState.SUCCEEDED else ""
    text = (
        f"ran on {run.owner}, from {clock.time(run.started_at)}:"
        f" it {_ENDS.get(run.state, run.state)} after {took}{why}{dead}"
    )
    return of_run("ran", run, clock, text, {**facts, "dead": run.dead_at is not None})


_ENDS = {RunState.LOST: "was lost", RunState.CANCELLED: "was stopped"}


def alive(run: Run, clock: Clock) -> Cause:
    """Return the cause of a run that a node has claimed or started."""
    asked = f"; {run.cancel_requested_by} has asked for its end" if run.cancel_requested_by else ""
    if run.started_at is None:
        return of_run("starting", run, clock, f"is about to start on {run.owner}{asked}")
    duration = humanize.took(run.duration(clock.now) or 0)
    text = f"has been running on {run.owner} since {clock.time(run.started_at)} ({duration}){asked}"
    return of_run("running", run, clock, text)


def named(runs: Sequence[Run], *, with_task: bool = False) -> str:
    """Return `run 3 on web-1-00000000, run 4 on web-2-00000000 and 2 more`."""
    shown = [
        f"run {run.id}{f' of {run.task}' if with_task else ''}{f' on {run.owner}' if run.owner else ''}"
        for run in runs[:RUNS_SHOWN]
    ]
    more = f" and {len(runs) - RUNS_SHOWN} more" if len(runs) > RUNS_SHOWN else ""
    return ", ".join(shown) + more
