"""What the living nodes say that their policies accept. For people: each node judges by its own file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Connection

from dcron.model import Definition, Node, Task
from dcron.nodepolicy.command import Finished, finished
from dcron.nodepolicy.grammar import Policy, from_published
from dcron.nodepolicy.judge import Verdict, judge
from dcron.nodepolicy.machine import OtherMachine
from dcron.policy.starting.lanes import Lane, lane_of, runs_as, served_by, why_not_as
from dcron.services.service import Service
from dcron.store.nodes import rows as nodes
from dcron.store.runs import rows as runs

_MOST_POLICIES = 1_000
_SHOWN = 3
_LATEST_RUNS = 100_000
_known: dict[str, "NodeRules"] = {}
"""Policies by their digests: a screen asks for the same ones every second."""


@dataclass(frozen=True)
class NodeRules:
    """The rules that one node has published."""

    path: str
    policy: Policy

    def where(self, verdict: Verdict) -> str:
        """Return the file, and the place in it that the verdict comes from."""
        if verdict.entry:
            return f"{self.path}, {verdict.entry}"
        return f"{self.path}, line {verdict.line}" if verdict.line else self.path


@dataclass(frozen=True)
class RootWithoutPolicy:
    """A node of root that has no policy."""

    node: Node
    until: date | None
    """When it stops accepting tasks of root; None if it accepts none."""


class FleetRules:
    """The rules of the living nodes that have some."""

    def __init__(self, rules: Mapping[str, NodeRules], fleet: Sequence[Node]) -> None:
        """Take the rules by the IDs of nodes."""
        self._rules = rules
        self._fleet = fleet

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdicts(self, task: Definition, lane: Lane | None = None) -> list[tuple[Node, Verdict, NodeRules]]:
        """Return what the nodes that serve a task say of it, those with rules."""
        lane = lane or lane_of(task)
        serving = [node for node in self._fleet if not node.draining and served_by(lane, node)]
        if not all(node.id in self._rules for node in serving):
            return []  # one of them accepts what the lanes say
        command = command_of(task)
        return [
            (node, judge(rules.policy, command, OtherMachine(node.account)), rules)
            for node in serving
            for rules in [self._rules[node.id]]
        ]

    def why_refused(self, task: Definition, lane: Lane | None = None) -> str | None:
        """Return why every node that serves the task refuses it; None if one may accept it."""
        living = [node for node in self._fleet if not node.draining]
        if living and not any(runs_as(task.user, node) for node in living):
            return why_not_as(task.user, living)
        found = self.verdicts(task, lane) if self._rules else []
        if not found or any(verdict.allowed or not verdict.is_certain for _, verdict, _ in found):
            return None
        texts = [
            f"{node.name}'s policy ({rules.where(verdict)}): {verdict.reason}"
            for node, verdict, rules in found[:_SHOWN]
        ]
        if len(found) > _SHOWN:
            texts.append(f"and {len(found) - _SHOWN:,} more nodes")
        return "; ".join(texts)


def read(connection: Connection, fleet: Sequence[Node]) -> FleetRules:
    """Return the rules of these nodes. It reads only those that this process does not know."""
    wanted = {node.id: node.policy_digest for node in fleet if node.policy_digest}
    if missing := [node for node, digest in wanted.items() if digest not in _known]:
        if len(_known) > _MOST_POLICIES:
            _known.clear()
        for node_id, published in nodes.published_policies(connection, missing).items():
            if rules := _rules(published):
                _known[wanted[node_id]] = rules
    found = {node: _known[digest] for node, digest in wanted.items() if digest in _known}
    return FleetRules(found, fleet)


def without_policy(connection: Connection, fleet: Iterable[Node]) -> list[RootWithoutPolicy]:
    """Return the nodes of root that have no policy file."""
    of_root = {node.id: node for node in fleet if node.uid == 0 and not node.policy_digest}
    published = nodes.published_policies(connection, list(of_root)) if of_root else {}
    return [
        RootWithoutPolicy(node, _until(published[node_id]))
        for node_id, node in of_root.items()
        if _is_missing(published.get(node_id))
    ]


def command_of(task: Definition) -> Finished:
    """Return the command of a task as it is now, without payload."""
    source = task.source if isinstance(task, Task) else None
    return finished(task.name, task.labels, source, task.spec())


class NodePolicies(Service):
    """What the living nodes accept."""

    def why_refused(self, task: Definition) -> str | None:
        """Return why every living node that serves the task refuses it; None if one may accept it."""
        with self.database.read() as connection:
            fleet = nodes.living(connection, self.database.now(connection))
            return read(connection, fleet).why_refused(task)

    def tasks_with_payloads(self) -> set[int]:
        """Return the tasks of which one of the latest runs had a payload."""
        with self.database.read() as connection:
            return runs.tasks_with_payloads(connection, _LATEST_RUNS)

    def of_node(self, node: Node) -> NodeRules | None:
        """Return the rules that a node has published."""
        with self.database.read() as connection:
            found = nodes.published_policies(connection, [node.id])
        return _rules(found.get(node.id))


def _rules(published: Any) -> NodeRules | None:
    if not isinstance(published, dict):
        return None
    policy = from_published(published.get("rules"))
    return NodeRules(str(published.get("path")), policy) if policy else None


def _is_missing(published: Any) -> bool:
    """Return whether a node has published that there is no policy file."""
    return isinstance(published, dict) and "path" in published and published.get("digest") is None


def _until(published: Mapping[str, Any]) -> date | None:
    try:
        return date.fromisoformat(str(published.get("root_until")))
    except ValueError:
        return None
