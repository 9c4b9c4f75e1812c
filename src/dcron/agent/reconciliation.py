"""Reconcile the runs that the database shows on this node with the runs that this node has.

They differ only briefly, unless the database went back in time: a backup was restored, or a failover lost
commits. So a difference counts only when two comparisons in a row find it. A run shown here but unknown
here is then declared lost, or released if it was only claimed. A run that this node executes but does not
own in the database is killed, at once if a rollback is certain: another node may be executing it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from logging import ERROR, WARNING
from typing import NamedTuple

from sqlalchemy import Connection

from dcron.agent.log import log
from dcron.agent.node_context import NodeContext
from dcron.model import RunState
from dcron.store.claims import claims, finishing

_MESSAGES = (
    (WARNING, "run-restored", "run %d: the database has forgotten its start, which is recorded again"),
    (ERROR, "run-lost", "run %d is lost: the database showed it here, and this node does not have it"),
    (WARNING, "run-released", "run %d waits again: this node had claimed it, and does not know of it"),
    (ERROR, "run-not-ours", "run %d is ended: it is not, or no longer, this node's in the database"),
)
"""The levels, events and messages of Differences, in their order."""


@dataclass(frozen=True)
class Differences:
    """What one comparison found and recorded. Only the runs in `ended` still have to be killed."""

    restarted: Collection[int] = ()
    """Runs whose start was recorded again."""
    lost: Collection[int] = ()
    """Runs shown as running here that this node does not have."""
    released: Collection[int] = ()
    """Runs shown as claimed here that this node does not know."""
    ended: Collection[int] = ()
    """Runs that this node executes but that the database does not show as its own."""


class Query(NamedTuple):
    """The runs here, and the question for those that the database shows."""

    starting: Collection[int]
    here: set[int]
    shown: Callable[[], dict[int, RunState]] | None


class Reconciler:
    """Compares one node's runs in the database with those it executes."""

    def __init__(self, node: NodeContext, starting: Callable[[], Collection[int]]) -> None:
        """`starting` returns the runs whose start may be being recorded."""
        self._node = node
        self._starting = starting
        self._unknown_here: frozenset[int] = frozenset()
        self._missing_there: frozenset[int] = frozenset()
        self._ended: set[int] = set()

    def send_query(self, connection: Connection) -> Query:
        """Note the runs here. If there are any, ask for those in the database, with the next statement."""
        # Before the query: its answer includes every run that had started by then.
        starting, here = self._starting(), self._node.active_runs.ids()
        reply = claims.send_owned(connection, self._node.database, self._node.id) if here else None
        return Query(starting, here, reply)

    def compare(
        self, connection: Connection, now: datetime, query: Query, *, owns_runs: bool, went_back: bool
    ) -> Differences:
        """Compare, and settle in this transaction what differed the last time, too.

        `owns_runs`: whether the database shows runs of this node. If it `went_back`, runs here that it does
        not show are ended at once.
        """
        starting, here = query.starting, query.here
        if query.shown:
            shown = query.shown()
        else:
            shown = claims.owned(connection, self._node.id) if owns_runs else {}
        unknown_here = frozenset(shown.keys() - here - {*starting})
        missing_there = frozenset(here - shown.keys())
        twice, self._unknown_here = unknown_here & self._unknown_here, unknown_here
        ended, self._missing_there = (
            (missing_there if went_back else missing_there & self._missing_there),
            missing_there,
        )
        return Differences(
            restarted=self._restart(connection, now, shown),
            lost=self._lose(connection, now, [each for each in twice if shown[each] is RunState.RUNNING]),
            released=self._release(connection, [each for each in twice if shown[each] is RunState.CLAIMED]),
            ended=sorted(ended - self._ended),
        )

    def settle(self, found: Differences) -> None:
        """Kill what must end and log the differences, once the transaction of `compare` is committed."""
        differences = found.restarted, found.lost, found.released, found.ended
        for run_ids, (level, event, message) in zip(differences, _MESSAGES, strict=True):
            for run_id in run_ids:
                log.log(level, message, run_id, event=event, run=run_id)
        self._ended = (self._ended | {*found.ended}) & self._node.active_runs.ids()
        if found.ended:
            self._node.warden.kill(found.ended)

    def find_foreign(self, connection: Connection) -> list[int]:
        """Return the runs here that the database no longer shows as this node's."""
        here = self._node.active_runs.ids()  # before the query, as above
        return sorted(here - claims.owned(connection, self._node.id).keys())

    def fence(self, foreign: Sequence[int]) -> None:
        """Kill these commands at once: others may have taken their places while the node counted as dead."""
        if foreign:
            self._node.warden.kill(foreign, "lease", grace=0.0)  # they count as lost
            self._ended |= {*foreign}

    def _restart(self, connection: Connection, now: datetime, shown: dict[int, RunState]) -> list[int]:
        """Record again the start of runs that are executed here but shown as claimed."""
        forgotten = [run_id for run_id, state in shown.items() if state is RunState.CLAIMED]
        found = [active.run for run_id in forgotten if (active := self._node.active_runs.get(run_id))]
        if not found:
            return []
        return [run.id for run in claims.start(connection, self._node.database, self._node.id, now, found)]

    def _lose(self, connection: Connection, now: datetime, run_ids: list[int]) -> list[int]:
        if not run_ids:
            return []
        reason = f"{self._node.id} does not have it: the database forgot its end, or shows a start of another"
        return finishing.declare_lost(connection, self._node.database, now, [self._node.id], reason, run_ids)

    def _release(self, connection: Connection, run_ids: list[int]) -> list[int]:
        if run_ids:
            claims.release(connection, [self._node.id], run_ids)
        return run_ids
