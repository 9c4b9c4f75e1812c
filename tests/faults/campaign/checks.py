"""What must hold when a campaign is over: the jobs' ledger against the database."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dcron.model import node_name
from dcron.policy.starting.catch_up import INSTANT
from tests.faults.campaign import audit, ledger, leftovers
from tests.faults.campaign.ledger import Entry
from tests.faults.campaign.stage import Stage
from tests.simulation import invariants

FINAL = ("succeeded", "failed", "lost", "skipped", "cancelled")


@dataclass
class Verdict:
    """What was found, by invariant, and the figures of the campaign."""

    violations: dict[str, list[str]] = field(default_factory=dict)
    starts: int = 0
    longest_pause: float = 0.0
    """Most seconds between two starts, one after the other."""
    states: Counter[str] = field(default_factory=Counter)
    late_truths: int = 0

    def add(self, invariant: str, found: Sequence[str]) -> None:
        if found:
            self.violations.setdefault(invariant, []).extend(found)


def judge(stage: Stage) -> Verdict:
    """All invariants; the agents have ended."""
    entries = ledger.read(stage.cluster.ledger_path)
    with stage.cluster.database.read() as connection:
        rows = invariants.read_rows(connection)
    witnessed = audit.witnessed(stage.cluster.database)
    verdict = Verdict(states=Counter(row.state for row in rows), late_truths=witnessed.late_truths)
    moments = sorted(entry.at for entry in entries if entry.kind == "start")
    verdict.starts = len(moments)
    verdict.longest_pause = max((after - before for before, after in pairwise(moments)), default=0.0)
    tried_again = {task.name for task in stage.tasks if task.on_lost == "retry" or task.tries > 1}
    verdict.add("I1", ledger.twice(entries, tried_again))
    verdict.add("I2", [_overlap(entry, entries) for entry in entries if entry.kind == "overlap"])
    verdict.add("I3", _untold(stage, rows))
    verdict.add("I4", witnessed.violations)
    verdict.add("I5", _disagreements(entries, {row.id: row for row in rows}))
    verdict.add("I6", leftovers.found(stage))
    return verdict


def judge_damaged(stage: Stage) -> Verdict:
    """What can be judged without the database: the ledger, and what is left behind."""
    entries = ledger.read(stage.cluster.ledger_path)
    verdict = Verdict(starts=sum(entry.kind == "start" for entry in entries))
    verdict.add("I1", ledger.twice(entries, {"retry"}))
    verdict.add("I2", [_overlap(entry, entries) for entry in entries if entry.kind == "overlap"])
    verdict.add("I6", leftovers.processes(stage))
    silent = [path.name for path in stage.directory.glob("*.log") if "is damaged" not in path.read_text()]
    verdict.add("silent", [f"{name} does not say that the database is damaged" for name in sorted(silent)])
    return verdict


def _overlap(entry: Entry, entries: Sequence[Entry]) -> str:
    others = [
        f"{other.run_id} on {other.node} since {entry.at - other.at:.2f}s"
        for other in entries
        if other.kind == "start" and other.task == entry.task and 0 <= entry.at - other.at < 60
    ]
    return (
        f"run {entry.run_id} of {entry.task} ({entry.occurrence}, attempt {entry.attempt}) on {entry.node}"
        f" began while another was alive; before it: {', '.join(others[-3:])}"
    )


def _untold(stage: Stage, rows: Sequence[Any]) -> list[str]:
    """Occurrences without a row, and ends without a reason."""
    found = []
    for task in stage.tasks:
        mine = [row.scheduled_for for row in rows if row.task_id == task.id and row.trigger == "schedule"]
        if not mine:
            found.append(f"{task.name} has no row at all")
            continue
        try:
            invariants.check_occurrences(task, min(mine) - INSTANT, rows)
        except invariants.Broken as broken:
            found.append(str(broken))
    for row in rows:
        if row.state in ("claimed", "running"):
            found.append(f"run {row.id} of {row.task} is {row.state} for ever, owned by {row.owner}")
        if row.state in FINAL and row.state != "succeeded" and not row.reason:
            found.append(f"run {row.id} of {row.task} is {row.state} without a reason")
    return found


def _disagreements(entries: Sequence[Entry], rows: dict[int, Any]) -> list[str]:
    ended = {entry.run_id: entry for entry in entries if entry.kind == "end"}
    found = []
    for entry in entries:
        row = rows.get(entry.run_id)
        if row is None or row.started_at is None or row.state in ("waiting", "claimed", "skipped"):
            found.append(f"run {entry.run_id} of {entry.task} wrote {entry.kind}, and is {row and row.state}")
        elif row.owner and node_name(row.owner) != entry.node:
            found.append(f"run {entry.run_id} ran on {entry.node}, and is owned by {row.owner}")
    for run_id, entry in ended.items():
        row = rows.get(run_id)
        expected = "succeeded" if entry.exit_code == 0 else "failed"
        if row is not None and row.state not in (expected, "lost", "cancelled"):
            found.append(f"run {run_id} ended with {entry.exit_code}, and is {row.state}: {row.reason}")
    return found + unwritten(entries, rows)


def unwritten(entries: Sequence[Entry], rows: dict[int, Any]) -> list[str]:
    """Ends in the database that no job wrote."""
    found = []
    ended = {entry.run_id for entry in entries if entry.kind == "end"}
    started = {entry.run_id for entry in entries if entry.kind == "start"}
    tasks = {entry.task for entry in entries}
    for row in rows.values():
        own_end = row.state == "succeeded" or (row.state == "failed" and row.exit_code == ledger.FAILS_WITH)
        if own_end and row.task in tasks and not (row.id in ended and row.id in started):
            found.append(f"run {row.id} of {row.task} is {row.state}, and wrote no start or end")
    return found
