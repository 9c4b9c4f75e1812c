"""The loop that takes turns: look at the agenda, claim what is due, commit the start, hand it over."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from dcron.agent.execution import job_for
from dcron.agent.live import LiveRuns
from dcron.agent.settings import Settings
from dcron.database import Database
from dcron.model import RunState
from dcron.schedule import tzdata_version
from dcron.store import agenda, claims, nodes, runs, tasks
from dcron.store.claims import Claimed
from dcron.warden.client import Job

log = logging.getLogger("dcron.agent")

BATCH = 100
"""Runs claimed, and lines planned, in one transaction."""
LOOK_EVERY = 5.0
"""Seconds between two looks when nothing is due and nobody gave a sign."""
LOOK_EVERY_UNWATCHED = 1.0
"""The same where no sign can come, behind a transaction pooler."""
_FIRST_RETRY = 0.05


class Fenced(Exception):  # noqa: N818 - it is no error, but how a node ends
    """This node was declared dead: what it does now is nobody's."""


@dataclass(frozen=True)
class Look:
    """What the database shows at one moment."""

    now: datetime
    to_plan: bool
    next_due: datetime | None
    next_resume: datetime | None
    cancel_requests: dict[int, str]


class Turns:
    """Takes turns for one node. `step` is one look and what follows from it."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        node_id: str,
        live: LiveRuns,
        launch: Callable[[Sequence[Job]], None],
        kill: Callable[[Sequence[int]], None],
    ) -> None:
        """`launch` starts commands, `kill` ends runs; both return at once."""
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._live = live
        self._launch = launch
        self._kill = kill
        # What a lost answer was about: not None until the database has been asked what is ours.
        self._in_doubt: list[Claimed] | None = None
        self._retry = 0.0
        self.closed = False
        """Set when the node drains: then nothing new is claimed."""

    def step(self) -> float:
        """Do what there is to do now; the seconds until the next look. Raises Fenced or DatabaseError."""
        if self._in_doubt is not None:
            self._settle_doubt(self._in_doubt)
        look = self._look()
        if fresh := self._live.cancel(look.cancel_requests):
            self._kill(fresh)
        if self.closed:
            return LOOK_EVERY
        if look.to_plan and self._plan():
            return 0.0
        if look.next_due and look.next_due <= look.now and self._live.free() > 0:
            return self._take_turns()
        return self._until_next(look)

    def _look(self) -> Look:
        with self._database.read() as connection:
            now = self._database.now(connection)
            return Look(
                now,
                tasks.has_to_plan(connection, now),
                agenda.next_due(connection, self._node_id),
                tasks.next_resume(connection),
                runs.cancel_requests(connection, self._node_id) if self._live.any() else {},
            )

    def _plan(self) -> int:
        """Plan some of the lines that need it; how many. Those that others hold are left to them."""
        with self._database.write() as connection:
            now = self._database.now(connection)
            lines = tasks.to_plan(connection, self._database, now, BATCH)
            moved = [agenda.plan(connection, task, now) for task in lines]
        for each in filter(None, moved):
            log.warning(
                "task %s: its next run moved from %s to %s, by the time zones of %s",
                *(each.task, each.before, each.after, tzdata_version()),
            )
        return len(lines)

    def _take_turns(self) -> float:
        claimed = self._claim()
        if claimed:
            self._start(claimed)
            self._retry = 0.0
            return 0.0
        # Due, but not for us or not just now: others hold the rows, or the line forbids it.
        self._retry = min(LOOK_EVERY, max(_FIRST_RETRY, self._retry * 2))
        return self._retry

    def _claim(self) -> list[Claimed]:
        self._in_doubt = []
        with self._database.write() as connection:
            now = self._renewed(connection)
            limit = min(BATCH, self._live.free())
            claimed = claims.claim(connection, self._database, self._node_id, now, limit)
            if not claimed:
                agenda.settle_orphans(connection, now, BATCH)
        self._in_doubt = None
        return claimed

    def _start(self, claimed: list[Claimed]) -> None:
        self._in_doubt = claimed
        with self._database.write() as connection:
            now = self._database.now(connection)
            started = claims.start(connection, self._database, self._node_id, now, claimed)
        self._in_doubt = None
        self._hand_over(started, now)

    def _settle_doubt(self, claimed: Sequence[Claimed]) -> None:
        """After a lost reply: what the database has as started by us is started, the rest is given back."""
        with self._database.write() as connection:
            now = self._renewed(connection)
            mine = set(claims.owned(connection, self._node_id, RunState.RUNNING))
            claims.release(connection, [self._node_id])
        self._in_doubt = None
        started = [run for run in claimed if run.id in mine and not self._live.get(run.id)]
        self._hand_over(started, now)

    def _hand_over(self, started: Sequence[Claimed], now: datetime) -> None:
        if not started:
            return
        self._live.add(started, now)
        self._launch([job_for(run, self._node_id, self._settings.kill_grace) for run in started])
        for run in started:
            log.info("run %d of %s: started (%s)", run.id, run.task.name, run.trigger)

    def _renewed(self, connection: Connection) -> datetime:
        """The lease, renewed before anything is claimed: a node declared dead must not claim."""
        now = self._database.now(connection)
        if nodes.renew(connection, self._node_id, now, self._settings.lease) is None:
            raise Fenced
        return now

    def _until_next(self, look: Look) -> float:
        pause = LOOK_EVERY_UNWATCHED if self._database.address.transaction_pooling else LOOK_EVERY
        times = [look.next_resume]
        if self._live.free() > 0:  # else a slot that becomes free is what wakes us
            times.append(look.next_due)
        for moment in times:
            if moment is not None:
                pause = min(pause, max(0.0, (moment - look.now).total_seconds()))
        return pause
