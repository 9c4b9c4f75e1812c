"""Policies of nodes: files that are not in force, nodes of root without one, tasks that no node accepts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dcron.model import Node, Task
from dcron.nodepolicy.accounts import ACCEPT_ALL, ROOT, canonical
from dcron.presentation.doctor import Finding
from dcron.services.node_rules import FleetRules, RootWithoutPolicy


def refused(rules: FleetRules, tasks: Iterable[Task]) -> dict[str, str]:
    """Return the tasks that every node that serves them refuses by its rules, and why."""
    found = ((task.name, rules.why_refused(task)) for task in tasks if rules)
    return {name: why for name, why in found if why}


def of_root(tasks: Iterable[Task]) -> list[str]:
    """Return the names of the tasks that an agent of root runs as root."""
    return [task.name for task in tasks if task.user is None or canonical(task.user) == ROOT]


def examine(
    living: Sequence[Node],
    without: Sequence[RootWithoutPolicy],
    tasks_of_root: Sequence[str],
    refusals: Mapping[str, str],
) -> Iterator[Finding]:
    """Yield what is wrong with the policies of these nodes."""
    for node in living:
        if node.policy_error:
            yield Finding("policy-not-in-force", [node.id], name=node.name, error=node.policy_error)
    for each in without if tasks_of_root else ():
        since = f"from {each.until} on" if each.until else "now"
        yield Finding(
            "root-without-policy",
            [each.node.id],
            name=each.node.name,
            since=since,
            tasks=tasks_of_root,
            line=ACCEPT_ALL,
        )
    if refusals:
        yield Finding("policy-refuses", list(refusals), why=next(iter(refusals.values())))
