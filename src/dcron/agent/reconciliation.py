"""Compares the runs that the database shows on this node with those that it has, both ways.

They differ only for moments, unless the database went back in time: it was restored, or a failover lost
commits.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from dcron.agent.running import ActiveRuns
from dcron.database import Database
from dcron.model import RunState
from dcron.store import claims, finishing

log = logging.getLogger("dcron.agent")


@dataclass(frozen=True)
class Differences:
    """What one comparison found and recorded; `ended` is still to be done."""

    restarted: Collection[int] = ()
    """Runs of which the start was recorded again."""
    lost: Collection[int] = ()
    """Runs that the database showed here, and that this node does not have."""
    released: Collection[int] = ()
    """The same of runs that were claimed and never started."""
    ended: Collection[int] = ()
    """Runs that this node has, and that are not its own in the database."""


class Reconciler:
    """One node's runs, in the database and here."""

    def __init__(
        self,
        database: Database,
        node_id: str,
        live: ActiveRuns,
        starting: Callable[[], Collection[int]],
        kill: Callable[[Sequence[int]], None],
    ) -> None:
        """`starting` names the runs whose start is just being recorded; `kill` ends runs."""
        self._database = database
        self._node_id = node_id
        self._live = live
        self._starting = starting
        self._kill = kill
        self._strangers: frozenset[int] = frozenset()
        self._unshown: frozenset[int] = frozenset()
        self._ended: set[int] = set()

    def compare(self, connection: Connection, now: datetime, *, went_back: bool) -> Differences:
        """Look, and settle in this transaction what also differed the last time.

        Where the database `went_back`, what runs here and is not shown is ended at once.
        """
        starting, here = self._starting(), self._live.ids()  # before the look: it shows what started by now
        shown = claims.owned(connection, self._node_id)
        strangers = frozenset(shown.keys() - here - {*starting})
        unshown = frozenset(here - shown.keys())
        twice, self._strangers = strangers & self._strangers, strangers
        ended, self._unshown = (unshown if went_back else unshown & self._unshown), unshown
        return Differences(
            restarted=self._restart(connection, now, shown),
            lost=self._lose(connection, now, [each for each in twice if shown[each] is RunState.RUNNING]),
            released=self._release(connection, [each for each in twice if shown[each] is RunState.CLAIMED]),
            ended=sorted(ended - self._ended),
        )

    def settle(self, found: Differences) -> None:
        """End what is to be ended, once the transaction of `compare` is committed; say what was found."""
        for run_id in found.restarted:
            log.warning("run %d: the database has forgotten its start, which is recorded again", run_id)
        for run_id in found.lost:
            log.error("run %d is lost: the database showed it here, and this node does not have it", run_id)
        for run_id in found.released:
            log.warning("run %d waits again: this node had claimed it, and does not know of it", run_id)
        for run_id in found.ended:
            log.error("run %d is ended: it is not, or no longer, this node's in the database", run_id)
        self._ended = (self._ended | {*found.ended}) & self._live.ids()
        if found.ended:
            self._kill(list(found.ended))

    def _restart(self, connection: Connection, now: datetime, shown: dict[int, RunState]) -> list[int]:
        """Record the start of runs that were handed over, and are shown as claimed."""
        forgotten = [run_id for run_id, state in shown.items() if state is RunState.CLAIMED]
        lives = [live.run for run_id in forgotten if (live := self._live.get(run_id))]
        if not lives:
            return []
        return [run.id for run in claims.start(connection, self._database, self._node_id, now, lives)]

    def _lose(self, connection: Connection, now: datetime, run_ids: list[int]) -> list[int]:
        if not run_ids:
            return []
        reason = f"{self._node_id} does not have it: the database forgot its end, or shows a start of another"
        return finishing.declare_lost(connection, self._database, now, [self._node_id], reason, run_ids)

    def _release(self, connection: Connection, run_ids: list[int]) -> list[int]:
        if run_ids:
            claims.release(connection, [self._node_id], run_ids)
        return run_ids
