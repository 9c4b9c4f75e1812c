"""The maintenance job that deletes old history, in short transactions with pauses between them.

A round dismisses old dead letters, walks through runs in the order of their ends, and deletes old rows of
other tables. The walk begins with the oldest run once a day, and when an age at which runs go has changed: so
it meets again what was kept for another reason, or for longer. Other rounds begin where the last one ended.
Output that goes before its run has a walk for each of its ages, which never begins anew.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from time import CLOCK_BOOTTIME, clock_gettime, monotonic
from typing import Any

from sqlalchemy import Connection

from dcron.database import Database
from dcron.errors import DatabaseError
from dcron.policy.retention import FIRST_SIZE, MOST_BAD, SMALLEST_SIZE, is_clock_trusted
from dcron.store import maintenance
from dcron.store.maintenance import Hold, Step
from dcron.store.planning import planning
from dcron.store.retention import history as past
from dcron.store.retention import tables
from dcron.store.retention.batches import (
    BATCH_SECONDS,
    HURRIED_SECONDS,
    Position,
    Work,
    read_place,
    read_time,
    stored_place,
)
from dcron.store.retention.history import EARLIEST, Candidate, History, Page
from dcron.store.statistics.finished_runs import Place

JOB = "prune"
FULL_EVERY = timedelta(days=1)
CLOCK_WAIT = timedelta(days=1)
"""How long nothing is deleted after the clock may have been set forward."""
RUNS, OUTPUT = "runs", "output"
"""The walks; behind a colon they have the least age, in seconds, at which something goes."""
_OTHERS: Mapping[str, Callable[[Work, History], None]] = {
    "dead": tables.dismiss_old,
    "many-dead": tables.dismiss_many,
}
"""The stages before the walks."""
_PAGES = "pages"
"""The last stage, after one for each kind of old rows."""
_FREE_PAGES = 200
"""Free pages of a SQLite file that one step gives back."""
_LOOKED_AT, _LOOKED_AT_BY_HAND = 200, 2000
"""Runs in one read."""
_MOST_BYTES = 4 * 1024 * 1024
"""Output in one batch: deleting it takes time, too."""
_PACE_FOR = 0.5
"""Seconds until a round by hand looks again whether runs are due."""
_LONGEST_REST = 10.0
"""Seconds between two batches, far less than a job is held without renewal."""
_BETWEEN_ROUNDS = ("places", "ages", "full_at", "oldest_spare", "wait_until")
"""What the next round needs of a position."""


@dataclass(frozen=True)
class ByHand:
    """A round that a person asks for: it takes in all of the history, and trusts the clock."""

    given: Mapping[str, Any]
    """What replaces the settings `keep.*` and what tasks keep."""
    task_id: int | None
    """The only task whose history is pruned."""
    paces: bool = False
    """Whether it leaves room for agents while runs are due."""


@dataclass(frozen=True)
class Pruning:
    """The last round of pruning, and when the first one begins."""

    ran_at: datetime | None
    done: Mapping[str, int]
    """How many rows it handled, by kind."""
    error: str | None
    begins_at: datetime | None
    """When history is pruned for the first time; None if it has been, or there was nothing to wait for."""

    @property
    def runs(self) -> int:
        """How many runs the last round deleted."""
        return self.done.get("runs", 0)


def pruning(connection: Connection, now: datetime) -> Pruning:
    """Return what is known of the last round."""
    row = maintenance.last_round(connection, JOB)
    if row is None:
        return Pruning(None, {}, None, None)
    waits_until = read_time(row.position.get("wait_until"))
    begins_at = row.due_at + CLOCK_WAIT if row.ran_at is None and row.due_at > now else waits_until
    done = {kind: number for kind, number in row.done.items() if isinstance(number, int)}
    return Pruning(row.ran_at, done, row.error, begins_at if begins_at and begins_at > now else None)


class Prune:
    """Deletes what retention no longer keeps. One batch is a step."""

    name = JOB
    interval = 600.0
    work: type[Work] = Work

    def __init__(
        self,
        boottime: Callable[[], float] = lambda: clock_gettime(CLOCK_BOOTTIME),
        by_hand: ByHand | None = None,
    ) -> None:
        """`boottime` is a clock that cannot be set, in seconds."""
        self._by_hand = by_hand
        self._boottime = boottime
        self._last_round: tuple[datetime, float] | None = None
        self._walk: Walk | None = None
        self._is_paced, self._pace_until = by_hand is None, -inf

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Do the next batch. If it fails, the next one is smaller; if that fails too, raise DatabaseError."""
        if "stages" not in position or "places" not in position:
            return self._begin(database, hold, dict(position))
        is_paced = self._paces(database)
        target = BATCH_SECONDS if is_paced else HURRIED_SECONDS
        work = self.work(database, hold, dict(position), target)
        if self._walk is None:  # this node continues the round of another one
            with database.read() as connection:
                self._walk = Walk(_history(connection, work.position, self._by_hand), self._by_hand)
        if not work.stages:
            return self._end(database, work, self._walk)
        began, size = monotonic(), work.size
        try:
            _do(work, self._walk)
        except DatabaseError:
            if size <= SMALLEST_SIZE:
                raise
            work = self.work(database, hold, {**position, "size": SMALLEST_SIZE}, target)
        rest = (monotonic() - began) * database.rest_factor if is_paced else 0.0
        return Step(work.position, rest=min(rest, _LONGEST_REST))

    def _paces(self, database: Database) -> bool:
        """Return whether the round leaves room for others: one by hand does so only while runs are due."""
        if self._by_hand and self._by_hand.paces and monotonic() > self._pace_until:
            with database.read() as connection:
                now = database.now(connection)
                self._is_paced = any(head.due_at <= now for head in planning.heads(connection))
            self._pace_until = monotonic() + _PACE_FOR
        return self._is_paced

    def _begin(self, database: Database, hold: Hold, position: Position) -> Step:
        """Plan the stages of a round. Delete nothing while the clock cannot be trusted."""
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, position)
            row = maintenance.last_round(connection, JOB)
            history = _history(connection, position, self._by_hand)
            whole, parts = past.durations(connection, history)
            until = None if self._by_hand else self._wait_until(row.ran_at if row else None, now, position)
        if until:
            self._last_round = now, self._boottime()
            left = {**_between_rounds(position), "wait_until": until.isoformat()}
            why = (
                f"nothing is pruned before {until:%Y-%m-%dT%H:%M:%SZ}: the clock may have been set forward,"
                " or no agent ran for a day"
            )
            return Step(None, {}, next_round=left, note=why if row and row.ran_at else None)
        is_full = self._by_hand is not None or _is_full_due(position, now, whole)
        if self._by_hand:
            walks = [f"{RUNS}:{min(whole | parts)}"] if whole | parts else []
            position.setdefault("places", {})
        else:
            walks = _walks(position, now, whole, parts, is_full=is_full)
        of_one = self._by_hand is not None and self._by_hand.task_id is not None
        stages = walks if of_one else [*_OTHERS, *walks, *tables.OLD, _PAGES]
        self._walk = Walk(history, self._by_hand, counts_spare=is_full and not of_one)
        position |= {"stages": stages, "after": None, "size": FIRST_SIZE, "done": {}}
        position.pop("wait_until", None)
        return Step(position)

    def _wait_until(self, ran_at: datetime | None, now: datetime, position: Position) -> datetime | None:
        """Return until when nothing is deleted, because the clock may have been set forward."""
        passed = None
        if self._last_round and ran_at and abs(ran_at - self._last_round[0]) < timedelta(minutes=1):
            passed = self._boottime() - self._last_round[1]
        latest = now + CLOCK_WAIT
        if not is_clock_trusted(ran_at, passed, now):
            return latest
        until = read_time(position.get("wait_until"))
        return min(until, latest) if until and until > now else None

    def _end(self, database: Database, work: Work, walk: "Walk") -> Step:
        with database.read() as connection:
            now = database.now(connection)
            left = _between_rounds(work.position)
            if (oldest_spare := walk.oldest_spare(connection)) is not None:
                left["oldest_spare"] = oldest_spare
        self._last_round = now, self._boottime()
        self._walk = None
        return Step(None, work.position["done"], next_round=left)


def _do(work: Work, walk: "Walk") -> None:
    """Do the next batch of the first stage that is left."""
    stage = work.stages[0]
    if stage in _OTHERS:
        _OTHERS[stage](work, walk.history)
    elif stage in tables.OLD:
        tables.delete_old(work, walk.history, stage)
    elif stage == _PAGES:
        given = work.database.give_back_pages(_FREE_PAGES)
        work.count(pages=given)
        if not given:
            work.go_on(None)
    else:
        walk.step(work, stage)


def _walks(
    position: Position, now: datetime, whole: set[float], parts: set[float], *, is_full: bool
) -> list[str]:
    """Return the walks of an agent's round, and prepare the position for them."""
    of_runs = [f"{RUNS}:{age}" for age in sorted(whole)[:1]]
    of_output = [f"{OUTPUT}:{age}" for age in sorted(parts, reverse=True)]
    if is_full:
        position |= {"full_at": now.isoformat(), "ages": sorted(whole)}
    known, going_on = position.get("places", {}), of_output if is_full else of_runs + of_output
    position["places"] = {name: known[name] for name in going_on if name in known}
    return of_runs + of_output


def _history(connection: Connection, position: Position, by_hand: ByHand | None) -> History:
    history = History(
        past.settings_kept(connection),
        given=by_hand.given if by_hand else None,
        task_id=by_hand.task_id if by_hand else None,
        needs_archive=past.needs_archive(connection),
    )
    stored = position.get("oldest_spare", {})
    history.oldest_spare = {int(task_id): int(run_id) for task_id, run_id in stored.items()}
    return history


def _between_rounds(position: Position) -> Position:
    return {name: position[name] for name in _BETWEEN_ROUNDS if name in position}


def _is_full_due(position: Position, now: datetime, whole: set[float]) -> bool:
    """Return whether a round begins with the oldest run."""
    last = read_time(position.get("full_at"))
    is_due = last is None or not last <= now < last + FULL_EVERY
    return bool(whole) and (is_due or position.get("ages") != sorted(whole))


class Walk:
    """Walks through the history of one round, batch by batch."""

    def __init__(self, history: History, by_hand: ByHand | None, *, counts_spare: bool = False) -> None:
        """By hand, it begins with the oldest run, and output goes with runs."""
        self.history = history
        self._by_hand = by_hand
        self._spare = Counter[int]() if counts_spare else None
        self._ahead: tuple[Any, Page, datetime] | None = None
        """The position at which the walk goes on with the rest of a page, and the end of the walk."""

    def step(self, work: Work, stage: str) -> None:
        """Delete a batch of the runs that are old enough, or their output."""
        if self._ahead is None or self._ahead[0] != work.after:
            self._ahead = (work.after, *self._look(work, stage))
        _, page, before = self._ahead
        batch = batch_of(page, work.size)
        rest = page.candidates[len(batch) :]
        end = Place(batch[-1].finished_at, batch[-1].id) if rest else page.end
        work.go_on(end)
        if end is None and not self._by_hand:
            work.position["places"][stage] = stored_place(Place(before, 0))
        if batch:
            with work.transaction() as (connection, now):
                deleted = self.history.delete(connection, batch, now)
            work.count(runs=deleted.runs, outputs=deleted.outputs, bytes=deleted.bytes)
        if not rest and self._spare is not None and stage.startswith(RUNS):
            self._spare.update(page.spare)
        self._ahead = (work.after, replace(page, candidates=rest), before) if rest else None

    def _look(self, work: Work, stage: str) -> tuple[Page, datetime]:
        """Return the next page, and before when its runs ended."""
        kind, _, age = stage.partition(":")
        with work.database.read() as connection:
            now = work.database.now(connection)
            # Output need not be summed up.
            only_summed = kind == RUNS and not self._by_hand
            latest = min(now, past.summed_until(connection)) if only_summed else now
            before = min(latest, past.shift(now, float(age)))
            place = None if self._by_hand else work.position["places"].get(stage)
            after = read_place(work.after) or read_place(place) or Place(EARLIEST, 0)
            limit = _LOOKED_AT_BY_HAND if self._by_hand else _LOOKED_AT
            return self.history.look(connection, after, before, now, limit), before

    def oldest_spare(self, connection: Connection) -> dict[str, int] | None:
        """Return the oldest run that is kept only because it failed, by task, for tasks with too many.

        None if this walk has not counted them.
        """
        if self._spare is None:
            return None
        many = {task_id: number for task_id, number in self._spare.items() if number > MOST_BAD}
        found = {
            each: past.oldest_spare(connection, each, number - MOST_BAD) for each, number in many.items()
        }
        return {str(task_id): run_id for task_id, run_id in found.items() if run_id is not None}


def batch_of(page: Page, size: int) -> Sequence[Candidate]:
    """Return the first runs of the page that one transaction deletes."""
    left, batch = _MOST_BYTES, list[Candidate]()
    for each in page.candidates[:size]:
        left -= each.bytes
        if left < 0 and batch:
            break
        batch.append(each)
    return batch
