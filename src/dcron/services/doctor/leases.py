"""The lease of the nodes, compared with the outages of the database that they have seen."""

import math
from collections.abc import Iterator, Sequence

from dcron.model import Node
from dcron.presentation import humanize
from dcron.services.doctor.finding import Finding
from dcron.store.nodes.outages import Outage

_ENDS_COMMANDS = 5 / 6
"""Part of the lease after which commands end, counted from the last heartbeat."""
_NEAR = 2 / 3
_LONGEST_LEASE = 600.0
"""Seconds. After a server has died, its runs wait for as long: longer ones are no advice."""
_STEP = 30.0


def examine(nodes: Sequence[Node], outages: Sequence[Outage]) -> Iterator[Finding]:
    """Yield that outages came near the end of the shortest lease of these nodes, or were longer."""
    lease = min((node.lease for node in nodes if node.lease), default=None)
    if lease is None:
        return
    close = [each for each in outages if each.seconds > _NEAR * lease]
    if not close:
        return
    longest = max(close, key=lambda each: each.seconds)
    ended = sum(each.seconds > _ENDS_COMMANDS * lease for each in close)
    yield Finding(
        "lease",
        f"nodes could not renew their leases of {humanize.span(lease)} for up to"
        f" {humanize.span(longest.seconds)} ({longest.node_id}, until {longest.ended_at:%Y-%m-%d %H:%M} UTC;"
        f" {humanize.plural(len(close), 'outage')} in the last 90 days)",
        f"{_times(ended)} the commands without --on-disconnect keep were ended"
        if ended
        else "a little longer, and the commands without --on-disconnect keep would have been ended",
        _advice(longest.seconds),
        sorted({each.node_id for each in close}),
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _advice(seconds: float) -> str:
    kept = "`dcron set NAME --on-disconnect keep --timeout D` lets the commands go on that are dear to repeat"
    enough = _STEP * math.ceil(seconds / _NEAR / _STEP)
    if enough > _LONGEST_LEASE:
        return f"{kept}; before a planned outage, `dcron freeze`"
    return f"start all agents with --lease {enough:g}s, or {kept}"
