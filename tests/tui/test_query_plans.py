"""What the screen asks at every change follows an index, however long the history is."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Connection

from dcron.store import freezes, listings
from dcron.store.statistics import fleet_figures
from dcron.values.lists import RunCursor, RunListFilter, Term
from tests.contract.test_query_plans import LINES, NODE, explained, full, full_url, scans
from tests.support.stage import NOON, Stage

__all__ = ["full", "full_url"]

PLACE = RunCursor(NOON - timedelta(days=1), LINES + 25_000)
FAILED = RunListFilter(terms=[Term("failed")])
OF_NODE = RunListFilter(node_id=NODE, node_since=NOON - timedelta(days=2))
QUERIES: dict[str, Callable[[Connection], object]] = {
    "tasks": lambda connection: listings.listed_tasks(connection, list(range(1, 50))),
    "recent runs": lambda connection: listings.ask_recent_runs(connection, list(range(1, 50)))(),
    "tasks token": listings.tasks_token,
    "alive": listings.count_alive,
    "latest runs": lambda connection: listings.finished_runs(connection, RunListFilter(), None, 200, NOON),
    "earlier runs": lambda connection: listings.finished_runs(connection, RunListFilter(), PLACE, 200, NOON),
    "runs of a task": lambda connection: listings.finished_runs(
        connection, RunListFilter(7), PLACE, 200, NOON
    ),
    "runs of a node": lambda connection: listings.finished_runs(connection, OF_NODE, PLACE, 200, NOON),
    "filtered runs": lambda connection: listings.finished_runs(connection, FAILED, PLACE, 200, NOON),
    "unfinished runs": lambda connection: listings.unfinished_runs(connection, RunListFilter(), 200, NOON),
    "unfinished runs of a task": lambda connection: listings.unfinished_runs(
        connection, RunListFilter(7), 9, NOON
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("ask", QUERIES.values(), ids=QUERIES)
def test_what_the_screen_asks_follows_an_index(full: Stage, ask: Callable[[Connection], object]) -> None:
    plans = explained(full, ask)
    assert plans
    assert {sql: scans(full, plan) for sql, plan in plans.items() if scans(full, plan)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [5, 30, 60.1, 120], ids=["before", "frozen", "thawed", "long after"])
def test_late_runs_are_found_by_an_index_whatever_is_frozen(full: Stage, minutes: float) -> None:
    """A filter reads all tasks, but of the runs only those of one task at a time."""
    now = NOON + timedelta(minutes=minutes)
    begin, end = NOON + timedelta(minutes=10), NOON + timedelta(minutes=60)

    def ask(connection: Connection) -> None:
        freezes.add(connection, NOON, "ann@desk", from_at=begin, until_at=end, reason=None)
        listings.late_tasks(connection, now)
        fleet_figures.due_runs(connection, now)
        listings.count_first(connection, [Term("late")], now, 100)

    plans = explained(full, ask)
    assert plans
    found = {
        sql: [step for step in scans(full, plan) if "crontab" not in step] for sql, plan in plans.items()
    }
    assert not any(found.values()), found
