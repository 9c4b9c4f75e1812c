"""What must hold where the database itself forgot what it had committed."""

import itertools
from collections import Counter
from typing import Any

from dcron.store.nodes import epochs
from tests.faults.campaign import audit, checks, ledger, leftovers
from tests.faults.campaign.checks import Verdict
from tests.faults.campaign.ledger import Entry
from tests.faults.campaign.stage import Stage
from tests.simulation import invariants

IN_TURN = ("tick", "tock", "long")
"""Tasks that have one run at a time, and no retries: the ids of their runs grow from start to start."""


def judge(stage: Stage) -> Verdict:
    """What is left of the invariants: no run id twice, ids that grow, nothing open or left behind.

    An occurrence whose start was forgotten may start again, beside what is still being ended.
    """
    entries = ledger.read(stage.cluster.ledger_path)
    with stage.cluster.database.read() as connection:
        rows = invariants.read_rows(connection)
        epoch = epochs.last(connection, "epoch")
    starts = [entry for entry in entries if entry.kind == "start"]
    verdict = Verdict(states=Counter(row.state for row in rows), starts=len(starts))
    by_id = Counter(entry.run_id for entry in starts)
    verdict.add("I1", [f"run {each} was started {count} times" for each, count in by_id.items() if count > 1])
    verdict.add("I1", _shrinking(starts))
    verdict.add("I3", _open(rows))
    verdict.add("I4", audit.witnessed(stage.cluster.database).violations)
    verdict.add("I5", checks.unwritten(entries, {row.id: row for row in rows}))
    verdict.add("I6", leftovers.found(stage))
    verdict.add("epoch", [] if epoch else ["no agent declared a new epoch"])
    logs = [path.read_text(errors="replace") for path in stage.directory.glob("*.log")]
    verdict.add("epoch", [] if any("go on above" in log for log in logs) else ["no log mentions the epoch"])
    return verdict


def judge_clock(stage: Stage) -> Verdict:
    """The invariants where clocks were wrong: occurrences may be recorded twice, as skipped and as run."""
    verdict = checks.judge(stage)
    gaps = [gap for gap in verdict.violations.get("I3", []) if "for ever" not in gap]
    for gap in gaps:
        verdict.violations["I3"].remove(gap)
    if not verdict.violations.get("I3"):
        verdict.violations.pop("I3", None)
    return verdict


def epochs_of(stage: Stage) -> dict[str, object]:
    """Figures of a database that forgot: what the jobs wrote and it does not know, and what ran again."""
    entries = ledger.read(stage.cluster.ledger_path)
    starts = [entry for entry in entries if entry.kind == "start" and entry.trigger == "schedule"]
    again = Counter((entry.task, entry.occurrence) for entry in starts)
    overlaps = sum(entry.kind == "overlap" for entry in entries)
    return {"occurrences run again": sum(count > 1 for count in again.values()), "overlaps": overlaps}


def _shrinking(starts: list[Entry]) -> list[str]:
    found = []
    for name in IN_TURN:
        ids = [entry.run_id for entry in starts if entry.task == name]
        found += [f"run {b} of {name} began after run {a}" for a, b in itertools.pairwise(ids) if b < a]
    return found


def _open(rows: list[Any]) -> list[str]:
    left = [row for row in rows if row.state in ("claimed", "running")]
    return [f"run {row.id} of {row.task} is {row.state} for ever, owned by {row.owner}" for row in left]
