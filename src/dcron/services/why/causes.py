"""Causes: what a row of the record says, each in one sentence. Values only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from dcron.model import Run, RunState, SkipCode, Trigger
from dcron.presentation import humanize

RUNS_SHOWN = 5


@dataclass(frozen=True)
class Cause:
    """One cause, for people and for programs."""

    code: str
    """A word that stays (docs/cli.md)."""
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts, moments, and lists of these."""

    @property
    def gist(self) -> str:
        """The sentence without the time that it is about."""
        return _BEGIN.sub("", self.sentence)


_BEGIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? \S+: ")


@dataclass(frozen=True)
class Clock:
    """Tells times as the line's zone has them."""

    here: tzinfo
    now: datetime

    def time(self, moment: datetime) -> str:
        """`2027-06-01 12:10 UTC`; seconds where there are any."""
        local = moment.astimezone(self.here)
        name = local.tzname() or ""
        zone = name if name[:1].isalpha() else humanize.offset_of(local)
        return f"{local:%Y-%m-%d %H:%M}{f':{local:%S}' if local.second else ''} {zone}"

    def distance(self, moment: datetime) -> str:
        """`in 3m 20s`, or `3m ago`."""
        if moment >= self.now:
            return f"in {humanize.left(moment, self.now)}"
        return humanize.ago(moment, self.now)


def skipped(run: Run, clock: Clock, more: str = "", **facts: Any) -> Cause:
    """Return the cause of a skipped run; `more` follows the reason on record."""
    sentence = f"{subject(run, clock)} did not run: {run.reason}{more}"
    code = run.skip_code or SkipCode.OTHER
    return Cause(code.value, sentence, about(run) | {"reason": run.reason, **facts})


def over(run: Run, clock: Clock) -> Cause:
    """A run that ended, or was called off before it began."""
    if run.started_at is None:
        sentence = f"{subject(run, clock)} was cancelled before it started: {run.reason or 'cancelled'}"
        return Cause("cancelled", sentence, about(run) | {"reason": run.reason})
    duration = run.duration(clock.now) or 0
    sentence = (
        f"{subject(run, clock)} ran on {run.owner}, from {clock.time(run.started_at)}:"
        f" it {_ENDS.get(run.state, run.state)} after {humanize.took(duration)}{_why(run)}{_dead(run)}"
    )
    facts = {"reason": run.reason, "exit_code": run.exit_code, "signal": run.signal}
    return Cause("ran", sentence, about(run) | facts | {"dead": run.dead_at is not None})


_ENDS = {RunState.LOST: "was lost", RunState.CANCELLED: "was stopped"}


def _why(run: Run) -> str:
    return f" ({run.reason})" if run.reason and run.state is not RunState.SUCCEEDED else ""


def _dead(run: Run) -> str:
    return f"; it is a dead letter, `dcron retry {run.id}` tries it again" if run.dead_at else ""


def alive(run: Run, clock: Clock) -> Cause:
    """A run that a node has."""
    asked = f"; {run.cancel_requested_by} has asked for its end" if run.cancel_requested_by else ""
    if run.started_at is None:
        sentence = f"{subject(run, clock)} is about to start on {run.owner}{asked}"
        return Cause("starting", sentence, about(run))
    duration = humanize.took(run.duration(clock.now) or 0)
    started = clock.time(run.started_at)
    sentence = f"{subject(run, clock)} is running on {run.owner}, since {started} ({duration}){asked}"
    return Cause("running", sentence, about(run))


def subject(run: Run, clock: Clock) -> str:
    """What the sentence is about: `2027-06-01 12:10 UTC: run 7, attempt 2,`."""
    what = [f"run {run.id}"]
    if run.attempt > 1:
        what.append(f"attempt {run.attempt}")
    if extra := _extra(run):
        what.append(extra)
    return f"{clock.time(run.scheduled_for)}: {', '.join(what)}{',' if len(what) > 1 else ''}"


def _extra(run: Run) -> str | None:
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
    """The facts that every cause about a run has."""
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


def named(runs: Sequence[Run], *, with_task: bool = False) -> str:
    """`run 3 on web-1-00000000, run 4 on web-2-00000000 and 2 more`."""
    shown = [
        f"run {run.id}{f' of {run.task}' if with_task else ''}{f' on {run.owner}' if run.owner else ''}"
        for run in runs[:RUNS_SHOWN]
    ]
    more = f" and {len(runs) - RUNS_SHOWN} more" if len(runs) > RUNS_SHOWN else ""
    return ", ".join(shown) + more
