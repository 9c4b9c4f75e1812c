"""What has not happened yet: what a waiting run waits for, and what a coming occurrence meets."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from dcron import policy
from dcron.errors import UsageError
from dcron.model import Block, Definition, Node, Run, RunState, Task, Trigger
from dcron.policy import Lane
from dcron.policy.dependencies import roots
from dcron.policy.lanes import HEAD_START
from dcron.schedule import explain as in_words
from dcron.services.why import run_causes
from dcron.services.why.context import Context, schedule_of
from dcron.services.why.run_causes import RUNS_SHOWN, Cause, named
from dcron.store import dependencies, history, planning, queues, runs, tasks
from dcron.store.runs import RunFilter

_PACED = timedelta(seconds=60)
"""How late runs are that agents start at a measured pace."""
_LANES_LOOKED_AT = 20
_MOST_OF_A_FLOW = 1000


def of_run(context: Context, run: Run) -> list[Cause]:
    """Return what a run that is not over waits for, or that it runs."""
    if run.state is not RunState.WAITING:
        return [run_causes.alive(run, context.clock), *_owner_is_late(context, run)]
    if run.blocked:
        return [_blocked(context, run, run.blocked)]
    if run.due_at > context.now:
        obstacles = no_node(context, policy.read_lane(run.lane))
        cause = _not_due(context, run, "is due" if obstacles else "will run")
        return [cause, *(obstacles if cause.code != "calendar" else [])]
    return [_late(context, run, each) for each in why_not_claimed(context, run)]


def _owner_is_late(context: Context, run: Run) -> list[Cause]:
    owner = next((node for node in context.nodes if node.id == run.owner), None)
    if owner is None or owner.alive_until >= context.now:
        return []
    text = (
        f"{owner.id} has not been heard of: its lease ended {context.time(owner.alive_until)};"
        " the next agent to look declares it dead"
    )
    return [Cause("node-late", text, {"node": owner.id, "since": owner.alive_until, "run": run.id})]


# Blocked ----------------------------------------------------------------------------------------------


def _blocked(context: Context, run: Run, block: Block) -> Cause:
    others = context.alive
    if block is Block.LIMIT:  # runs that start before this one are in its way, too
        others = others or [each for each in context.unfinished if not each.blocked]
    ids = [each.id for each in others]
    match block:
        case Block.PAUSED:
            paused = context.paused() if context.task and not context.task.enabled else None
            rest = paused.text if paused else "the pause of its task has ended, and an agent lets it go on"
            facts = {**(paused.facts if paused else {}), **run_causes.about(run)}
            return run_causes.of_run("paused", run, context.clock, f"waits: {rest}", facts)
        case Block.DELAY:
            rest = f"the end of {named(others)}" if others else "an agent to let it go on"
            delay = context.task and policy.delay_of(context.task)
            then = f", and then {delay.total_seconds():g}s" if delay and others else ""
            return run_causes.of_run("delay", run, context.clock, f"waits for {rest}{then}", {"runs": ids})
        case Block.LIMIT:
            text = f"waits: {_limit(context, others)}"
            return run_causes.of_run("limit", run, context.clock, text, {"runs": ids})


def _limit(context: Context, others: Sequence[Run]) -> str:
    most = context.task.max_running if context.task else None
    if not others:
        return "the runs in its way are over, and an agent lets it go on"
    has = f"has {named(others)}" if context.alive else f"{named(others)} comes first"
    return f"{context.name} may have {most or 'any number of'} alive at once, and {has}"


# Not due yet ------------------------------------------------------------------------------------------


def _not_due(context: Context, run: Run, will: str) -> Cause:
    clock = context.clock
    not_later = f", not later than {clock.time(run.expires_at)}" if run.expires_at else ""
    facts = {"due_at": run.due_at, "expires_at": run.expires_at}
    if run.trigger is Trigger.RETRY:
        before = run.retry_of and runs.by_id(context.connection, run.retry_of)
        why = f", for run {before.id} {before.state}: {before.reason}" if before else ""
        most = f" of {context.task.tries}" if context.task else ""
        when = f"{clock.time(run.due_at)} ({clock.distance(run.due_at)})"
        text = f"attempt {run.attempt}{most} of {context.name} waits until {when}{not_later}{why}"
        return Cause("retry", text, run_causes.about(run) | facts | {"retry_of": run.retry_of})
    if calendar := context.task and run.trigger is Trigger.SCHEDULE and _excluded(context.task, run):
        text = f"will be skipped: {calendar}"
        return run_causes.of_run("calendar", run, clock, text, {**facts, "reason": calendar})
    if run.trigger is not Trigger.MANUAL and (frozen := context.frozen(run.due_at)):
        text = f"will wait then: {frozen.sentence}"
        return run_causes.of_run("frozen", run, clock, text, {**facts, **frozen.facts})
    jitter = f", by its jitter {clock.time(run.due_at)}" if run.due_at != run.scheduled_for else ""
    text = f"{will} then, {clock.distance(run.due_at)}{jitter}{not_later}"
    return run_causes.of_run("future", run, clock, text, facts)


def _excluded(task: Task, run: Run) -> str | None:
    try:
        return policy.excluded_by(task, run.scheduled_for)
    except UsageError as error:
        return str(error)


# Due --------------------------------------------------------------------------------------------------


def _late(context: Context, run: Run, cause: Cause) -> Cause:
    text = f"has been due since {context.time(run.due_at)} and waits: {cause.sentence}"
    return run_causes.of_run(cause.code, run, context.clock, text, {"due_at": run.due_at, **cause.facts})


def why_not_claimed(context: Context, run: Run) -> list[Cause]:
    """Return what keeps a due run from being claimed."""
    lane = policy.read_lane(run.lane)
    if context.task and not context.task.enabled and run.trigger is not Trigger.MANUAL:
        return [context.paused()]
    if lane is None:
        return [Cause("unserved", f"no agent can read what it asks for: {run.lane}", {"lane": run.lane})]
    if not lane.is_requested and (frozen := context.frozen(context.now)):
        return [frozen]
    return (
        no_node(context, lane) or _no_room(context, run, lane) or [_about_to_be_claimed(context, run, lane)]
    )


def _about_to_be_claimed(context: Context, run: Run, lane: Lane) -> Cause:
    who = ", ".join(node.id for node in _eligible(context, lane)[:RUNS_SHOWN])
    paced = "; what is that late is started at a measured pace" if context.now - run.due_at > _PACED else ""
    return Cause("due", f"one of {who} takes it at its next look{paced}")


def no_node(context: Context, lane: Lane | None) -> list[Cause]:
    """Return why no living node is eligible for the lane; nothing when one is."""
    if lane is None:
        return []
    problem = policy.why_unschedulable(lane, context.fleet)
    if problem is None:
        return []
    if not context.fleet:
        return [no_agent(context)]
    if all(node.draining for node in context.fleet):
        names = ", ".join(node.id for node in context.fleet[:RUNS_SHOWN])
        return [Cause("no-agent", f"every agent takes nothing new, for it drains: {names}")]
    if lane.node and not any(node.id == lane.node for node in context.fleet):
        return [Cause("node-gone", problem, {"node": lane.node})]
    facts = {"queue": lane.queue, "require": list(lane.require), "need": dict(lane.need), "user": lane.user}
    return [Cause("unserved", problem, facts)]


def no_agent(context: Context) -> Cause:
    """Return that no agent is running at all, and since when."""
    late = max(context.nodes, key=lambda node: node.alive_until, default=None)
    if late:
        since, what = late.alive_until, f"the lease of {late.id} ended"
    elif last := history.last_node(context.connection, context.now):
        since, what = last.died_at, f"{last.id} {'stopped' if last.died_how == 'stopped' else 'died'}"
    else:
        return Cause(
            "no-agent", "no agent is running, and none ever was: start `dcron agent`", {"since": None}
        )
    text = f"no agent is running, since {what} {context.time(since)}"
    return Cause("no-agent", text, {"since": since})


def _eligible(context: Context, lane: Lane) -> list[Node]:
    return [node for node in context.fleet if not node.draining and policy.served_by(lane, node)]


def _no_room(context: Context, run: Run, lane: Lane) -> list[Cause]:
    """Return why none of the eligible nodes claims the run now."""
    eligible = _eligible(context, lane)
    free = [node for node in eligible if node.running < node.slots]
    found = _queue_is_full(context, run)
    if not free:
        shown = ", ".join(f"{node.id} ({node.running}/{node.slots})" for node in eligible[:RUNS_SHOWN])
        facts = {"nodes": [node.id for node in eligible]}
        found.append(Cause("slots", f"all slots are taken on {shown}", facts))
    elif short := _shortage(context, lane, free):
        found.append(short)
    if found and (ahead := _ahead(context, run, lane)):
        found.append(ahead)
    return found


def _queue_is_full(context: Context, run: Run) -> list[Cause]:
    queue = history.queue_now(context.connection, run.queue, RUNS_SHOWN)
    if queue is None or queue.alive < queue.max_running:
        return []
    facts = {"queue": run.queue, "max_running": queue.max_running, "runs": [each.id for each in queue.shown]}
    if queue.max_running == 0:
        return [Cause("queue", f"the queue {run.queue} is stopped: its limit is 0", facts)]
    shown = named(queue.shown, with_task=True) + (" and others" if queue.alive > len(queue.shown) else "")
    text = f"the queue {run.queue} has reached its limit of {queue.max_running}: {shown}"
    return [Cause("queue", text, facts)]


def _shortage(context: Context, lane: Lane, nodes: list[Node]) -> Cause | None:
    """Return what the lane needs and none of these nodes has left; None where one has enough."""
    left: dict[str, dict[str, float]] = {node.id: dict(node.capacity) for node in nodes}
    for owner, lane_of_run in history.lanes_taken(context.connection, list(left)):
        if other := policy.read_lane(lane_of_run):
            left[owner] = policy.without(left[owner], other)
    heads = planning.heads(context.connection) if lane.need else []
    short: list[str] = []
    for node in nodes:
        served = [head for head in heads if policy.served_by(head.lane, node)]
        kept = planning.reservation(
            served, left[node.id], context.now, partial(queues.is_full, context.connection)
        )
        free = policy.without(left[node.id], kept) if kept else left[node.id]
        if policy.fits(lane, free):
            return None
        missing = [name for name, amount in lane.need if free.get(name, 0) < amount]
        left_of = (
            f"{max(0, free.get(name, 0)):.15g} {name} of {node.capacity[name]:.15g}" for name in missing
        )
        because = f", keeping room for a run that needs {_amounts(kept)}" if kept and kept != lane else ""
        short.append(f"{node.id} has {', '.join(left_of)} left{because}")
    facts = {"need": dict(lane.need), "nodes": [node.id for node in nodes]}
    return Cause("capacity", f"it needs {_amounts(lane)}, and {'; '.join(short[:RUNS_SHOWN])}", facts)


def _amounts(lane: Lane) -> str:
    return ", ".join(f"{name}={amount:.15g}" for name, amount in lane.need)


def _ahead(context: Context, run: Run, lane: Lane) -> Cause | None:
    """Return how many due runs go first; None when this one is the first."""
    own = history.count_due(context.connection, str(lane), run.due_at)
    rank = lane.rank(run.due_at)
    urgent = 0
    for head in planning.heads(context.connection)[:_LANES_LOOKED_AT]:
        if head.lane != lane and head.due_at <= context.now and head.lane.rank(head.due_at) < rank:
            before = min(rank + HEAD_START[head.lane.priority], context.now + policy.INSTANT)
            urgent += history.count_due(context.connection, str(head.lane), before)
    if not own + urgent:
        return None
    others = f", {urgent} of them of other kinds" if urgent else ""
    text = f"{own + urgent} due runs go first{others}; its own priority is {lane.priority}"
    return Cause("priority", text, {"ahead": own + urgent, "priority": lane.priority})


# An occurrence to come, without a row of its own -------------------------------------------------------


def occurrence(context: Context, at: datetime) -> list[Cause]:
    """Return whether an occurrence that is still to come will run."""
    task = context.task
    if task is None:
        return [context.removed(at)]
    if task.error:
        return [context.suspended(task.error, at)]
    if calendar := policy.excluded_by(task, at):
        return [context.cause(at, "calendar", f"it will be skipped: {calendar}", {"reason": calendar})]
    paused = [] if task.enabled else [context.paused(at)]
    if not task.enabled and (task.paused_until is None or at <= task.paused_until):
        return paused
    due = policy.due_at(task, at)
    if frozen := context.frozen(due, at):
        return [*paused, frozen]
    jitter = f", by its jitter {context.time(due)}" if due != at else ""
    obstacles = _behind_another(context, at) or [
        context.cause(at, each.code, each.text, each.facts) for each in no_node(context, policy.lane_of(task))
    ]
    will = "is due" if obstacles else "will run"
    text = f"{task.name} {will} then, {context.clock.distance(due)}{jitter}"
    return [*paused, context.cause(at, "future", text, {"due_at": due}), *obstacles]


def _behind_another(context: Context, at: datetime) -> list[Cause]:
    """Return the task's scheduled run, if it is due and is not claimed: when it ends is unknown."""
    for run in context.unfinished:
        is_scheduled = run.trigger is Trigger.SCHEDULE and run.state is RunState.WAITING
        if is_scheduled and run.due_at <= context.now and run.scheduled_for < at:
            cause = behind(context, run, at, "its runs start one after the other, and")
            if cause.code != "due" or run.backlog_until:
                return [cause]
    return []


def behind(context: Context, run: Run, at: datetime, begin: str) -> Cause:
    """Return the cause of an occurrence that waits for an earlier one of its task to start."""
    is_due = run.state is RunState.WAITING and run.blocked is None and run.due_at <= context.now
    cause = (why_not_claimed if is_due else of_run)(context, run)[0]
    begin = f"{begin} the occurrence of {context.time(run.scheduled_for)} has not begun (run {run.id}): "
    return cause.introduced(begin, at, context.time(at), held_by=run.id)


def unplanned(context: Context, at: datetime | None = None) -> Cause:
    """Return the cause of a task that no agent has planned as it is."""
    agents = "an agent does so at its next look" if context.fleet else no_agent(context).sentence
    text = f"{context.name} is new or changed, and not planned yet; {agents}"
    return context.cause(at, "unplanned", text)


# A task without times of its own -----------------------------------------------------------------------


def waits_for(context: Context, task: Definition) -> list[Cause]:
    """Return what has to happen before a task runs that follows a node, an event or other tasks."""
    schedule = schedule_of(task)
    if schedule.after:
        return _after(context, schedule.after)
    if schedule.event:
        return [_event(context, schedule.event)]
    return [Cause("reboot", f"{context.name} runs {in_words(schedule)}", {})] if schedule.reboot else []


def _event(context: Context, name: str) -> Cause:
    if event := history.unhandled_event(context.connection, name):
        sent = context.time(event.created_at)
        text = f"the event {name} was sent {sent}, and an agent has yet to start what waits for it"
        return Cause("event", text, {"event": name, "since": event.created_at})
    last = history.last_event_run(context.connection, context.task_id)
    came = f"the last came {context.time(last.scheduled_for)}" if last else "none has come yet"
    return Cause("event", f"{context.name} waits for the event {name}; {came}", {"event": name})


def _after(context: Context, earlier: Sequence[str]) -> list[Cause]:
    """Return which of its upstream tasks the task waits for, in the latest flow."""
    upstream = tasks.by_names(context.connection, earlier)
    flow = history.newest_flow(context.connection, [task.id for task in upstream])
    if flow is None:
        return [_next_flow(context, f"{context.name} waits for {_listed(earlier)}, and no flow has begun")]
    members = _members(context, flow)
    own = members.get(context.name)
    if own and own.state.is_final:
        return [_next_flow(context, f"flow {flow} is over for {context.name} (run {own.id} {own.state})")]
    if own:
        return []
    succeeded = {name for name, run in members.items() if run.state is RunState.SUCCEEDED}
    missing = [name for name in earlier if name not in succeeded]
    if not missing:
        text = f"flow {flow} went on before {context.name} came after {_listed(earlier)}"
        return [_next_flow(context, text)]
    states = ", ".join(state_in_flow(name, members.get(name)) for name in missing)
    text = f"{context.name} waits for {_listed(missing)} in flow {flow}: {states}"
    return [Cause("after", text, {"flow": flow, "waits_for": missing})]


def _members(context: Context, flow: int) -> dict[str, Run]:
    """Return the latest run of each task in the flow, or one that succeeded before it."""
    found: dict[str, Run] = {}
    for run in runs.newest(context.connection, RunFilter(flow=flow), _MOST_OF_A_FLOW):
        known = found.get(run.task)
        if known is None or run.state is RunState.SUCCEEDED:
            found[run.task] = run
    return found


def state_in_flow(name: str, run: Run | None) -> str:
    """Return how far a task has come: `load is failed on web-1-00000000 (run 7, attempt 2)`."""
    if run is None:
        return f"{name} has yet to run"
    where = f" on {run.owner}" if run.owner else ""
    retry = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return f"{name} is {run.state}{where} (run {run.id}{retry})"


def _next_flow(context: Context, text: str) -> Cause:
    first = sorted(roots(dependencies.graph_around(context.connection, context.name), [context.name]))
    names = {task.id: task.name for task in tasks.by_names(context.connection, first)}
    waiting = runs.next_runs(context.connection, list(names))
    when = sorted(f"{names[task_id]} ({context.time(run.due_at)})" for task_id, run in waiting.items())
    following = f"; the next begins with {', '.join(when or first)}" if first else ""
    return Cause("after", text + following, {"flow": None, "waits_for": first})


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
