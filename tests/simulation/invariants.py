"""What must hold after every step, asked of the database and of what the commands wrote down."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from dcron.model import Freeze, RunState, Task
from dcron.policy.starting import lanes, occurrences, retries
from dcron.policy.starting.freezes import holds
from dcron.schema.tables import crontab, runs
from dcron.warden.accounts import Account
from tests.simulation.cluster import Start

_SPAN = re.compile(r"\((?:more than )?[\d,]+ occurrences, (\S+) to (\S+)\)")
_TURNS = ("schedule", "node")
FINAL = [state.value for state in RunState if state.is_final]


class Broken(AssertionError):  # noqa: N818 - said as people say it
    """Something that must hold does not."""


def require(holds: object, message: str) -> None:
    """Raise Broken with this sentence unless it holds."""
    if not holds:
        raise Broken(message)


def read_rows(connection: Connection) -> list[Any]:
    """All runs, the oldest first."""
    return list(connection.execute(select(runs).order_by(runs.c.id)))


def check_lines(connection: Connection, rows: Sequence[Any]) -> None:
    """No task loses its next run, and none has two."""
    turns = Counter(
        row.task_id for row in rows if row.trigger == "schedule" and row.state in ("waiting", "claimed")
    )
    lines = select(crontab.c.id, crontab.c.name, crontab.c.schedule, crontab.c.enabled, crontab.c.error)
    for line in connection.execute(lines):
        ticks = not line.schedule.startswith(("@on", "@after", "@at")) and line.enabled and not line.error
        # One that was claimed before its task was paused may still start, or come back.
        right = turns[line.id] == ticks or (not line.enabled and turns[line.id] == 1)
        require(right, f"{line.name} has {turns[line.id]} next runs, not {int(ticks)}")


def check_finals(seen: dict[int, tuple[Any, ...]], rows: Sequence[Any]) -> None:
    """What is final stays: only a lost one may get its result, or be retried by hand."""
    for row in rows:
        if row.state not in FINAL:
            require(row.id not in seen, f"run {row.id} was final and is {row.state}")
            continue
        kept = (row.state, row.reason, row.finished_at, row.scheduled_for, row.owner)
        before = seen.get(row.id, kept)
        require(before in (kept,) or before[0] == "lost", f"run {row.id} was {before} and is {kept}")
        seen[row.id] = kept


def check_starts(ledger: Sequence[Start]) -> None:
    """No run begins twice, no occurrence begins twice, no flow runs a task again that succeeded."""
    by_run = Counter(start.run_id for start in ledger)
    require(all(count == 1 for count in by_run.values()), f"started twice: {by_run.most_common(1)}")
    turns = Counter(
        (start.task, start.scheduled_for, start.flow, start.node if start.trigger == "node" else "")
        for start in ledger
        if start.trigger in _TURNS
    )
    require(all(count == 1 for count in turns.values()), f"a turn began twice: {turns.most_common(1)}")
    steps = Counter((start.task, start.flow) for start in ledger if start.trigger == "after")
    require(all(count == 1 for count in steps.values()), f"a flow ran twice: {steps.most_common(1)}")


def check_freezes(
    frozen: Sequence[Freeze], before: Mapping[int, set[int]], rows: Sequence[Any], begun: Collection[int]
) -> None:
    """No run that nobody requested starts while a freeze holds. `before` are runs started before each."""
    for freeze in frozen:
        for row in rows:
            if row.id not in begun or row.started_at is None or not holds(freeze, row.started_at):
                continue
            lane = lanes.read_lane(row.lane)
            is_requested = lane is not None and lane.is_requested
            require(
                is_requested or row.id in before[freeze.id],
                f"run {row.id} of {row.task} started during freeze {freeze.id}",
            )


def check_limits(ledger: Sequence[Start], now: datetime, limits: dict[str, int | None]) -> None:
    """No more commands of a task are alive than may be."""
    alive = [start for start in ledger if start.ended_at is None or start.ended_at > now]
    for task, count in Counter(start.task for start in alive).items():
        limit = limits.get(task)
        require(limit is None or count <= limit, f"{count} commands of {task} are alive, not {limit}")


def check_agreement(rows: Sequence[Any], alive: Mapping[int, str], given_up: Collection[int]) -> None:
    """A living command has a row `running` of its own node, unless a person gave it up.

    `alive` has the nodes of the commands by their runs.
    """
    by_id = {row.id: row for row in rows}
    for run_id, node_id in alive.items():
        row = by_id[run_id]
        mine = (row.state, row.owner) == (RunState.RUNNING, node_id)
        require(
            mine or run_id in given_up,
            f"run {run_id} of {row.task} lives on {node_id}, its row is {row.state} of {row.owner}",
        )


def check_unheard(rows: Sequence[Any], dead: Collection[str]) -> None:
    """A run of a dead node that is `running` is kept and unheard, and no other run is."""
    for row in rows:
        if row.state != RunState.RUNNING:
            continue
        is_unheard = row.unheard_since is not None
        require(
            is_unheard == (row.owner in dead),
            f"run {row.id} of {row.task} is {'' if is_unheard else 'not '}unheard, its node {row.owner}",
        )
        require(not is_unheard or row.on_disconnect == "keep", f"run {row.id} is unheard and not kept")
        has_end = row.lost_after is not None
        require(
            has_end == (is_unheard and "timeout" in row.spec), f"run {row.id} has the end {row.lost_after}"
        )


def check_truth(rows: Sequence[Any], truth: Mapping[int, RunState]) -> None:
    """After all is healed each end is recorded as the warden wrote it, and no run is left unheard."""
    for row in rows:
        require(
            row.state == truth.get(row.id, row.state), f"run {row.id} was {truth.get(row.id)}, is {row.state}"
        )
        require(row.state != RunState.RUNNING or row.unheard_since is None, f"run {row.id} stays unheard")


def check_account(account: Account, users: Sequence[str | None]) -> None:
    """No node runs commands as an account that it may not run them as."""
    accounts = account.accounts
    wrong = [user for user in users if user and accounts is not None and user not in accounts]
    require(not wrong, f"an agent of {account.name} runs commands as {wrong}")


def check_refusals(rows: Sequence[Any]) -> None:
    """A run goes on from a node that refused it as the same attempt, and never back to such a node."""
    by_id = {row.id: row for row in rows}
    for row in rows:
        if not row.refused_by:
            continue
        before = by_id[row.retry_of]
        require(before.owner in row.refused_by, f"run {row.id} is not refused by {before.owner}")
        require(before.attempt == row.attempt, f"run {row.id} is attempt {row.attempt}")
        # One that is then never started leaves the one before it as the last word.
        dead = before.dead_at is not None and row.state != "skipped"
        require(not dead, f"run {before.id} is a dead letter, and goes on as {row.id}")
        require(row.owner not in row.refused_by, f"run {row.id} came back to {row.owner}")
        require(len(row.refused_by) <= retries.MOST_REFUSALS, f"run {row.id} was refused too often")


def check_capacity(node_id: str, alive: Sequence[Mapping[str, float]], capacity: Mapping[str, float]) -> None:
    """No node's commands need more together than it has."""
    for name in {name for needs in alive for name in needs}:
        taken = sum(needs.get(name, 0.0) for needs in alive)
        require(taken <= capacity.get(name, 0.0), f"{node_id} has {taken} {name} taken of {capacity}")


def check_slots(node_id: str, alive: int, slots: int) -> None:
    """No node executes more commands than it has slots."""
    require(alive <= slots, f"{node_id} executes {alive} commands with {slots} slots")


def check_queue(
    ledger: Sequence[Start], now: datetime, queue_of: dict[str, str], queue: str, most: int
) -> None:
    """No more commands of a queue are alive than may be."""
    alive = [start for start in ledger if start.ended_at is None or start.ended_at > now]
    count = sum(queue_of.get(start.task) == queue for start in alive)
    require(count <= most, f"{count} commands of queue {queue} are alive, not {most}")


def check_occurrences(task: Task, since: datetime, rows: Sequence[Any]) -> None:
    """Each occurrence from `since` until the next scheduled run has exactly one row, or is covered by one."""
    mine = [row for row in rows if row.task_id == task.id and row.trigger in _TURNS]
    upcoming = [
        row.scheduled_for for row in mine if row.state in ("waiting", "claimed") and row.trigger == "schedule"
    ]
    if not upcoming:
        return
    spans = [
        tuple(datetime.fromisoformat(each) for each in found.groups())
        for row in mine
        if row.reason and (found := _SPAN.search(row.reason))
    ]
    own = Counter(
        row.scheduled_for.astimezone(UTC) for row in mine if not (row.reason and _SPAN.search(row.reason))
    )
    occurrence = occurrences.next_occurrence(task, since)
    while occurrence and occurrence < min(upcoming):
        covered = sum(first <= occurrence <= last for first, last in spans)
        rows_of_it = 1 if task.every_node and own[occurrence] else own[occurrence]
        require(covered + rows_of_it >= 1, f"{task.name}: no row for {occurrence}")
        require(rows_of_it <= 1, f"{task.name}: {own[occurrence]} rows for {occurrence}")
        occurrence = occurrences.next_occurrence(task, occurrence)
