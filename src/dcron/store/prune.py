"""The maintenance job that deletes old history, in short transactions with pauses between them.

A round goes through stages. Runs are walked in the order of their ends: a round continues where the last one
stopped, for each age at which something may be deleted, and once a day from the beginning. So runs that were
kept for another reason than their age are met again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import CLOCK_BOOTTIME, clock_gettime, monotonic
from typing import Any

from sqlalchemy import Connection

from dcron.database import Database
from dcron.errors import DatabaseError
from dcron.policy.retention import FIRST_SIZE, SMALLEST_SIZE, is_clock_trusted
from dcron.store import maintenance, prune_walk, retention
from dcron.store.maintenance import Hold, Step
from dcron.store.prune_stages import STAGES
from dcron.store.prune_walk import Walk
from dcron.store.prune_work import Position, Work, read_time
from dcron.store.retention import History

JOB = "prune"
FULL_EVERY = timedelta(days=1)
CLOCK_WAIT = timedelta(days=1)
"""How long nothing is deleted after the clock may have been set forward."""
_LONGEST_REST = 10.0
"""Seconds between two batches, far less than a job is held without renewal."""
_FIRST, _LAST = (
    ("dead", "many-dead"),
    ("events", "nodes", "statistics", "changes", "alerts", "notifications", "pages"),
)
"""The stages before and after the walks."""


@dataclass(frozen=True)
class ByHand:
    """A round that a person asks for: it takes in all of the history, and trusts the clock."""

    given: Mapping[str, Any]
    """What replaces the settings `keep.*` and what tasks keep."""
    task_id: int | None
    """The only task whose history is pruned."""


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

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Do the next batch. If it fails, the next one is smaller; if that fails too, raise DatabaseError."""
        if "stages" not in position:
            return self._begin(database, hold, dict(position))
        work = self.work(database, hold, dict(position))
        if self._walk is None:  # this node continues the round of another one
            with database.read() as connection:
                self._walk = self._new_walk(_history(connection, work.position, self._by_hand))
        if not work.stages:
            return self._end(database, work, self._walk)
        began, size = monotonic(), work.size
        try:
            _do(work, self._walk)
        except DatabaseError:
            if size <= SMALLEST_SIZE:
                raise
            work = self.work(database, hold, {**position, "size": SMALLEST_SIZE})
        rest = (monotonic() - began) * database.rest_factor
        return Step(work.position, rest=min(rest, _LONGEST_REST))

    def _begin(self, database: Database, hold: Hold, position: Position) -> Step:
        """Plan the stages of a round. Delete nothing while the clock cannot be trusted."""
        with database.write() as connection:
            now = database.now(connection)
            hold.renew(connection, now, position)
            row = maintenance.last_round(connection, JOB)
            history = _history(connection, position, self._by_hand)
            whole, parts = retention.durations(connection, history)
            until = None if self._by_hand else self._wait_until(row.ran_at if row else None, now, position)
        if until:
            self._last_round = now, self._boottime()
            left = {**_between_rounds(position), "wait_until": until.isoformat()}
            why = (
                f"nothing is pruned before {until:%Y-%m-%dT%H:%M:%SZ}: the clock may have been set forward,"
                " or no agent ran for a day"
            )
            return Step(None, {}, next_round=left, note=why if row and row.ran_at else None)
        if self._by_hand:
            stages, counts_bad = _stages_by_hand(self._by_hand, whole | parts)
        else:
            stages, counts_bad = _stages(position, now, whole, parts)
        self._walk = self._new_walk(history, counts_bad=counts_bad)
        position |= {"stages": stages, "ages": sorted(whole), "after": None, "size": FIRST_SIZE, "done": {}}
        position.setdefault("crossed", {})
        position.pop("wait_until", None)
        return Step(position)

    def _new_walk(self, history: History, *, counts_bad: bool = False) -> Walk:
        return Walk(history, by_hand=self._by_hand is not None, counts_bad=counts_bad)

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

    def _end(self, database: Database, work: Work, walk: Walk) -> Step:
        with database.read() as connection:
            now = database.now(connection)
            left = _between_rounds(work.position)
            if (bad_kept := walk.oldest_bad_kept(connection)) is not None:
                left["bad_kept"] = bad_kept
        self._last_round = now, self._boottime()
        self._walk = None
        return Step(None, work.position["done"], next_round=left)


def _do(work: Work, walk: Walk) -> None:
    """Do the next batch of the first stage that is left."""
    stage, _, age = work.stages[0].partition(":")
    if age:
        walk.step(work, stage, float(age))
    else:
        STAGES[stage](work, walk.history)


def _stages(
    position: Position, now: datetime, whole: set[float], parts: set[float]
) -> tuple[list[str], bool]:
    """Return the stages of an agent's round, and whether it counts the failed runs that are kept."""
    is_full = bool(whole) and _is_full_due(position, now)
    if is_full:
        position["full_at"] = now.isoformat()
        walks = [f"{prune_walk.FULL}:{min(whole)}"]
    else:
        walks = [f"{prune_walk.ALL}:{age}" for age in sorted(whole, reverse=True)]
    walks += [f"{prune_walk.OUTPUT}:{age}" for age in sorted(parts, reverse=True)]
    return [*_FIRST, *walks, *_LAST], is_full


def _stages_by_hand(by_hand: ByHand, ages: set[float]) -> tuple[list[str], bool]:
    """Return the stages of a round that walks through all of the history, for runs and output alike."""
    walks = [f"{prune_walk.FULL}:{min(ages)}"] if ages else []
    return (walks, False) if by_hand.task_id is not None else ([*_FIRST, *walks, *_LAST], True)


def _history(connection: Connection, position: Position, by_hand: ByHand | None) -> History:
    history = History(
        retention.settings_kept(connection),
        given=by_hand.given if by_hand else None,
        task_id=by_hand.task_id if by_hand else None,
        needs_archive=retention.needs_archive(connection),
    )
    history.bad_kept = {int(task_id): int(run_id) for task_id, run_id in position.get("bad_kept", {}).items()}
    return history


def _between_rounds(position: Position) -> Position:
    """Return what the next round needs of this one's position."""
    names = ("crossed", "full_at", "bad_kept", "wait_until")
    return {name: position[name] for name in names if name in position}


def _is_full_due(position: Position, now: datetime) -> bool:
    last = read_time(position.get("full_at"))
    return last is None or not last <= now < last + FULL_EVERY
