"""What a waiting run waits for: its time, another run, or a node that can take it."""

from datetime import timedelta

from dcron import policy
from dcron.errors import UsageError
from dcron.model import Block, Node, Run, RunState, Task, Trigger
from dcron.policy import Lane
from dcron.policy.lanes import HEAD_START
from dcron.services.why.causes import RUNS_SHOWN, Cause, about, alive, named, subject
from dcron.services.why.inquiry import Inquiry
from dcron.store import history, planning, runs

_PACED = timedelta(seconds=60)
"""How late runs are that agents start at a measured pace."""
_LANES_LOOKED_AT = 20


def explain(inquiry: Inquiry, run: Run) -> list[Cause]:
    """What becomes of a run that is not over."""
    if run.state is not RunState.WAITING:
        return [alive(run, inquiry.clock), *_owner_is_late(inquiry, run)]
    if run.blocked:
        return [_blocked(inquiry, run, run.blocked)]
    if run.due_at > inquiry.now:
        obstacles = no_node(inquiry, policy.read_lane(run.lane))
        told = _to_come(inquiry, run, "is due" if obstacles else "will run")
        return [told, *(obstacles if told.code != "calendar" else [])]
    return [_late(inquiry, run, each) for each in why_not_taken(inquiry, run)]


def _owner_is_late(inquiry: Inquiry, run: Run) -> list[Cause]:
    owner = next((node for node in inquiry.nodes if node.id == run.owner), None)
    if owner is None or owner.alive_until >= inquiry.now:
        return []
    since = inquiry.clock.time(owner.alive_until)
    sentence = (
        f"{owner.id} has not been heard of: its lease ended {since}; the next agent to look declares it dead"
    )
    return [Cause("node-late", sentence, {"node": owner.id, "since": owner.alive_until, "run": run.id})]


# SettingValue back ------------------------------------------------------------------------------------------


def _blocked(inquiry: Inquiry, run: Run, block: Block) -> Cause:
    head = subject(run, inquiry.clock)
    others = inquiry.alive
    if block is Block.LIMIT:  # what will be started before this one is in its way, too
        others = others or [each for each in inquiry.unfinished if not each.blocked]
    ids = [each.id for each in others]
    match block:
        case Block.PAUSED:
            told = inquiry.paused() if inquiry.task and not inquiry.task.enabled else None
            rest = told.sentence if told else "the pause of its line has ended, and an agent lets it go on"
            return Cause("paused", f"{head} waits: {rest}", {**(told.facts if told else {}), **about(run)})
        case Block.DELAY:
            rest = f"the end of {named(others)}" if others else "an agent to let it go on"
            after = inquiry.task and policy.delay_of(inquiry.task)
            then = f", and then {after.total_seconds():g}s" if after and others else ""
            return Cause("delay", f"{head} waits for {rest}{then}", about(run) | {"runs": ids})
        case Block.LIMIT:
            return Cause("limit", f"{head} waits: {_limit(inquiry, others)}", about(run) | {"runs": ids})


def _limit(inquiry: Inquiry, others: list[Run]) -> str:
    most = inquiry.task.max_running if inquiry.task else None
    if not others:
        return "the runs in its way are over, and an agent lets it go on"
    has = f"has {named(others)}" if inquiry.alive else f"{named(others)} comes first"
    return f"{inquiry.name} may have {most or 'any number of'} alive at once, and {has}"


# To come --------------------------------------------------------------------------------------------


def _to_come(inquiry: Inquiry, run: Run, will: str) -> Cause:
    clock = inquiry.clock
    when = f"{clock.time(run.due_at)} ({clock.distance(run.due_at)})"
    not_later = f", not later than {clock.time(run.expires_at)}" if run.expires_at else ""
    facts = about(run) | {"due_at": run.due_at, "expires_at": run.expires_at}
    if run.trigger is Trigger.RETRY:
        before = run.retry_of and runs.by_id(inquiry.connection, run.retry_of)
        why = f", for run {before.id} {before.state}: {before.reason}" if before else ""
        most = f" of {inquiry.task.tries}" if inquiry.task else ""
        sentence = f"attempt {run.attempt}{most} of {inquiry.name} waits until {when}{not_later}{why}"
        return Cause("retry", sentence, facts | {"retry_of": run.retry_of})
    if calendar := inquiry.task and run.trigger is Trigger.SCHEDULE and _excluded(inquiry.task, run):
        begin = f"{subject(run, clock)} will be skipped: {calendar}"
        return Cause("calendar", begin, facts | {"reason": calendar})
    jitter = f", by its jitter {clock.time(run.due_at)}" if run.due_at != run.scheduled_for else ""
    begin = f"{subject(run, clock)} {will} then, {clock.distance(run.due_at)}"
    return Cause("future", f"{begin}{jitter}{not_later}", facts)


def _excluded(task: Task, run: Run) -> str | None:
    try:
        return policy.excluded_by(task, run.scheduled_for)
    except UsageError as error:
        return str(error)


# Due ------------------------------------------------------------------------------------------------


def _late(inquiry: Inquiry, run: Run, cause: Cause) -> Cause:
    begin = f"{subject(run, inquiry.clock)} is due since {inquiry.clock.time(run.due_at)} and waits: "
    return Cause(cause.code, begin + cause.sentence, {**about(run), "due_at": run.due_at, **cause.facts})


def why_not_taken(inquiry: Inquiry, run: Run) -> list[Cause]:
    """What keeps a run that is due from being claimed."""
    lane = policy.read_lane(run.lane)
    if inquiry.task and not inquiry.task.enabled and run.trigger is not Trigger.MANUAL:
        return [inquiry.paused()]
    if lane is None:
        return [Cause("unserved", f"no agent can read what it asks for: {run.lane}", {"lane": run.lane})]
    return no_node(inquiry, lane) or _no_room(inquiry, run, lane) or [_about_to_be_taken(inquiry, run, lane)]


def _about_to_be_taken(inquiry: Inquiry, run: Run, lane: Lane) -> Cause:
    who = ", ".join(node.id for node in _eligible(inquiry, lane)[:RUNS_SHOWN])
    paced = "; what is that late is started at a measured pace" if inquiry.now - run.due_at > _PACED else ""
    return Cause("due", f"one of {who} takes it at its next look{paced}")


def no_node(inquiry: Inquiry, lane: Lane | None) -> list[Cause]:
    """Why no living node can ever take runs of the lane; nothing when one can."""
    if lane is None:
        return []
    problem = policy.why_unschedulable(lane, inquiry.fleet)
    if problem is None:
        return []
    if not inquiry.fleet:
        return [nobody(inquiry)]
    if all(node.draining for node in inquiry.fleet):
        names = ", ".join(node.id for node in inquiry.fleet[:RUNS_SHOWN])
        return [Cause("no-agent", f"every agent takes nothing new, for it drains: {names}")]
    if lane.node and not any(node.id == lane.node for node in inquiry.fleet):
        return [Cause("node-gone", problem, {"node": lane.node})]
    facts = {"queue": lane.queue, "require": list(lane.require), "need": dict(lane.need), "user": lane.user}
    return [Cause("unserved", problem, facts)]


def nobody(inquiry: Inquiry) -> Cause:
    """No agent is running at all, and since when."""
    late = max(inquiry.nodes, key=lambda node: node.alive_until, default=None)
    if late:
        since, what = late.alive_until, f"the lease of {late.id} ended"
    elif last := history.last_node(inquiry.connection, inquiry.now):
        since, what = last.died_at, f"{last.id} {'stopped' if last.died_how == 'stopped' else 'died'}"
    else:
        return Cause(
            "no-agent", "no agent is running, and none ever was: start `dcron agent`", {"since": None}
        )
    sentence = f"no agent is running, since {what} {inquiry.clock.time(since)}"
    return Cause("no-agent", sentence, {"since": since})


def _eligible(inquiry: Inquiry, lane: Lane) -> list[Node]:
    return [node for node in inquiry.fleet if not node.draining and policy.served_by(lane, node)]


def _no_room(inquiry: Inquiry, run: Run, lane: Lane) -> list[Cause]:
    """Why none of the nodes that can take the run takes it now."""
    eligible = _eligible(inquiry, lane)
    free = [node for node in eligible if node.running < node.slots]
    found = _queue_is_full(inquiry, run)
    if not free:
        shown = ", ".join(f"{node.id} ({node.running}/{node.slots})" for node in eligible[:RUNS_SHOWN])
        facts = {"nodes": [node.id for node in eligible]}
        found.append(Cause("slots", f"all slots are taken on {shown}", facts))
    elif short := _shortage(inquiry, lane, free):
        found.append(short)
    if found and (ahead := _ahead(inquiry, run, lane)):
        found.append(ahead)
    return found


def _queue_is_full(inquiry: Inquiry, run: Run) -> list[Cause]:
    queue = history.queue_now(inquiry.connection, run.queue, RUNS_SHOWN)
    if queue is None or queue.alive < queue.max_running:
        return []
    facts = {"queue": run.queue, "max_running": queue.max_running, "runs": [each.id for each in queue.shown]}
    if queue.max_running == 0:
        return [Cause("queue", f"the queue {run.queue} stands still: its limit is 0", facts)]
    shown = named(queue.shown, with_task=True) + (" and others" if queue.alive > len(queue.shown) else "")
    sentence = f"the queue {run.queue} has reached its limit of {queue.max_running}: {shown}"
    return [Cause("queue", sentence, facts)]


def _shortage(inquiry: Inquiry, lane: Lane, nodes: list[Node]) -> Cause | None:
    """What the lane needs and none of these nodes has left."""
    left: dict[str, dict[str, float]] = {node.id: dict(node.capacity) for node in nodes}
    for owner, text in history.lanes_taken(inquiry.connection, list(left)):
        if other := policy.read_lane(text):
            left[owner] = policy.without(left[owner], other)
    heads = planning.heads(inquiry.connection) if lane.need else []
    short: list[str] = []
    for node in nodes:
        served = [head for head in heads if policy.served_by(head.lane, node)]
        kept = planning.reservation(inquiry.connection, served, left[node.id], inquiry.now)
        free = policy.without(left[node.id], kept) if kept else left[node.id]
        if policy.fits(lane, free):
            return None
        missing = [name for name, amount in lane.need if free.get(name, 0) < amount]
        told = (f"{max(0, free.get(name, 0)):.15g} {name} of {node.capacity[name]:.15g}" for name in missing)
        because = f", keeping room for a run that needs {_amounts(kept)}" if kept and kept != lane else ""
        short.append(f"{node.id} has {', '.join(told)} left{because}")
    facts = {"need": dict(lane.need), "nodes": [node.id for node in nodes]}
    return Cause("capacity", f"it needs {_amounts(lane)}, and {'; '.join(short[:RUNS_SHOWN])}", facts)


def _amounts(lane: Lane) -> str:
    return ", ".join(f"{name}={amount:.15g}" for name, amount in lane.need)


def _ahead(inquiry: Inquiry, run: Run, lane: Lane) -> Cause | None:
    """The due runs that go first."""
    own = history.count_due(inquiry.connection, str(lane), run.due_at)
    rank = lane.rank(run.due_at)
    urgent = 0
    for head in planning.heads(inquiry.connection)[:_LANES_LOOKED_AT]:
        if head.lane != lane and head.due_at <= inquiry.now and head.lane.rank(head.due_at) < rank:
            before = min(rank + HEAD_START[head.lane.priority], inquiry.now + policy.INSTANT)
            urgent += history.count_due(inquiry.connection, str(head.lane), before)
    if not own + urgent:
        return None
    others = f", {urgent} of them of other kinds" if urgent else ""
    sentence = f"{own + urgent} due runs go first{others}; its own priority is {lane.priority}"
    return Cause("priority", sentence, {"ahead": own + urgent, "priority": lane.priority})
