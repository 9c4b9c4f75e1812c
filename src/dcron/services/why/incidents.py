"""What happened to the database itself: it went back in time, or its clock was set back."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.store import epochs

_RECENT = timedelta(days=1)
"""How long such a thing may explain what is seen now."""
_LONGER = timedelta(seconds=5)


def recent(inquiry: Inquiry) -> Iterator[Cause]:
    """Yield what happened to the database within the last day, or concerns times still to come."""
    if (epoch := epochs.last(inquiry.connection, "epoch")) and _is_recent(inquiry, epoch.at):
        sentence = (
            f"{inquiry.clock.time(epoch.at)}: the database may have lost what it had committed"
            f" ({epoch.after.get('reason')}): run ids go on above {epoch.after.get('ids')}, and an occurrence"
            " that it forgot may run again"
        )
        yield Cause("epoch", sentence, {"since": epoch.at, "ids": epoch.after.get("ids")})
    step = epochs.last(inquiry.connection, "clock")
    until = step and step.after.get("ran_until")
    ran_until = datetime.fromisoformat(until) if until else None
    if step and (_is_recent(inquiry, step.at) or (ran_until and ran_until > inquiry.now)):
        early = f"; what ran ahead of its time, up to {inquiry.clock.time(ran_until)}," if ran_until else ""
        again = f"{early} is not run again" if early else ""
        sentence = (
            f"{inquiry.clock.time(step.at)}: the database's clock was set back, and"
            f" {step.after.get('tasks')} tasks were planned anew{again}"
        )
        yield Cause("clock-set-back", sentence, {"since": step.at, "ran_until": ran_until})


def _is_recent(inquiry: Inquiry, moment: datetime) -> bool:
    return inquiry.now - _RECENT < moment <= inquiry.now + _LONGER


def overlong_leases(inquiry: Inquiry) -> Iterator[Cause]:
    """Yield the nodes whose leases end later than any lease can by the clock as it is now."""
    for node in inquiry.nodes:
        longest = node.lease and inquiry.now + timedelta(seconds=node.lease) + _LONGER
        if longest and node.alive_until > longest:
            sentence = (
                f"the lease of {node.id} ends {inquiry.clock.time(node.alive_until)}, later than its"
                f" {node.lease:g}s allow: the database's clock was set back, or was ahead; without a renewal"
                f" the agents declare the node dead {node.lease:g}s after they first saw it"
            )
            yield Cause("clock-lease", sentence, {"node": node.id, "until": node.alive_until})
