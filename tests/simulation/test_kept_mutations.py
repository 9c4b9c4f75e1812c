"""What the simulation would notice if the rules for kept runs were broken, one at a time."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, true, update

from dcron.model import RunState
from dcron.schema.conditions import ALIVE
from dcron.schema.tables import runs
from dcron.store.claims import finishing, unheard
from dcron.store.runs import candidates
from dcron.store.runs.rows import is_in_state
from tests.simulation.cluster import SimulatedNode
from tests.simulation.playing import Failed, play_on_sqlite

SEEDS = 20
STEPS = 80

Patch = Callable[[pytest.MonkeyPatch], object]


def free_the_place(patch: pytest.MonkeyPatch) -> None:
    """Let reaping declare kept runs lost, too."""
    patch.setattr(unheard, "IS_NOT_KEPT", true())


def count_only_what_is_heard(patch: pytest.MonkeyPatch) -> None:
    """Let limits leave out unheard runs."""
    patch.setattr(candidates, "ALIVE", f"({ALIVE}) AND runs.unheard_since IS NULL")


def forget_the_spool(patch: pytest.MonkeyPatch) -> None:
    """Let the next node of a host drop what the one before has left."""
    patch.setattr(SimulatedNode, "deliver_spool", lambda node: setattr(node, "has_spool", False))


def report_under_a_new_id(patch: pytest.MonkeyPatch) -> None:
    """Let the next node of a host report the ends as its own."""
    deliver = SimulatedNode.deliver_spool

    def wrong(node: SimulatedNode) -> None:
        node.id = "web-9-00000000"
        deliver(node)

    patch.setattr(SimulatedNode, "deliver_spool", wrong)


def take_back_what_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Let a revival set runs to `running` that were given up."""

    def hear(connection: Connection, node_id: str) -> list[int]:
        kept = (runs.c.owner == node_id, unheard.IS_KEPT, runs.c.state.in_([RunState.RUNNING, RunState.LOST]))
        again = {"state": RunState.RUNNING, "finished_at": None, "dead_at": None}
        values: dict[str, Any] = again | {"unheard_since": None, "lost_after": None}
        connection.execute(update(runs).where(*kept).values(values))
        return []

    patch.setattr(unheard, "hear", hear)


def give_up_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let an unheard run count as lost at its start, whatever its timeout is."""

    def lost_after(started_at: datetime, spec: Any, lease: float) -> datetime | None:
        return started_at if "timeout" in spec else None

    patch.setattr("dcron.policy.starting.disconnect.lost_after", lost_after)


def let_lost_be_final(patch: pytest.MonkeyPatch) -> None:
    """Let a late end not replace `lost`."""
    patch.setattr(finishing, "is_in_state", lambda _: is_in_state(RunState.RUNNING))


@pytest.fixture(autouse=True)
def no_cached_statements() -> Iterator[None]:
    """Let each test build its own statements."""
    cached = (candidates._count_alive, finishing._end, unheard.every)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


@pytest.mark.parametrize(
    "broken",
    [
        *(free_the_place, count_only_what_is_heard),
        *(
            pytest.param(each, id=each.__name__, marks=pytest.mark.long)
            for each in (
                *(forget_the_spool, report_under_a_new_id),
                *(take_back_what_is_lost, give_up_at_once, let_lost_be_final),
            )
        ),
    ],
)
def test_a_broken_rule_is_found(broken: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    with pytest.raises(Failed):
        play_on_sqlite(range(SEEDS), STEPS)
