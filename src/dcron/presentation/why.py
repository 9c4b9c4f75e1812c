"""The sentences of `dcron why`: each cause has a code and facts, and here is the sentence that says them.

In a sentence, `{fact}` is a fact or a word. `[, until {until}]` is there only if all of its values are;
`[?paced:; …]` only if the value before the colon is.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from string import Formatter
from typing import Any

from dcron.model import Node, Run, RunState, Trigger
from dcron.policy.starting.lanes import Lane
from dcron.presentation import humanize

RUNS_SHOWN = 5


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


@dataclass(frozen=True)
class Cause:
    """One cause, for people and for programs."""

    code: str
    """A word that never changes (docs/cli.md)."""
    clock: Clock
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts, times, and lists of these."""
    about: datetime | None = None
    """The time that the sentence is about; None for none."""
    form: str = ""
    """Which sentence says it; empty for that of the code."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """What the sentence needs beside the facts."""

    @property
    def text(self) -> str:
        """The sentence, without the time that it is about."""
        return _filled(SENTENCES[self.form or self.code], {**self.facts, **self.words}, self.clock)

    @property
    def time(self) -> str:
        """The time that the sentence is about, as people read it; empty for none."""
        return self.clock.time(self.about) if self.about else ""

    @property
    def sentence(self) -> str:
        """Return the sentence as people read it."""
        return f"{self.time}: {self.text}" if self.time else self.text


_DEAD = "[?subject.dead_at:; it is a dead letter, `dcron retry {subject.id}` tries it again]"
_ASKED = "[; {subject.cancel_requested_by} has asked for its end]"
_SKIP = (
    "{reason}[ ({others:runs})]"
    "[; run {unheard.id} was not heard of since {unheard.unheard_since}, so its command might still run]"
    "[; run {unheard_then} was not heard of then, so its command might still run]"
    "[; since {pause.at}][; agents there at the time: {agents}]"
    "[; no agent was there: the last one, {gone.id}, ended {gone.died_at}][?nobody:; no agent was there yet]"
)
_FREEZE = "[ until {until}][: {reason}]; nothing starts by itself then, and `dcron thaw {freeze}` ends it"
_JITTER = "[, by its jitter {jitter}]"
_NOT_LATER = "[, not later than {expires_at}]"
_CHANGED = "{name} was changed by {change.author}, {change.at}"
_HAS_TIME = "{task.schedule} ({task.timezone}), which has this time"
_LIMIT = "{subject} waits: {name} may have {most} alive at once, and"
_BEGUN = "the occurrence of {earlier} has not begun (run {held_by}): {inner}"
_NEXT_FLOW = "[; the next begins with {following}]"
_NO_AGENT = "no agent is running, since"
_UNPLANNED = "{name} is new or changed, and not planned yet;"

SENTENCES: Mapping[str, str] = {
    # What became of a run
    "ran": "{subject} ran on {subject.owner}, from {subject.started_at}: it {subject:ended}[ ({why})]"
    + _DEAD,
    "not-started": "{subject} failed before it started: {reason}" + _DEAD,
    "cancelled": "{subject} was cancelled before it started: {why}",
    "skip": "{subject} did not run: " + _SKIP,
    "covered": "did not run, see run {run}: " + _SKIP,
    "running": "{subject} has been running on {subject.owner} since {subject.started_at} ({subject:took})"
    + _ASKED,
    "unheard": "{subject} has not been heard of since {unheard_since}: {subject.owner} cannot reach the"
    " database, or is gone. The command, started {subject.started_at}, may still run, and the run keeps its"
    " place until its node is back[, it counts as lost ({lost_after})] or `dcron cancel {subject.id} --lost`"
    " gives it up",
    "starting": "{subject} is about to start on {subject.owner}" + _ASKED,
    "node-late": "{node} has not been heard of: its lease ended {since}; the next agent to look declares"
    " it dead",
    # What a run waits for
    "paused-run": "{subject} waits: {pause:text}",
    "pause-over": "{subject} waits: the pause of its task has ended, and an agent lets it go on",
    "delay": "{subject} waits for the end of {others:runs}[, and then {delay:g}s]",
    "delay-over": "{subject} waits for an agent to let it go on",
    "limit": _LIMIT + " has {others:runs}",
    "limit-waiting": _LIMIT + " {others:runs} comes first",
    "limit-over": "{subject} waits: the runs in its way are over, and an agent lets it go on",
    "retry": "attempt {attempt}[ of {tries}] of {name} waits until {due_at} ({due_at:distance})"
    + _NOT_LATER
    + "[, for {failed:result}]",
    "calendar-run": "{subject} will be skipped: {reason}",
    "frozen-run": "{subject} will wait then: {inner}",
    "future-run": "{subject} {will} then, {due_at:distance}" + _JITTER + _NOT_LATER,
    "due-run": "{subject} has been due since {subject.due_at} and waits: {inner}",
    # What keeps a due run from starting
    "due": "one of {takers} takes it at its next look"
    "[?paced:; what is that late is started at a measured pace]",
    "unserved": "{problem}",
    "node-gone": "{problem}",
    "unreadable-lane": "no agent can read what it asks for: {lane}",
    "no-agent": _NO_AGENT + " the lease of {last.id} ended {since}",
    "no-agent-stopped": _NO_AGENT + " {last.id} stopped {since}",
    "no-agent-died": _NO_AGENT + " {last.id} died {since}",
    "no-agent-ever": "no agent is running, and none ever was: start `dcron agent`",
    "draining": "every agent takes nothing new, for it drains: {draining}",
    "slots": "all slots are taken on {full:slots}",
    "queue": "the queue {queue} has reached its limit of {max_running}: {shown:runs_of}[?others: and others]",
    "queue-stopped": "the queue {queue} is stopped: its limit is 0",
    "capacity": "it needs {lane:amounts}, and {short:shortages}",
    "priority": "{ahead} due runs go first[, {urgent} of them of other kinds]; its own priority is"
    " {priority}",
    "held-up": "the occurrence before it was not begun until {begun}: {inner}",
    "behind": "its runs start one after the other, and " + _BEGUN,
    "behind-past": "not run yet, because " + _BEGUN,
    # The task
    "paused": "{name} is paused[ by {by}] since {since}[, until {until}][: {reason}]",
    "paused-then": "{name} was paused by {change.author}, {change.at}[: {reason}]",
    "frozen": "the crontab is frozen[ by {by}] since {since}" + _FREEZE,
    "frozen-later": "the crontab will be frozen[ by {by}] from {since}" + _FREEZE,
    "suspended": "{name} is suspended, because agents cannot run it as it is written: {reason}",
    "removed": "{name} was removed by {change.author}, {change.at}",
    "left": "{name} was a one-off, and left the crontab when its run had succeeded",
    "not-yet": "{name} was not there yet: it was added by {change.author}, {change.at}",
    "edited-after": _CHANGED + ": until then its schedule was " + _HAS_TIME,
    "edited-before": _CHANGED + ": since then its schedule is " + _HAS_TIME,
    "changed-since": "{name} was changed since,[ {times} times, last] by {change.author}, {change.at}:"
    " {fields}",
    "unplanned": _UNPLANNED + " an agent does so at its next look",
    "unplanned-no-agent": _UNPLANNED + " {inner}",
    "planned-late": "nothing is on record of {name} until then: agents first planned it for {after}"
    " (run {first.id})",
    # The schedule
    "future": "{name} {will} then, {due_at:distance}" + _JITTER,
    "calendar": "it will be skipped: {reason}",
    "window-begins": "it lies outside the window of {name}, which begins {not_before}",
    "window-ends": "it lies outside the window of {name}, which ends {not_after}",
    "no-such-time": "the schedule {schedule} ({in_words}) has no such time; its nearest are {near:starts}",
    "no-such-time-ever": "the schedule {schedule} ({in_words}) has no such time; it has no others",
    "no-such-time-then": "{name} runs {in_words}, and did not then[; {near:neighbours}]",
    "no-such-time-of-its-own": "{name} has no times of its own: it runs {in_words}",
    "no-more-times": "{name} has no further times: its schedule is {schedule}",
    "daylight-saving": "the clocks change: {note}",
    # A task without times of its own
    "reboot": "{name} runs {in_words}",
    "event": "{name} waits for the event {event}; the last came {last}",
    "event-never": "{name} waits for the event {event}; none has come yet",
    "event-sent": "the event {event} was sent {since}, and an agent has yet to start what waits for it",
    "after": "{name} waits for {waits_for} in flow {flow}: {members:in_flow}",
    "after-then": "it comes after {upstream}; {members:in_flow}",
    "after-never": "it comes after {upstream}; {upstream} had no run of that time either",
    "no-flow": "{name} waits for {earlier}, and no flow has begun" + _NEXT_FLOW,
    "flow-over": "flow {over} is over for {name} (run {own.id} {own.state})" + _NEXT_FLOW,
    "flow-passed": "flow {over} went on before {name} came after {earlier}" + _NEXT_FLOW,
    # The record, and the database
    "never": "{name} has not run yet",
    "alert": "{name} is {is_now} since {since}[; it {blame}][ (acknowledged by {known}][: {note}][?known:)]",
    "pruned": "its record has been pruned; runs are kept for {keep_runs} (`dcron config list`, `--keep`)",
    "no-record": "the schedule has this time, but the record has no run of it; the nearest are"
    " {near:records}",
    "epoch": "the database may have lost what it had committed ({lost}): run ids go on above {ids}, and an"
    " occurrence that it forgot may run again",
    "clock-set-back": "the database's clock was set back, and {tasks} tasks were replanned"
    "[; what ran ahead of its time, up to {ran_until}, is not run again]",
    "clock-lease": "the lease of {node} ends {until}, later than its {lease:g}s allow: the database's clock"
    " was set back, or was ahead; without a renewal the agents declare the node dead {lease:g}s after they"
    " first saw it",
    # Several times
    "more": "there is more: go on with {after}",
    "alike": "{inner:text}; the same holds for[ {least}] {more:,} more, up to {until}",
    "alike-one": "{inner:text}; the same holds for 1 more {until}",
}
"""By code, or by the form of a cause."""
_OPTIONAL = re.compile(r"\[(?:\?([\w.]+):)?([^\]]*)\]")


def _filled(sentence: str, values: Mapping[str, Any], clock: Clock) -> str:
    """Return the sentence with its values, without the optional parts whose values are missing."""
    formatter = _Values(clock)

    def part(found: re.Match[str]) -> str:
        names = [found[1]] if found[1] else [name for _, name, _, _ in formatter.parse(found[2]) if name]
        return found[2] if all(formatter.known(name, values) for name in names) else ""

    return formatter.vformat(_OPTIONAL.sub(part, sentence), (), values)


class _Values(Formatter):
    """Formats what stands in a sentence."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def known(self, name: str, values: Mapping[str, Any]) -> bool:
        """Return whether there is such a value."""
        first, _, attribute = name.partition(".")
        value = values.get(first)
        return bool(getattr(value, attribute) if attribute and value is not None else value)

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return the value as the sentence has it."""
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value, self._clock)
        match value:
            case datetime():
                return self._clock.time(value)
            case Cause():
                return value.sentence
            case Run():
                return _subject(value)
            case list() | tuple():
                return ", ".join(map(str, value))
        return format(value, format_spec)


def _subject(run: Run) -> str:
    """Return `run 7, attempt 2, of flow 3,`."""
    what = [f"run {run.id}"]
    if run.attempt > 1:
        what.append(f"attempt {run.attempt}")
    if origin := _origin(run):
        what.append(origin)
    return f"{', '.join(what)}{',' if len(what) > 1 else ''}"


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


def _took(run: Run, clock: Clock) -> str:
    return humanize.took(run.duration(clock.now) or 0)


_ENDS = {RunState.LOST: "was lost", RunState.CANCELLED: "was stopped"}


def _runs(runs: Sequence[Run], *, with_task: bool = False) -> str:
    """Return `run 3 on web-1-00000000, run 4 on web-2-00000000 and 2 more`."""
    shown = [
        f"run {run.id}{f' of {run.task}' if with_task else ''}{f' on {run.owner}' if run.owner else ''}"
        + (", not heard of" if run.is_unheard else "")
        for run in runs[:RUNS_SHOWN]
    ]
    more = f" and {len(runs) - RUNS_SHOWN} more" if len(runs) > RUNS_SHOWN else ""
    return ", ".join(shown) + more


def _amounts(lane: Lane) -> str:
    return ", ".join(f"{name}={amount:.15g}" for name, amount in lane.need)


@dataclass(frozen=True)
class Shortage:
    """What a node has too little of for a lane."""

    node: Node
    left: Mapping[str, float]
    """What it has left of each thing that is short."""
    kept: Lane | None
    """The lane for which it keeps room; None if for none, or for this one."""

    def __str__(self) -> str:
        """Return `web-1-00000000 has 1 gpu of 4 left`."""
        left = (
            f"{max(0, amount):.15g} {name} of {self.node.capacity[name]:.15g}"
            for name, amount in self.left.items()
        )
        because = f", keeping room for a run that needs {_amounts(self.kept)}" if self.kept else ""
        return f"{self.node.id} has {', '.join(left)} left{because}"


def _in_flow(members: Iterable[tuple[str, Run | None]]) -> str:
    """Return how far tasks have come: `load is failed on web-1-00000000 (run 7, attempt 2)`."""
    return ", ".join(_state_in_flow(name, run) for name, run in members)


def _state_in_flow(name: str, run: Run | None) -> str:
    if run is None:
        return f"{name} has yet to run"
    where = f" on {run.owner}" if run.owner else ""
    retry = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return f"{name} is {run.state}{where} (run {run.id}{retry})"


def _starts(near: Iterable[tuple[datetime, datetime]], clock: Clock) -> str:
    """Return these times, each with its due time where that is another one."""
    return " and ".join(
        clock.time(at) + (f" (with its jitter {clock.time(due)})" if due != at else "") for at, due in near
    )


def _neighbours(near: Iterable[tuple[Run, str]], clock: Clock) -> str:
    return ", ".join(f"run {run.id} was {which}, {clock.time(run.scheduled_for)}" for run, which in near)


def _records(near: Iterable[Run], clock: Clock) -> str:
    times = (f"run {run.id}, {clock.time(run.scheduled_for)}" for run in near)
    return " and ".join(times) or "gone too"


_FORMATS: Mapping[str, Callable[[Any, Clock], str]] = {
    "text": lambda cause, clock: cause.text,
    "distance": lambda at, clock: clock.distance(at),
    "took": _took,
    "ended": lambda run, clock: f"{_ENDS.get(run.state, run.state)} after {_took(run, clock)}",
    "result": lambda run, clock: f"run {run.id} {run.state}: {run.reason}",
    "runs": lambda runs, clock: _runs(runs),
    "runs_of": lambda runs, clock: _runs(runs, with_task=True),
    "slots": lambda nodes, clock: ", ".join(f"{node.id} ({node.running}/{node.slots})" for node in nodes),
    "amounts": lambda lane, clock: _amounts(lane),
    "shortages": lambda short, clock: "; ".join(map(str, short)),
    "in_flow": lambda members, clock: _in_flow(members),
    "starts": _starts,
    "neighbours": _neighbours,
    "records": _records,
}
