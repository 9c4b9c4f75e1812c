"""Why a run ended, runs or waits: ordered rules over the facts. The first rule with an answer counts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from dcron.errors import UsageError
from dcron.model import Block, Node, Run, RunState, SkipCode, Task, Trigger
from dcron.policy.conditions.thresholds import PACED_AFTER
from dcron.policy.starting import lanes, occurrences
from dcron.policy.starting.catch_up import INSTANT
from dcron.policy.starting.lanes import HEAD_START, Lane
from dcron.presentation.why import RUNS_SHOWN, Cause, Shortage
from dcron.services import node_rules
from dcron.services.why.facts import Facts, about, author
from dcron.store import history
from dcron.store.planning import planning
from dcron.store.runs import rows as runs
from dcron.store.tasks import queues

_LANES_LOOKED_AT = 20


def first(rules: Sequence[Callable[..., list[Cause]]], *asked: Any) -> list[Cause]:
    """Return what the first rule says that has an answer."""
    return next((causes for rule in rules if (causes := rule(*asked))), [])


def of_run(facts: Facts, run: Run) -> list[Cause]:
    """Return what became of a run, or what it waits for."""
    return first(_OF_RUN, facts, run)


# What became of it ------------------------------------------------------------------------------------


def _skipped(facts: Facts, run: Run) -> list[Cause]:
    if run.state is not RunState.SKIPPED:
        return []
    code = run.skip_code or SkipCode.OTHER
    words, more = skip_details(facts, run)
    return [facts.cause(code.value, "skip", words, subject=run, reason=run.reason, **more)]


def skip_details(facts: Facts, run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what else is known about a skipped run: words for its sentence, and facts."""
    match run.skip_code:
        case SkipCode.OVERLAP:
            assert run.finished_at
            others = history.alive_at(facts.connection, run, run.finished_at, RUNS_SHOWN + 1)
            return {"others": others, **_unheard_then(run, others)}, {"runs": [each.id for each in others]}
        case SkipCode.PAUSED:
            pause = facts.past.last(run.covers_from or run.scheduled_for, "pause")
            return ({"pause": pause}, author(pause)) if pause else ({}, {})
        case SkipCode.MISSED:
            return _fleet_at(facts, run.covers_from or run.scheduled_for), {}
        case SkipCode.UPSTREAM if run.caused_by:
            upstream = runs.by_id(facts.connection, run.caused_by)
            return {}, {"upstream": upstream.task if upstream else None, "upstream_run": run.caused_by}
    return {}, {}


def _unheard_then(run: Run, others: Sequence[Run]) -> dict[str, Any]:
    """Return that the run in the way of a skipped one was not heard of; the skipped run has recorded it."""
    holder = next((each for each in others if each.id == run.caused_by and each.is_unheard), None)
    return {"unheard": holder} if holder else {"unheard_then": run.caused_by}


def _fleet_at(facts: Facts, at: datetime) -> dict[str, Any]:
    """Return which agents were there at this time, or when the last one ended."""
    alive = history.nodes_at(facts.connection, at, RUNS_SHOWN)
    last = None if alive else history.last_node(facts.connection, at)
    return {"agents": alive, "gone": last, "nobody": not alive and not last}


def _cancelled(facts: Facts, run: Run) -> list[Cause]:
    if run.state.is_final and run.started_at is None and not run.state.is_failure:
        return [
            facts.cause("cancelled", "", {"why": run.reason or "cancelled"}, subject=run, reason=run.reason)
        ]
    return []


def _ran(facts: Facts, run: Run) -> list[Cause]:
    if not run.state.is_final:
        return []
    form = "" if run.started_at else "not-started"
    words = {"why": run.reason if run.state is not RunState.SUCCEEDED else None}
    how = {"reason": run.reason, "exit_code": run.exit_code, "signal": run.signal}
    return [facts.cause("ran", form, words, subject=run, **how, dead=run.dead_at is not None)]


def _alive(facts: Facts, run: Run) -> list[Cause]:
    if run.state is RunState.WAITING:
        return []
    code = "running" if run.started_at else "starting"
    cause = _unheard(facts, run) if run.is_unheard else facts.cause(code, subject=run)
    return [cause, *_owner_is_late(facts, run)]


def _unheard(facts: Facts, run: Run) -> Cause:
    return facts.cause("unheard", subject=run, unheard_since=run.unheard_since, lost_after=run.lost_after)


def unheard(facts: Facts, holders: Sequence[Run]) -> list[Cause]:
    """Return the causes of those runs, among these that hold up others, that no node has heard of."""
    return [_unheard(facts, run) for run in holders[:RUNS_SHOWN] if run.is_unheard]


def _owner_is_late(facts: Facts, run: Run) -> Iterator[Cause]:
    for node in facts.nodes:
        if node.id == run.owner and node.alive_until < facts.now:
            yield facts.cause("node-late", node=node.id, since=node.alive_until, run=run.id)


# Blocked ----------------------------------------------------------------------------------------------


def _blocked(facts: Facts, run: Run) -> list[Cause]:
    match run.blocked:
        case Block.PAUSED:
            return [_paused(facts, run)]
        case Block.DELAY:
            delay = facts.task and occurrences.delay_of(facts.task)
            words = {"others": facts.alive, "delay": delay and delay.total_seconds()}
            form = "" if facts.alive else "delay-over"
            ids = [each.id for each in facts.alive]
            return [facts.cause("delay", form, words, run, runs=ids), *unheard(facts, facts.alive)]
        case Block.LIMIT:
            return [_limit(facts, run), *unheard(facts, facts.alive)]
    return []


def _paused(facts: Facts, run: Run) -> Cause:
    if not facts.task or facts.task.enabled:
        return facts.cause("paused", "pause-over", subject=run)
    pause = facts.paused()
    return facts.cause("paused", "paused-run", {"pause": pause}, subject=run, **{**pause.facts, **about(run)})


def _limit(facts: Facts, run: Run) -> Cause:
    # Runs that start before this one are in its way, too.
    others = facts.alive or [each for each in facts.unfinished if not each.blocked]
    most = facts.task.max_running if facts.task else None
    form = "limit" if facts.alive else "limit-waiting" if others else "limit-over"
    words = {"others": others, "most": most or "any number of"}
    return facts.cause("limit", form, words, subject=run, runs=[each.id for each in others])


# Not due yet ------------------------------------------------------------------------------------------


def _not_due(facts: Facts, run: Run) -> list[Cause]:
    if run.due_at <= facts.now:
        return []
    obstacles = no_node(facts, lanes.read_lane(run.lane))
    times = {"due_at": run.due_at, "expires_at": run.expires_at}
    (cause,) = first(_NOT_DUE, facts, run, times, "is due" if obstacles else "will run")
    return [cause, *(obstacles if cause.code != "calendar" else [])]


def _retry(facts: Facts, run: Run, times: dict[str, Any], will: str) -> list[Cause]:
    if run.trigger is not Trigger.RETRY:
        return []
    failed = runs.by_id(facts.connection, run.retry_of) if run.retry_of else None
    words = {"tries": facts.task.tries if facts.task else None, "failed": failed}
    cause = facts.cause("retry", "", words, run, **times, retry_of=run.retry_of)
    return [replace(cause, about=None)]


def _calendar(facts: Facts, run: Run, times: dict[str, Any], will: str) -> list[Cause]:
    reason = facts.task and run.trigger is Trigger.SCHEDULE and _excluded(facts.task, run)
    return [facts.cause("calendar", "calendar-run", subject=run, **times, reason=reason)] if reason else []


def _excluded(task: Task, run: Run) -> str | None:
    try:
        return occurrences.excluded_by(task, run.scheduled_for)
    except UsageError as error:
        return str(error)


def _frozen_then(facts: Facts, run: Run, times: dict[str, Any], will: str) -> list[Cause]:
    if run.trigger is Trigger.MANUAL or not (frozen := facts.frozen(run.due_at)):
        return []
    return [facts.cause("frozen", "frozen-run", {"inner": frozen}, subject=run, **{**times, **frozen.facts})]


def _future(facts: Facts, run: Run, times: dict[str, Any], will: str) -> list[Cause]:
    words = {"will": will, "jitter": run.due_at if run.due_at != run.scheduled_for else None}
    return [facts.cause("future", "future-run", words, subject=run, **times)]


_NOT_DUE = (_retry, _calendar, _frozen_then, _future)


# Due --------------------------------------------------------------------------------------------------


def _due(facts: Facts, run: Run) -> list[Cause]:
    return [
        each if each.code == "unheard" else _late(facts, run, each) for each in why_not_claimed(facts, run)
    ]


def _late(facts: Facts, run: Run, cause: Cause) -> Cause:
    return facts.cause(cause.code, "due-run", {"inner": cause}, run, **{"due_at": run.due_at, **cause.facts})


def why_not_claimed(facts: Facts, run: Run) -> list[Cause]:
    """Return what keeps a due run from being claimed."""
    return first(_NOT_CLAIMED, facts, run, lanes.read_lane(run.lane))


def _is_paused(facts: Facts, run: Run, lane: Lane | None) -> list[Cause]:
    holds = facts.task and not facts.task.enabled and run.trigger is not Trigger.MANUAL
    return [facts.paused()] if holds else []


def _is_unreadable(facts: Facts, run: Run, lane: Lane | None) -> list[Cause]:
    return [] if lane else [facts.cause("unserved", "unreadable-lane", lane=run.lane)]


def _is_frozen(facts: Facts, run: Run, lane: Lane) -> list[Cause]:
    frozen = None if lane.is_requested else facts.frozen(facts.now)
    return [frozen] if frozen else []


def _has_no_node(facts: Facts, run: Run, lane: Lane) -> list[Cause]:
    return no_node(facts, lane)


def no_node(facts: Facts, lane: Lane | None) -> list[Cause]:
    """Return why no living node is eligible for the lane; nothing when one is."""
    problem = lanes.why_unschedulable(lane, facts.fleet) if lane else None
    if lane and problem is None and facts.task:
        problem = node_rules.read(facts.connection, facts.fleet).why_refused(facts.task, lane)
    if lane is None or problem is None:
        return []
    if not facts.fleet:
        return [no_agent(facts)]
    if all(node.draining for node in facts.fleet):
        names = [node.id for node in facts.fleet[:RUNS_SHOWN]]
        return [facts.cause("no-agent", "draining", {"draining": names})]
    words = {"problem": problem}
    if lane.node and not any(node.id == lane.node for node in facts.fleet):
        return [facts.cause("node-gone", "", words, node=lane.node)]
    asked: dict[str, Any] = {"queue": lane.queue, "require": list(lane.require), "need": dict(lane.need)}
    return [facts.cause("unserved", "", words, **asked, user=lane.user)]


def no_agent(facts: Facts) -> Cause:
    """Return that no agent is running at all, and since when."""
    late = max(facts.nodes, key=lambda node: node.alive_until, default=None)
    if late:
        return facts.cause("no-agent", "", {"last": late}, since=late.alive_until)
    if last := history.last_node(facts.connection, facts.now):
        form = "no-agent-stopped" if last.died_how == "stopped" else "no-agent-died"
        return facts.cause("no-agent", form, {"last": last}, since=last.died_at)
    return facts.cause("no-agent", "no-agent-ever", since=None)


def _has_no_room(facts: Facts, run: Run, lane: Lane) -> list[Cause]:
    """Return why none of the eligible nodes claims the run now."""
    eligible = _eligible(facts, lane)
    free = [node for node in eligible if node.running < node.slots]
    taken = {"full": eligible[:RUNS_SHOWN]}
    found = _full_queue(facts, run)
    if not free:
        found.append(facts.cause("slots", "", taken, nodes=[node.id for node in eligible]))
    elif short := _shortage(facts, lane, free):
        found.append(short)
    if found and (ahead := _ahead(facts, run, lane)):
        found.append(ahead)
    return found


def _eligible(facts: Facts, lane: Lane) -> list[Node]:
    return [node for node in facts.fleet if not node.draining and lanes.served_by(lane, node)]


def _full_queue(facts: Facts, run: Run) -> list[Cause]:
    queue = history.queue_now(facts.connection, run.queue, RUNS_SHOWN)
    if queue is None or queue.alive < queue.max_running:
        return []
    words = {"shown": queue.shown, "others": queue.alive > len(queue.shown)}
    ids = [each.id for each in queue.shown]
    form = "" if queue.max_running else "queue-stopped"
    cause = facts.cause("queue", form, words, queue=run.queue, max_running=queue.max_running, runs=ids)
    return [cause, *unheard(facts, queue.shown)]


def _shortage(facts: Facts, lane: Lane, nodes: list[Node]) -> Cause | None:
    """Return what the lane needs and none of these nodes has left; None where one has enough."""
    left: dict[str, dict[str, float]] = {node.id: dict(node.capacity) for node in nodes}
    for owner, lane_of_run in history.lanes_taken(facts.connection, list(left)):
        if other := lanes.read_lane(lane_of_run):
            left[owner] = lanes.without(left[owner], other)
    heads = planning.heads(facts.connection) if lane.need else []
    short: list[Shortage] = []
    for node in nodes:
        served = [head for head in heads if lanes.served_by(head.lane, node)]
        is_full = partial(queues.is_full, facts.connection)
        kept = planning.reservation(served, left[node.id], facts.now, is_full)
        free = lanes.without(left[node.id], kept) if kept else left[node.id]
        if lanes.fits(lane, free):
            return None
        missing = {name: free.get(name, 0) for name, amount in lane.need if free.get(name, 0) < amount}
        short.append(Shortage(node, missing, kept if kept != lane else None))
    words = {"lane": lane, "short": short[:RUNS_SHOWN]}
    return facts.cause("capacity", "", words, need=dict(lane.need), nodes=[node.id for node in nodes])


def _ahead(facts: Facts, run: Run, lane: Lane) -> Cause | None:
    """Return how many due runs go first; None when this one is the first."""
    own = history.count_due(facts.connection, str(lane), run.due_at)
    rank = lane.rank(run.due_at)
    urgent = 0
    for head in planning.heads(facts.connection)[:_LANES_LOOKED_AT]:
        if head.lane != lane and head.due_at <= facts.now and head.lane.rank(head.due_at) < rank:
            before = min(rank + HEAD_START[head.lane.priority], facts.now + INSTANT)
            urgent += history.count_due(facts.connection, str(head.lane), before)
    if not own + urgent:
        return None
    return facts.cause("priority", "", {"urgent": urgent}, ahead=own + urgent, priority=lane.priority)


def _is_about_to_be_claimed(facts: Facts, run: Run, lane: Lane) -> list[Cause]:
    takers = [node.id for node in _eligible(facts, lane)[:RUNS_SHOWN]]
    return [facts.cause("due", "", {"takers": takers, "paced": facts.now - run.due_at > PACED_AFTER})]


_NOT_CLAIMED = (
    _is_paused,
    _is_unreadable,
    _is_frozen,
    _has_no_node,
    _has_no_room,
    _is_about_to_be_claimed,
)
_OF_RUN = (_skipped, _cancelled, _ran, _alive, _blocked, _not_due, _due)


def behind(facts: Facts, run: Run, at: datetime, form: str) -> Cause:
    """Return the cause of an occurrence that waits for an earlier one of its task to start."""
    is_due = run.state is RunState.WAITING and run.blocked is None and run.due_at <= facts.now
    cause = (why_not_claimed if is_due else of_run)(facts, run)[0]
    words = {"inner": cause, "earlier": run.scheduled_for}
    return replace(
        cause,
        about=at,
        form=form,
        words=words,
        facts={**cause.facts, "at": at, "held_by": run.id},
    )
