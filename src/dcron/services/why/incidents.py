"""What happened to the database itself: it went back in time, or its clock was set."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from dcron.policy.conditions.nodes import has_overlong_lease
from dcron.policy.conditions.thresholds import LEASE_TOLERANCE
from dcron.presentation.why import Cause
from dcron.services.why.facts import Facts
from dcron.store.nodes import epochs

_RECENT = timedelta(days=1)
"""How long an incident of the database may explain what is seen now."""


def recent(facts: Facts) -> list[Cause]:
    """Return what happened to the database within the last day, or concerns times still to come."""
    return [*_epoch(facts), *_clock_set_back(facts), *_overlong_leases(facts)]


def _epoch(facts: Facts) -> Iterator[Cause]:
    epoch = epochs.last(facts.connection, "epoch")
    if epoch and _is_recent(facts, epoch.at):
        lost = {"lost": epoch.after.get("reason")}
        yield replace(
            facts.cause("epoch", "", lost, since=epoch.at, ids=epoch.after.get("ids")), about=epoch.at
        )


def _clock_set_back(facts: Facts) -> Iterator[Cause]:
    step = epochs.last(facts.connection, "clock")
    if step is None:
        return
    until = step.after.get("ran_until")
    ran_until = datetime.fromisoformat(until) if until else None
    if _is_recent(facts, step.at) or (ran_until and ran_until > facts.now):
        tasks = {"tasks": step.after.get("tasks")}
        yield replace(
            facts.cause("clock-set-back", "", tasks, since=step.at, ran_until=ran_until), about=step.at
        )


def _is_recent(facts: Facts, at: datetime) -> bool:
    return facts.now - _RECENT < at <= facts.now + LEASE_TOLERANCE


def _overlong_leases(facts: Facts) -> Iterator[Cause]:
    """Yield the nodes whose leases end later than any lease can by the clock as it is now."""
    for node in facts.nodes:
        if has_overlong_lease(node, facts.now):
            words = {"lease": node.lease}
            yield facts.cause("clock-lease", "", words, node=node.id, until=node.alive_until)
