"""Run something other than a saved task once: a change that is tried, or exactly what ran before.

A trial is a run apart from those of its task. Its end causes no retry, dead letter, alert or run of another
task, statistics do not count it, and the limits of its task neither delay nor count it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from dcron.errors import NotFound, Refused
from dcron.model import COMMAND_FIELDS, SPEC_DEFAULTS, Node, Run, Task
from dcron.policy.starting import lanes
from dcron.policy.starting.lanes import Lane
from dcron.policy.validation import require_command, require_text, require_valid
from dcron.services.service import Service, find_run
from dcron.store.nodes import rows as nodes
from dcron.store.runs import new_runs
from dcron.store.runs import rows as runs
from dcron.store.tasks import rows as tasks
from dcron.values.unreadable import Unreadable

LIKE = "like"
"""The key in the spec of a trial that names the run that it repeats."""


class Trials(Service):
    """Makes trials. Every method is one transaction."""

    def run_changed(
        self, task: Task, changed: Mapping[str, Any], *, payload: str | None = None, node: str | None = None
    ) -> Run:
        """Run the task once with these fields changed; the task stays as it is.

        `node` is the name or the ID of the only node that may take it. Raises UsageError, NotFound for a node
        that is not alive, and Refused for one that cannot run it.
        """
        definition = replace(task.definition(), **changed)
        if payload is not None:
            require_text("payload", payload)
        with self.database.write() as connection:
            now = self.database.now(connection)
            require_valid(definition, now, task)
            lane = self._lane(connection, lanes.lane_of(definition), definition.user, node)
            values = new_runs.trial(task.id, task.name, lane, definition.spec(), now, payload=payload)
            return self._add(connection, values, task.spec(), {})

    def repeat(self, run_id: int, *, node: str | None = None) -> Run:
        """Run once more exactly what this run executed, with its payload and its scheduled time.

        Its task may be changed or removed. Raises as `run_changed`, and NotFound for the run.
        """
        with self.database.write() as connection:
            run = self._find(connection, run_id)
            spec = {**run.spec, LIKE: run.id}
            lane = lanes.read_lane(run.lane) or Lane(run.queue)
            lane = self._lane(connection, lane, spec.get("user"), node)
            now = self.database.now(connection)
            values = new_runs.trial(
                *(run.about_task, run.task, lane, spec, now),
                scheduled_for=run.scheduled_for,
                payload=run.payload,
            )
            task = tasks.by_id(connection, run.about_task)
            return self._add(connection, values, task.spec() if task else None, {LIKE: run.id})

    def tried_fields(self, run_id: int, task: Task) -> dict[str, Any]:
        """Return the command of this run and what belongs to it, as fields of the task.

        Raises NotFound, and Refused for a run of another task.
        """
        with self.database.read() as connection:
            run = self._find(connection, run_id)
        if run.about_task != task.id:
            raise Refused(f"run {run_id} is one of {run.task}, not of {task.name}")
        fields = _command_of(run.spec)
        return fields | {"argv": tuple(fields["argv"]) if fields["argv"] else None}

    def _find(self, connection: Connection, run_id: int) -> Run:
        run = find_run(connection, run_id)
        if isinstance(run.spec, Unreadable):
            raise Refused(f"what run {run_id} executes cannot be read")
        require_command(run.spec)
        return run

    def _lane(self, connection: Connection, lane: Lane, user: str | None, node: str | None) -> Lane:
        """Return the lane of the trial, for a node that can take it where one is named."""
        lane = lane.for_trial(None, user)
        if node is None:
            return lane
        living = nodes.living(connection, self.database.now(connection))
        found = [each for each in living if node in (each.id, each.name)]
        return lane.on(_able(found, lane, node).id)

    def _add(
        self,
        connection: Connection,
        values: new_runs.Values,
        saved: Mapping[str, Any] | None,
        detail: Mapping[str, Any],
    ) -> Run:
        """Insert the trial, and record how it differs from the saved task; None if that is removed."""
        run = runs.add(connection, values)
        before, after = _difference(saved, run.spec)
        detail = {"run": run.id, "trial": True, **detail, **after}
        self._record_run(connection, "run", run, detail, before)
        self.database.notify(connection)
        return run


def _able(found: list[Node], lane: Lane, name: str) -> Node:
    """Return the first of these nodes that can take the trial. Raises NotFound or Refused."""
    if not found:
        raise NotFound(f"there is no living node {name!r}; `dcron nodes` shows those there are")
    if problem := lanes.why_unschedulable(lane, found):
        if all(node.draining for node in found):
            problem = "it is draining"
        raise Refused(f"node {name} cannot run it: {problem}")
    return next(node for node in found if not node.draining and lanes.served_by(lane, node))


def _command_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: spec.get(name, SPEC_DEFAULTS[name]) for name in COMMAND_FIELDS}


def _difference(
    saved: Mapping[str, Any] | None, tried: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the fields that differ, as they are saved and as they were tried."""
    if saved is None:
        return None, {}
    before, after = _command_of(saved), _command_of(tried)
    names = [name for name in COMMAND_FIELDS if _plain(before[name]) != _plain(after[name])]
    return {name: before[name] for name in names} or None, {name: after[name] for name in names}


def _plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    return list(value) if isinstance(value, tuple) else value
