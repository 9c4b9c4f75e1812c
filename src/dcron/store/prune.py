"""The maintenance job that deletes old history, in short transactions with pauses between them.

A round goes through stages. Runs are walked in the order of their ends: a round continues where the last one
stopped, for each age at which something may be deleted, and once a day from the beginning. So runs that were
kept for another reason than their age are met again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from time import CLOCK_BOOTTIME, clock_gettime, monotonic
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select, text

from dcron.database import Database
from dcron.policy.retention import FIRST_SIZE, MOST_BAD, is_clock_trusted, next_size, seconds_of
from dcron.policy.statistics import day_of
from dcron.schema import ALIVE, DEAD, INCIDENT, WAITING, changes, daily_statistics, events, nodes, runs
from dcron.store import audit_log, maintenance, retention, tasks
from dcron.store import runs as store_runs
from dcron.store.audit_log import Author
from dcron.store.finished_runs import Place
from dcron.store.maintenance import Hold, Step
from dcron.store.retention import EARLIEST, History, Page

JOB = "prune"
BATCH_SECONDS = 0.025
"""How long a transaction should take."""
FULL_EVERY = timedelta(days=1)
CLOCK_WAIT = timedelta(days=1)
"""How long nothing is deleted after the clock may have been set forward."""
_LOOKED_AT = 500
"""Rows in one read."""
_PAGES = 200
"""Free pages of a SQLite file that one step gives back."""

Position = dict[str, Any]


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


def pruning(connection: Connection, now: datetime) -> Pruning:
    """Return what is known of the last round."""
    row = maintenance.last_round(connection, JOB)
    if row is None:
        return Pruning(None, {}, None, None)
    waits_until = _time(row.position.get("wait_until"))
    begins_at = row.due_at + CLOCK_WAIT if row.ran_at is None and row.due_at > now else waits_until
    done = {kind: number for kind, number in row.done.items() if isinstance(number, int)}
    return Pruning(row.ran_at, done, row.error, begins_at if begins_at and begins_at > now else None)


class Prune:
    """Deletes what retention no longer keeps. One batch is a step."""

    name = JOB
    interval = 600.0
    work: type["Work"]

    def __init__(
        self,
        boottime: Callable[[], float] = lambda: clock_gettime(CLOCK_BOOTTIME),
        by_hand: ByHand | None = None,
    ) -> None:
        """`boottime` is a clock that cannot be set, in seconds."""
        self._by_hand = by_hand
        self.work = Work
        self._boottime = boottime
        self._last_round: tuple[datetime, float] | None = None
        self._history: History | None = None
        self._bad: Counter[int] | None = None
        self._left: _Left | None = None

    def step(self, database: Database, hold: Hold, position: Mapping[str, Any]) -> Step:
        """Do the next batch of the first stage that is left."""
        if "stages" not in position:
            return self._begin(database, hold, dict(position))
        work = self.work(database, hold, dict(position))
        if self._history is None:  # this node continues the round of another one
            with database.read() as connection:
                self._history = _history(connection, work.position, self._by_hand)
            self._bad, self._left = None, None
        if not work.stages:
            return self._end(database, work)
        stage, _, age = work.stages[0].partition(":")
        if stage in _WALKS:
            self._walk(work, stage, float(age), self._history)
        else:
            _STAGES[stage](work, self._history)
        return Step(work.position, rest=work.rest)

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
            return self._begin_by_hand(position, history, whole | parts, whole)
        stages = ["dead", "many-dead"]
        if whole and _is_full_due(position, now):
            position["full_at"] = now.isoformat()
            stages.append(f"full:{min(whole)}")
            self._bad = Counter()
        else:
            stages += [f"all:{age}" for age in sorted(whole, reverse=True)]
        stages += [f"output:{age}" for age in sorted(parts, reverse=True)]
        stages += _OTHERS
        return self._planned(position, history, stages, whole)

    def _begin_by_hand(
        self, position: Position, history: History, ages: set[float], whole: set[float]
    ) -> Step:
        """Plan a round that walks through all of the history, for runs and output alike."""
        stages = [f"full:{min(ages)}"] if ages else []
        if self._by_hand and self._by_hand.task_id is None:
            stages = ["dead", "many-dead", *stages, *_OTHERS]
            self._bad = Counter()
        return self._planned(position, history, stages, whole)

    def _planned(self, position: Position, history: History, stages: list[str], whole: set[float]) -> Step:
        self._history, self._left = history, None
        position |= {"stages": stages, "ages": sorted(whole), "after": None, "size": FIRST_SIZE, "done": {}}
        position.setdefault("crossed", {})
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
        until = _time(position.get("wait_until"))
        return min(until, latest) if until and until > now else None

    def _end(self, database: Database, work: "Work") -> Step:
        with database.read() as connection:
            now = database.now(connection)
            left = _between_rounds(work.position)
            if self._bad is not None:
                left["bad_kept"] = _too_many(connection, self._bad)
        self._last_round = now, self._boottime()
        self._history, self._bad, self._left = None, None, None
        return Step(None, work.position["done"], next_round=left)

    def _walk(self, work: "Work", stage: str, age: float, history: History) -> None:
        """Delete a batch of the runs that have reached this age."""
        if self._left is None or self._left.at != work.position["after"]:
            self._left = self._look(work, stage, age, history)
        page = self._left.page
        batch = batch_of(page, work.size)
        is_rest = len(batch) == len(page.candidates)
        end = page.end if is_rest else Place(batch[-1].finished_at, batch[-1].id)
        work.go_on(end)
        if end is None:
            work.position["crossed"] |= self._left.crossed
        if batch:
            with work.transaction() as (connection, now):
                deleted = history.delete(connection, work.database, batch, now)
            work.count(runs=deleted.runs, outputs=deleted.outputs, bytes=deleted.bytes)
        if stage == "full" and self._bad is not None and is_rest:
            self._bad.update(page.bad)
        rest = replace(page, candidates=page.candidates[len(batch) :])
        self._left = None if is_rest else replace(self._left, page=rest, at=work.position["after"])

    def _look(self, work: "Work", stage: str, age: float, history: History) -> "_Left":
        key = f"{stage}:{age}"
        with work.database.read() as connection:
            now = work.database.now(connection)
            # By hand, output goes in the same walk; it need not be summed up.
            is_output = stage == "output" or self._by_hand
            latest = now if is_output else min(now, retention.summed_until(connection))
            before = min(latest, retention.shift(now, age))
            after = work.place or (None if stage == "full" else _place(work.position["crossed"].get(key)))
            after = after or Place(EARLIEST, 0)
            page = history.look(connection, after, before, now, _LOOKED_AT)
        kind, ages = ("all", work.position["ages"]) if stage == "full" else (stage, [age])
        reached = {f"{kind}:{each}": min(before, retention.shift(now, each)) for each in ages}
        crossed = {name: _stored(Place(at, 0)) for name, at in reached.items()}
        return _Left(page, work.position["after"], crossed)


@dataclass(frozen=True)
class _Left:
    """What is left of the page that was looked at last."""

    page: Page
    at: Any
    """The position at which the walk goes on with it."""
    crossed: Mapping[str, Any]
    """How far each walk has come when the page is the last one."""


def batch_of(page: Page, size: int) -> Sequence[retention.Candidate]:
    """Return the first runs of the page that one transaction deletes."""
    left, batch = retention.MOST_BYTES, list[retention.Candidate]()
    for each in page.candidates[:size]:
        left -= each.bytes
        if left < 0 and batch:
            break
        batch.append(each)
    return batch


class Work:
    """One step of a round: its position, and its transaction."""

    def __init__(self, database: Database, hold: Hold, position: Position) -> None:
        self.database = database
        self.position = deepcopy(position)
        self.rest = 0.0
        self._hold = hold

    @property
    def stages(self) -> list[str]:
        """The stages that are left, the first of which is under way."""
        return list(self.position["stages"])

    @property
    def place(self) -> Place | None:
        """Where a walk goes on."""
        return _place(self.position["after"])

    @property
    def after(self) -> int:
        """The id behind which a stage goes on."""
        return int(self.position["after"] or 0)

    @property
    def size(self) -> int:
        """How many rows a transaction deletes."""
        return int(self.position["size"])

    def go_on(self, place: Place | int | None) -> None:
        """Go on behind this place; None ends the stage."""
        if place is None:
            self.position["stages"] = self.stages[1:]
        self.position["after"] = _stored(place) if isinstance(place, Place) else place

    @contextmanager
    def transaction(self) -> Iterator[tuple[Connection, datetime]]:
        """Open a transaction that renews the hold, and size the next batch by its time. Raises HoldLost."""
        began = monotonic()
        with self.database.write() as connection:
            now = self.database.now(connection)
            self._hold.renew(connection, now, self.position)
            yield connection, now
        seconds = monotonic() - began
        self.rest = seconds * self.database.rest_factor
        self.position["size"] = next_size(self.size, seconds, BATCH_SECONDS)

    def count(self, **rows: int) -> None:
        """Add to the rows that the round has handled."""
        done = self.position["done"]
        for kind, number in rows.items():
            if number:
                done[kind] = done.get(kind, 0) + number


# The stages -------------------------------------------------------------------------------------------


def _dismiss_old(work: Work, history: History) -> None:
    """Dismiss dead letters that are older than `keep.dead`."""
    age = seconds_of(history.kept, "dead")
    found: list[int] = []
    if age < inf:
        with work.database.read() as connection:
            before = retention.shift(work.database.now(connection), age)
            old = (text(DEAD), runs.c.dead_at < before, runs.c.id > work.after, ~retention.is_held())
            query = select(runs.c.id).where(*old).order_by(runs.c.id).limit(work.size)
            found = list(connection.scalars(query))
    is_full = len(found) == work.size
    work.go_on(found[-1] if is_full else None)
    if found:
        _dismiss(work, found)


def _dismiss_many(work: Work, history: History) -> None:
    """Dismiss the oldest dead letters of a task that has more than it keeps."""
    if seconds_of(history.kept, "dead") == inf:
        work.go_on(None)
        return
    of_tasks = select(runs.c.task_id).where(text(DEAD), runs.c.task_id > work.after).group_by(runs.c.task_id)
    too_many = of_tasks.having(func.count() > MOST_BAD).order_by(runs.c.task_id).limit(1)
    with work.database.read() as connection:
        task_id = connection.scalar(too_many)
        found: list[int] = []
        if task_id is not None:
            own = select(runs.c.id).where(text(DEAD), runs.c.task_id == task_id)
            newest = own.order_by(runs.c.id.desc()).offset(MOST_BAD - 1).limit(1).scalar_subquery()
            older = own.where(runs.c.id < newest, ~retention.is_held()).order_by(runs.c.id).limit(work.size)
            found = list(connection.scalars(older))
    if not found:
        # What is left of this task is on hold.
        work.go_on(task_id if task_id is not None and task_id > work.after else None)
        return
    work.go_on(work.after)
    _dismiss(work, found)


def _dismiss(work: Work, run_ids: Sequence[int]) -> None:
    query = select(runs.c.id, runs.c.task_id).where(runs.c.id.in_(run_ids), text(DEAD))
    with work.transaction() as (connection, now):
        of_task = {row.id: row.task_id for row in connection.execute(query.with_for_update(skip_locked=True))}
        dismissed = store_runs.dismiss(connection, list(of_task))
        for task in tasks.by_ids(connection, set(of_task.values())):
            own = [run_id for run_id, task_id in of_task.items() if task_id == task.id]
            detail = {"runs": len(own), "from": min(own), "to": max(own)}
            audit_log.record_run(connection, now, Author.agent(), "dismiss", task.id, task.name, detail)
    work.count(dismissed=dismissed)


def _delete_events(work: Work, history: History) -> None:
    """Delete events that were handled long ago, unless a run of theirs has not ended."""
    table = events.c
    of_event = (runs.c.event_id == table.id, runs.c.trigger == text("'event'"), runs.c.finished_at.is_(None))
    is_unfinished = retention.exists(*of_event, of=events)

    def of_age(before: datetime) -> Any:
        return (table.handled_at < before) & (table.created_at < before) & ~is_unfinished

    _delete_by_id(work, history, "events", events, table.created_at, of_age)


def _delete_changes(work: Work, history: History) -> None:
    """Delete old entries of the audit log, except those about the database itself."""

    def of_age(before: datetime) -> Any:
        return (changes.c.at < before) & text(f"NOT ({INCIDENT})")

    _delete_by_id(work, history, "changes", changes, changes.c.at, of_age)


def _delete_by_id(
    work: Work, history: History, name: str, table: Any, at: Any, of_age: Callable[[datetime], Any]
) -> None:
    """Delete rows of a table whose ids grow with time, from the oldest to the first that is young enough."""
    age = seconds_of(history.kept, name)
    if age == inf:
        work.go_on(None)
        return
    with work.database.read() as connection:
        before = retention.shift(work.database.now(connection), age)
        page = select(table.c.id, at).where(table.c.id > work.after).order_by(table.c.id).limit(_LOOKED_AT)
        rows = connection.execute(page).all()
        ids = select(table.c.id).where(table.c.id.in_([row.id for row in rows]), of_age(before))
        found = sorted(connection.scalars(ids))
    batch = found[: work.size]
    is_over = len(rows) < _LOOKED_AT or all(row[1] >= before for row in rows)
    work.go_on(batch[-1] if len(batch) < len(found) else None if is_over else rows[-1].id)
    if batch:
        with work.transaction() as (connection, _):
            gone = connection.execute(delete(table).where(table.c.id.in_(batch), of_age(before))).rowcount
        work.count(**{name: gone})


def _delete_nodes(work: Work, history: History) -> None:
    """Delete nodes that ended long ago, unless a run has yet to learn of it."""
    age = seconds_of(history.kept, "nodes")
    found: list[str] = []
    if age < inf:
        with work.database.read() as connection:
            before = retention.shift(work.database.now(connection), age)
            found = list(connection.scalars(_old_nodes(before).limit(work.size)))
    if not found:
        work.go_on(None)
        return
    with work.transaction() as (connection, _):
        still = select(nodes.c.id).where(nodes.c.id.in_(found), nodes.c.died_at < before)
        gone = connection.execute(delete(nodes).where(nodes.c.id.in_(still))).rowcount
    work.count(nodes=gone)
    if not gone:
        work.go_on(None)


def _old_nodes(before: datetime) -> Select[Any]:
    waits = select(runs.c.id).where(runs.c.for_node == nodes.c.id, text(WAITING)).limit(1)
    owned = select(runs.c.id).where(runs.c.owner == nodes.c.id, text(ALIVE)).limit(1)
    unneeded = (each.correlate(nodes).scalar_subquery().is_(None) for each in (waits, owned))
    ended = (text("died_at IS NOT NULL"), nodes.c.died_at < before)
    return select(nodes.c.id).where(*ended, *unneeded).order_by(nodes.c.died_at)


def _delete_statistics(work: Work, history: History) -> None:
    """Delete the oldest day of the daily statistics that is old enough."""
    age = seconds_of(history.kept, "statistics")
    oldest = None
    if age < inf:
        with work.database.read() as connection:
            before = day_of(retention.shift(work.database.now(connection), age)).isoformat()
            oldest = connection.scalar(
                select(func.min(daily_statistics.c.day)).where(daily_statistics.c.day < before)
            )
    if oldest is None:
        work.go_on(None)
        return
    with work.transaction() as (connection, _):
        gone = connection.execute(delete(daily_statistics).where(daily_statistics.c.day == oldest)).rowcount
    work.count(statistics=gone)


def _give_back_pages(work: Work, _: History) -> None:
    """Give free pages of a SQLite file back to the file system, where they are many."""
    began = monotonic()
    given = work.database.give_back_pages(_PAGES)
    work.rest = (monotonic() - began) * work.database.rest_factor
    work.count(pages=given)
    if not given:
        work.go_on(None)


_WALKS = ("full", "all", "output")
_OTHERS = ("events", "nodes", "statistics", "changes", "pages")
_STAGES: Mapping[str, Callable[[Work, History], None]] = {
    "dead": _dismiss_old,
    "many-dead": _dismiss_many,
    "events": _delete_events,
    "nodes": _delete_nodes,
    "statistics": _delete_statistics,
    "changes": _delete_changes,
    "pages": _give_back_pages,
}


def _history(connection: Connection, position: Position, by_hand: ByHand | None) -> History:
    history = History(
        retention.settings_kept(connection),
        given=by_hand.given if by_hand else None,
        task_id=by_hand.task_id if by_hand else None,
        needs_archive=retention.needs_archive(connection),
    )
    history.bad_kept = {int(task_id): int(run_id) for task_id, run_id in position.get("bad_kept", {}).items()}
    return history


def _too_many(connection: Connection, bad: Counter[int]) -> dict[str, int]:
    """Return the oldest failed run that is kept, by task, for tasks that have more than they keep."""
    found = {}
    for task_id, number in bad.items():
        if number > MOST_BAD:
            kept = retention.oldest_bad_kept(connection, task_id, number - MOST_BAD)
            if kept is not None:
                found[str(task_id)] = kept
    return found


def _between_rounds(position: Position) -> Position:
    """Return what the next round needs of this one's position."""
    names = ("crossed", "full_at", "bad_kept", "wait_until")
    return {name: position[name] for name in names if name in position}


def _is_full_due(position: Position, now: datetime) -> bool:
    last = _time(position.get("full_at"))
    return last is None or not last <= now < last + FULL_EVERY


def _stored(place: Place) -> list[Any]:
    return [place.finished_at.isoformat(), place.id]


def _place(stored: Any) -> Place | None:
    """Return the place of a stored position; None where the walk begins."""
    if not isinstance(stored, list) or len(stored) != 2:
        return None
    at = _time(stored[0])
    return Place(at, int(stored[1])) if at else None


def _time(stored: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(stored)
    except (TypeError, ValueError):
        return None
    return at if at.tzinfo else None
