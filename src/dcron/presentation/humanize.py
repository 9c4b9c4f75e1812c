"""Format times, durations and results for people."""

import signal
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from dcron.model import Block, Node, Run, RunState, node_name
from dcron.policy.conditions.lateness import frozen_for, is_late
from dcron.policy.starting.freezes import NEVER, FrozenTime

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FROZEN = "frozen"
"""The word for a due run that a freeze holds back."""
_NEAR_DAYS = 180
_MANY_DAYS = 100
WAITS_FOR = {
    Block.PAUSED: "blocked while its task is paused",
    Block.LIMIT: "blocked until earlier runs of its task have ended",
    Block.DELAY: "blocked until the run before it ends",
}
"""Why a waiting run is not started, even if it is due."""


def span(seconds: float) -> str:
    """Return `2m 53s`: the two largest units, rounded down."""
    left = max(0, int(seconds))
    for position, (unit, size) in enumerate(_UNITS):
        if left >= size:
            count, rest = divmod(left, size)
            if unit == "s" or (unit == "d" and count >= _MANY_DAYS):
                return f"{count}{unit}"
            smaller, smaller_size = _UNITS[position + 1]
            return f"{count}{unit} {rest // smaller_size}{smaller}"
    return "0s"


def rough_span(seconds: float) -> str:
    """Return `2m`: the largest unit alone."""
    return span(seconds).split(" ")[0]


def took(seconds: float) -> str:
    """Return how long something ran: a tenth or a hundredth of a second is shown for short runs."""
    if seconds < 1:
        return f"{seconds:.2f}s"
    return f"{seconds:.1f}s" if seconds < 10 else span(seconds)


def left(due: datetime, now: datetime) -> str:
    """Return the time until something is due, or how late it is."""
    seconds = (due - now).total_seconds()
    if seconds >= 0:
        return span(seconds + 0.999) if seconds < 60 else span(seconds)
    return f"late {rough_span(-seconds)}" if seconds <= -1 else "now"


def until_start(due: datetime, now: datetime, frozen: FrozenTime = NEVER) -> str:
    """Return the time until a run is due; then `now`, `late 4m`, or `frozen` while a freeze holds it back."""
    if due > now:
        return left(due, now)
    if frozen.at(now):
        return FROZEN
    return late(frozen.waited(due, now)) if is_late(due, now, frozen) else "now"


def late(waited: timedelta) -> str:
    """Return how late a run is: `late 4m`."""
    return f"late {rough_span(waited.total_seconds())}"


def accounts(node: Node) -> str:
    """Return the account that a node runs commands as, with `+` if it can also use others."""
    if node.account is None:
        return ""
    return f"{node.account}{'+' if node.any_account else ''}"


def refusals(run: Run) -> str:
    """Return which nodes could not start the run's command, and why: `web-1: there is no user 'deploy'`."""
    return "; ".join(f"{node_name(node)}: {reason}" for node, reason in (run.refused_by or {}).items())


def to_next(
    run: Run | None, due: datetime | None, unserved: str | None, now: datetime, frozen: FrozenTime = NEVER
) -> str:
    """Return the time to a task's next run; `blocked` by its limit, `no agent` if no node can claim it."""
    if unserved and due:
        return "no agent"
    if run and run.blocked is Block.LIMIT:
        return "blocked"
    return until_start(due, now, frozen_for(run, frozen) if run else frozen) if due else ""


def trigger(run: Run) -> str:
    """Return why the run exists, in one word."""
    return "trial" if run.is_trial else run.trigger.value


def attempt(run: Run, tries: int | None) -> str:
    """Return why the run exists, and which attempt it is of those that its task allows: `retry 2/3`."""
    if run.attempt <= 1:
        return trigger(run)
    of_tries = f"/{tries}" if tries and run.attempt <= tries else ""
    return f"{trigger(run)} {run.attempt}{of_tries}"


def waits(run: Run, tries: int, now: datetime, frozen: FrozenTime = NEVER) -> str:
    """Return the trigger of a waiting run, its attempt of `tries`, and when it is due or why it waits."""
    what = attempt(run, tries)
    if run.blocked:
        return f"{what}: {WAITS_FOR[run.blocked]}"
    until = until_start(run.due_at, now, frozen_for(run, frozen))
    if until == FROZEN:
        return f"{what}: due {ago(run.due_at, now)}, held back by a freeze"
    return f"{what}: in {until}" if run.due_at > now else f"{what}: due {until}"


def ago(at: datetime, now: datetime) -> str:
    """Return how long ago a time was."""
    seconds = (now - at).total_seconds()
    return f"{rough_span(seconds)} ago" if seconds >= 1 else "now"


def pruned(ran_at: datetime, runs: int, oldest: datetime | None, now: datetime) -> str:
    """Return `pruned 4m ago: 12,110 runs; oldest 29d 23h`."""
    text = f"pruned {ago(ran_at, now)}: {plural(runs, 'run')}"
    return f"{text}; oldest {span((now - oldest).total_seconds())}" if oldest else text


def clock(at: datetime, zone: tzinfo, now: datetime) -> str:
    """Return a time for a table: `14:05` today, `Nov 22 02:30` within half a year, else `2027-08-01`."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    time = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    if local.date() == today.date():
        return time
    if abs((local.date() - today.date()).days) <= _NEAR_DAYS:
        return f"{_MONTHS[local.month - 1]} {local.day:2} {time}"
    return f"{local:%Y-%m-%d}"


def full(local: datetime) -> str:
    """Return a local time in full: `Sun 2026-11-22 02:30:00 CET +01:00`."""
    name = local.tzname() or ""
    named = f"{name} " if name[:1].isalpha() else ""
    return f"{local:%a %Y-%m-%d %H:%M:%S} {'UTC' if name == 'UTC' else named + offset_of(local)}"


def offset_of(local: datetime) -> str:
    """Return the offset of a local time from UTC: `+01:00`."""
    text = f"{local:%z}"
    return f"{text[:3]}:{text[3:5]}" + (f":{text[5:7]}" if len(text) > 5 else "")


def result(run: Run, now: datetime) -> str:
    """Return the state of a run in a word or two."""
    duration = run.duration(now)
    match run.state:
        case RunState.RUNNING:
            return unheard(run, now) or f"running {span(duration or 0)}"
        case RunState.SUCCEEDED:
            return f"ok {took(duration)}" if duration is not None else "ok"
        case RunState.FAILED:
            return _failure(run)
        case RunState.CLAIMED:
            return "starting"
    return run.state.value


def unheard(run: Run, now: datetime) -> str:
    """Return `unheard 12m` for a run that no node has heard of for so long; empty for any other."""
    if not run.is_unheard or run.unheard_since is None:
        return ""
    return f"unheard {span(max(0.0, (now - run.unheard_since).total_seconds()))}"


def not_heard_of(run: Run, zone: tzinfo, now: datetime) -> str:
    """Return `not heard of since 02:10` for an unheard run; empty for any other."""
    if not run.is_unheard or run.unheard_since is None:
        return ""
    return f"not heard of since {clock(run.unheard_since, zone, now)}"


def _failure(run: Run) -> str:
    if run.timed_out:
        return "timeout"
    if run.signal is not None:
        return signal_name(run.signal)
    return f"exit {run.exit_code}" if run.exit_code is not None else "failed"


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def first_few(names: Sequence[str], most: int) -> str:
    """Return `a, b, …`: at most this many of the names, and a sign if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return at most this many of the lines, and how many there are besides."""
    rest = len(lines) - most
    return [*lines[:most], *([f"… and {rest:,} more"] if rest > 0 else [])]


def plural(number: int, thing: str) -> str:
    """Return `1 task`, `2,000 tasks`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
