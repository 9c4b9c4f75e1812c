"""Nodes: those that are missing, what differs between them, what they cannot serve or send."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from dcron.model import Node, NodeState
from dcron.policy import channels
from dcron.policy.conditions.nodes import is_clock_off
from dcron.policy.starting.freezes import reason_of
from dcron.presentation import humanize
from dcron.presentation.doctor import Finding
from dcron.store.nodes.outages import Outage
from dcron.store.statistics.figures import ClusterFigures
from dcron.store.tasks.used_channels import Users

_ENDS_COMMANDS = 5 / 6
"""Part of the lease after which commands end, counted from the last heartbeat."""
_NEAR = 2 / 3
_LONGEST_LEASE = 600.0
"""Seconds. After a server has died, its runs wait for as long: longer ones are no advice."""
_STEP = 30.0


def examine(figures: ClusterFigures, nodes: Sequence[Node], unserved: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with these nodes, of which no one has declared any dead.

    `unserved` are names of tasks whose next runs none of them can take.
    """
    if figures.frozen:
        yield Finding("frozen", reason=reason_of(figures.frozen), freeze=figures.frozen.id)
    by_state = {state: [node for node in nodes if node.state(figures.now) is state] for state in NodeState}
    draining = by_state[NodeState.DRAINING]
    if not by_state[NodeState.ALIVE] + draining and figures.tasks["active"]:
        yield Finding("no-agent", active=figures.tasks["active"])
    elif unserved:
        yield Finding("unserved", unserved)
    yield from _about("node-late", by_state[NodeState.LATE])
    yield from _about("drained", [node for node in draining if not node.running])


def _about(code: str, nodes: Sequence[Node]) -> Iterator[Finding]:
    if nodes:
        yield Finding(code, [node.id for node in nodes], names=[node.name for node in nodes])


def examine_differences(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Yield in which clocks, time zone data and releases these living nodes differ."""
    ids = [node.id for node in nodes]
    wrong = [node for node in nodes if is_clock_off(node)]
    if wrong:
        offsets = [f"{node.name} by {node.clock_offset or 0.0:+.1f}s" for node in wrong]
        yield Finding("clock-skew", [node.id for node in wrong], offsets=offsets)
    if len({node.tzdata_fingerprint or node.tzdata for node in nodes}) > 1:
        yield Finding("tzdata-differs", ids, versions=[f"{node.name} has {node.tzdata}" for node in nodes])
    if len({node.version for node in nodes}) > 1:
        yield Finding("version-differs", ids, versions=[f"{node.name} runs {node.version}" for node in nodes])


def examine_leases(nodes: Sequence[Node], outages: Sequence[Outage]) -> Iterator[Finding]:
    """Yield that outages of the database came near the end of these nodes' shortest lease, or were longer."""
    lease = min((node.lease for node in nodes if node.lease), default=None)
    close = [each for each in outages if each.seconds > _NEAR * lease] if lease else []
    if lease is None or not close:
        return
    longest = max(close, key=lambda each: each.seconds)
    ended = sum(each.seconds > _ENDS_COMMANDS * lease for each in close)
    often = "once" if ended == 1 else f"{ended:,} times"
    commands = "the commands without --on-disconnect keep"
    yield Finding(
        "lease",
        sorted({each.node_id for each in close}),
        lease=lease,
        longest=longest.seconds,
        node=longest.node_id,
        ended_at=longest.ended_at,
        outages=len(close),
        effect=f"{often} {commands} were ended"
        if ended
        else f"a little longer, and {commands} would have been ended",
        advice=_advice(longest.seconds),
    )


def _advice(seconds: float) -> str:
    kept = "`dcron set NAME --on-disconnect keep --timeout D` lets the commands go on that are dear to repeat"
    enough = _STEP * math.ceil(seconds / _NEAR / _STEP)
    if enough > _LONGEST_LEASE:
        return f"{kept}; before a planned outage, `dcron freeze`"
    return f"start all agents with --lease {enough:g}s, or {kept}"


def examine_channels(users: Mapping[str, Users], living: Sequence[Node]) -> Iterator[Finding]:
    """Yield the channels that tasks or settings name and that none of these nodes has."""
    missing = channels.unsendable(sorted(users), living)
    mails = [name for name in missing if channels.is_mail(name)]
    for name in missing:
        if name not in mails:
            yield _no_channel([name], "no running agent has the channel", users)
    if mails:
        yield _no_channel(mails, "no running agent can send mail to", users)


def _no_channel(names: Sequence[str], problem: str, users: Mapping[str, Users]) -> Finding:
    others = sum(users[name].count for name in names) - 1
    more = f" and {humanize.plural(others, 'other')}" if others else ""
    who = f"{min(users[names[0]].names)}{more}"
    return Finding("no-channel", names, problem=problem, users=who, advice=channels.advice(names))


def examine_failing(since: Mapping[str, datetime]) -> Iterator[Finding]:
    """Yield the channels that have not delivered since these times."""
    for name, at in since.items():
        yield Finding("undeliverable", [name], since=at)
