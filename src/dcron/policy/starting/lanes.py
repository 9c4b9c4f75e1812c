"""Lanes: runs with the same requirements and the same priority wait together.

A lane is one text in a column, so one index serves every combination of queue, tags, needs and priority.
Runs that a node cannot take cost it nothing: it does not read their lanes. The default lane is `default`; a
complete one is `mail priority=high require=eu,ssd need=gpu:1 user=deploy node=web-1-3f9c2a7e`. A run that
nodes refused has `not=web-2-1c0ffee5` as well, with the IDs of these nodes. Runs that a person requested have
lanes of their own, with the word `manual`: nodes find and claim these also while the crontab is frozen. The
lane of a trial ends in `trial`: it is claimed without its task. Agents of earlier releases cannot read these
words and leave such runs alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from urllib.parse import quote, unquote

from dcron.model import Definition, Node, Trigger
from dcron.nodepolicy import accounts as account_rules
from dcron.values.quantities import format_amount

HEAD_START = {"high": timedelta(minutes=10), "normal": timedelta(0), "low": timedelta(minutes=-10)}
"""By how much earlier a run counts as due than it is. So a low run waits, but not for ever: ten minutes after
its time it ranks with a normal run that becomes due then."""

KEPT_AFTER = timedelta(minutes=10)
"""A run that has waited this long for capacity has it reserved: smaller runs no longer start before it."""
_ALMOST = 1 - 1e-9
"""1 without 0.4 and 0.4 is a little less than 0.2."""
DRAINING_SHOWN = 5
MANUAL, TRIAL = "manual", "trial"
"""The last words of the lanes of runs that a person requested."""
_PLAIN_IN_ACCOUNTS = "@+$\\"
"""Besides letters, digits and `_.-~`. All other characters are escaped, so a lane stays on one line."""


@dataclass(frozen=True)
class Lane:
    """What a run requires of the node that takes it."""

    queue: str = "default"
    priority: str = "normal"
    require: tuple[str, ...] = ()
    need: tuple[tuple[str, float], ...] = ()
    node: str | None = None
    """The ID of the only node that may take it."""
    user: str | None = None
    """The account the command runs as; None is the agent's own."""
    refused_by: tuple[str, ...] = ()
    """The IDs of the nodes that could not start its command, in order; none of them takes it again."""
    manual: bool = False
    """Whether a person requested the run."""
    is_trial: bool = False

    @property
    def is_requested(self) -> bool:
        """Whether a person requested the run, so that it starts also while the crontab is frozen."""
        return self.manual or self.is_trial

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        words = [self.queue]
        if self.priority != "normal":
            words.append(f"priority={self.priority}")
        if self.require:
            words.append(f"require={','.join(self.require)}")
        if self.need:
            words.append("need=" + ",".join(f"{name}:{amount:.15g}" for name, amount in self.need))
        if self.user is not None:
            words.append(f"user={quote(self.user, safe=_PLAIN_IN_ACCOUNTS, errors='replace')}")
        if self.node:
            words.append(f"node={self.node}")
        if self.refused_by:
            words.append(f"not={','.join(self.refused_by)}")
        if self.manual:
            words.append(MANUAL)
        if self.is_trial:
            words.append(TRIAL)
        return " ".join(words)

    def on(self, node_id: str | None) -> "Lane":
        """Return the lane for this node alone."""
        return replace(self, node=node_id)

    def requested(self, *, manual: bool = True) -> "Lane":
        """Return the lane of a run that a person requested, or of one that starts by itself."""
        return self if self.manual is manual else replace(self, manual=manual)

    def after_refusals(self, node_ids: Iterable[str]) -> "Lane":
        """Return the lane of a run whose command these nodes could not start."""
        return replace(self, refused_by=tuple(sorted(node_ids)))

    def for_trial(self, node_id: str | None, user: str | None) -> "Lane":
        """Return the lane of a trial with these requirements: on this node, or on any for None."""
        return replace(self, node=node_id, user=user, refused_by=(), manual=False, is_trial=True)

    def rank(self, due_at: datetime) -> datetime:
        """Return the rank of a run that is due at this time, over all lanes: the earliest goes first."""
        return due_at - HEAD_START[self.priority]


def lane_of(task: Definition, trigger: Trigger = Trigger.SCHEDULE) -> Lane:
    """Return the lane of a task's runs. Backfills have low priority; manual runs have lanes of their own."""
    priority = "low" if trigger is Trigger.BACKFILL else task.priority
    manual = trigger is Trigger.MANUAL
    if not task.require and not task.need:
        return _lane(task.queue, priority, (), (), task.user, manual)
    # A row written with SQL may hold anything; planning suspends a task that cannot be read.
    require = sorted({tag for tag in task.require if isinstance(tag, str)})
    need = {name: amount for name, amount in task.need.items() if isinstance(amount, int | float)}
    return _lane(task.queue, priority, tuple(require), tuple(sorted(need.items())), task.user, manual)


@lru_cache(maxsize=1_000)
def _lane(
    queue: str,
    priority: str,
    require: tuple[str, ...],
    need: tuple[tuple[str, float], ...],
    user: str | None,
    manual: bool,
) -> Lane:
    """Return the lane. Tasks with the same requirements share it, and its text."""
    return Lane(queue, priority, require, need, user=user, manual=manual)


def rerouted(lane: Lane | None, task: Definition, trigger: Trigger) -> Lane:
    """Return the lane of a run that waits in `lane` when its task is edited: as the task says now.

    What stays: the account that the run copied, the nodes that refused it, and that a person requested it.
    """
    current = lane_of(task, trigger)
    if lane is None:
        return current
    return replace(current, user=lane.user, refused_by=lane.refused_by, manual=lane.manual)


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane | None:
    """Return the lane of this text; None for an unreadable one, which no node takes."""
    queue, *words = text.split(" ")
    parts = dict(word.partition("=")[::2] for word in words)
    try:
        lane = Lane(
            queue,
            parts.get("priority", "normal"),
            tuple(parts["require"].split(",")) if "require" in parts else (),
            _read_need(parts.get("need")),
            parts.get("node"),
            unquote(parts["user"]) if "user" in parts else None,
            tuple(parts["not"].split(",")) if "not" in parts else (),
            parts.get(MANUAL) == "",
            TRIAL in parts,
        )
    except ValueError:
        return None
    return lane if lane.priority in HEAD_START and str(lane) == text else None


def _read_need(text: str | None) -> tuple[tuple[str, float], ...]:
    pairs = (word.rpartition(":")[::2] for word in text.split(",")) if text else ()
    return tuple((name, float(amount)) for name, amount in pairs)


def fits(lane: Lane, free: Mapping[str, float]) -> bool:
    """Return whether there is enough of everything the lane's runs need."""
    return all(free.get(name, 0.0) >= amount * _ALMOST for name, amount in lane.need)


def without(free: Mapping[str, float], lane: Lane) -> dict[str, float]:
    """Return what is left when a run of the lane has what it needs; negative where it lacks some."""
    return dict(free) | {name: free.get(name, 0.0) - amount for name, amount in lane.need}


def reservation(
    heads: Iterable[tuple[Lane, datetime]], free: Mapping[str, float], now: datetime
) -> Lane | None:
    """Return the lane for whose first run a node reserves capacity: the most urgent of those that do not fit.

    `heads` are the lanes that the node serves, each with the due time of its first run.
    """
    waiting = [
        (lane.rank(due_at), str(lane), lane)
        for lane, due_at in heads
        if now - due_at > KEPT_AFTER and not fits(lane, free)
    ]
    return min(waiting)[-1] if waiting else None


def serves(
    lane: Lane,
    node_id: str,
    tags: Iterable[str],
    queues: Iterable[str],
    capacity: Mapping[str, float],
    accounts: Collection[str] | None = None,
    account: str | None = None,
) -> bool:
    """Return whether the node may take runs of the lane, if it has all its capacity free.

    `accounts` are the accounts it runs commands as; None means all. `account` is that of its agent.
    """
    served = tuple(queues)
    return (
        lane.node in (None, node_id)
        and node_id not in lane.refused_by
        and account_rules.accepts(accounts, lane.user, account)
        and (not served or lane.queue in served)
        and set(lane.require) <= set(tags)
        and fits(lane, capacity)
    )


def served_by(lane: Lane, node: Node) -> bool:
    """Return the same for a registered node."""
    return serves(lane, node.id, node.tags, node.queues, node.capacity, node.accounts, node.account)


def runs_as(user: str | None, node: Node) -> bool:
    """Return whether the node runs commands as this account; None is the account of its agent."""
    return account_rules.accepts(node.accounts, user, node.account)


def idle(nodes: Sequence[Node]) -> str | None:
    """Return why none of these living nodes takes any run at all; None when one may."""
    if any(not node.draining for node in nodes):
        return None
    return "every agent is draining" if nodes else "no agent is running"


def why_unschedulable(lane: Lane, nodes: Iterable[Node]) -> str | None:
    """Return why none of these living nodes is eligible for the lane; None when one is."""
    nodes = list(nodes)
    living = [node for node in nodes if not node.draining]
    if any(served_by(lane, node) for node in living):
        return None
    if no_agent := idle(nodes):
        return no_agent
    if lane.node and not any(node.id == lane.node for node in living):
        drains = any(node.id == lane.node for node in nodes)
        return f"its node {lane.node} is {'draining' if drains else 'gone'}"
    if leaving := [each.id for each in nodes if served_by(lane, each)]:
        if len(leaving) == 1:
            return f"the one agent that could take it, {leaving[0]}, is draining"
        return f"all agents that could take it are draining: {', '.join(leaving[:DRAINING_SHOWN])}"
    if not any(not node.queues or lane.queue in node.queues for node in living):
        return f"no agent serves the queue {lane.queue}"
    if not any(set(lane.require) <= set(node.tags) for node in living):
        return f"no agent has the tag{'s' * (len(lane.require) > 1)} {', '.join(lane.require)}"
    if not any(runs_as(lane.user, node) for node in living):
        return why_not_as(lane.user, living)
    if not any(fits(lane, node.capacity) for node in living):
        needs = ", ".join(format_amount(name, amount) for name, amount in lane.need)
        return f"no agent has the capacity for {needs}"
    if lane.refused_by and any(served_by(lane.after_refusals(()), node) for node in living):
        return "its command could not be begun on any agent that may take it"
    asked = (
        "its queue, its tags, its account and its needs" if lane.user else "its queue, its tags and its needs"
    )
    return f"no agent has all it asks for: {asked}"


def why_not_as(user: str | None, living: Sequence[Node]) -> str:
    """Return that none of these nodes runs commands as this account, and whose policies prevent it.

    `user` None is the account of each agent.
    """
    asked = [user] if user is not None else [node.account or account_rules.ROOT for node in living]
    text = f"no living agent runs commands as {', '.join(dict.fromkeys(asked))}"
    names = list(dict.fromkeys(node.name for node in living if _is_able_to_be(user, node)))
    if not names:
        return text
    listed = names[:DRAINING_SHOWN]
    if len(names) > DRAINING_SHOWN:
        listed.append(f"{len(names) - DRAINING_SHOWN:,} more")
    joined = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
    return f"{text}: {joined} {'does' if len(names) == 1 else 'do'} not accept it (policy)"


def _is_able_to_be(user: str | None, node: Node) -> bool:
    return user is None or node.any_account is True or user in (node.account, str(node.uid))
