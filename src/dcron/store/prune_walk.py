"""The stages of pruning that walk through finished runs in the order of their ends, and delete old ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from dcron.policy.retention import MOST_BAD
from dcron.store import retention
from dcron.store.finished_runs import Place
from dcron.store.prune_work import Work, read_place, stored_place
from dcron.store.retention import EARLIEST, Candidate, History, Page

FULL, ALL, OUTPUT = "full", "all", "output"
"""The kinds of walks: through all of the history, or through the runs that have reached one age since the
last walk; the last kind deletes only output."""
_LOOKED_AT = 200
"""Rows in one read."""


@dataclass(frozen=True)
class _Left:
    """What is left of the page that was looked at last."""

    page: Page
    at: Any
    """The position at which the walk goes on with it."""
    crossed: Mapping[str, Any]
    """How far each walk has come when the page is the last one."""


class Walk:
    """Walks through the history of one round, batch by batch."""

    def __init__(self, history: History, *, by_hand: bool = False, counts_bad: bool = False) -> None:
        """`by_hand`: output goes in the walk of the runs. `counts_bad`: count failed runs that are kept."""
        self.history = history
        self._by_hand = by_hand
        self._bad = Counter[int]() if counts_bad else None
        self._left: _Left | None = None

    def step(self, work: Work, kind: str, age: float) -> None:
        """Delete a batch of the runs that have reached this age, in seconds."""
        if self._left is None or self._left.at != work.position["after"]:
            self._left = self._look(work, kind, age)
        page = self._left.page
        batch = batch_of(page, work.size)
        is_rest = len(batch) == len(page.candidates)
        end = page.end if is_rest else Place(batch[-1].finished_at, batch[-1].id)
        work.go_on(end)
        if end is None:
            work.position["crossed"] |= self._left.crossed
        if batch:
            with work.transaction() as (connection, now):
                deleted = self.history.delete(connection, work.database, batch, now)
            work.count(runs=deleted.runs, outputs=deleted.outputs, bytes=deleted.bytes)
        if kind == FULL and self._bad is not None and is_rest:
            self._bad.update(page.bad)
        rest = replace(page, candidates=page.candidates[len(batch) :])
        self._left = None if is_rest else replace(self._left, page=rest, at=work.position["after"])

    def _look(self, work: Work, kind: str, age: float) -> _Left:
        key = f"{kind}:{age}"
        with work.database.read() as connection:
            now = work.database.now(connection)
            # By hand, output goes in the same walk; it need not be summed up.
            is_output = kind == OUTPUT or self._by_hand
            latest = now if is_output else min(now, retention.summed_until(connection))
            before = min(latest, retention.shift(now, age))
            after = work.place or (None if kind == FULL else read_place(work.position["crossed"].get(key)))
            after = after or Place(EARLIEST, 0)
            page = self.history.look(connection, after, before, now, _LOOKED_AT)
        name, ages = (ALL, work.position["ages"]) if kind == FULL else (kind, [age])
        reached = {f"{name}:{each}": min(before, retention.shift(now, each)) for each in ages}
        crossed = {name: stored_place(Place(at, 0)) for name, at in reached.items()}
        return _Left(page, work.position["after"], crossed)

    def oldest_bad_kept(self, connection: Connection) -> dict[str, int] | None:
        """Return the oldest failed run that is kept, by task, for tasks that have more than they keep.

        None if this walk has not counted them.
        """
        if self._bad is None:
            return None
        found = {}
        for task_id, number in self._bad.items():
            if number > MOST_BAD:
                kept = retention.oldest_bad_kept(connection, task_id, number - MOST_BAD)
                if kept is not None:
                    found[str(task_id)] = kept
        return found


def batch_of(page: Page, size: int) -> Sequence[Candidate]:
    """Return the first runs of the page that one transaction deletes."""
    left, batch = retention.MOST_BYTES, list[Candidate]()
    for each in page.candidates[:size]:
        left -= each.bytes
        if left < 0 and batch:
            break
        batch.append(each)
    return batch
