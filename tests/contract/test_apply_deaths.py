"""`dcron apply` dies before any statement; applying again leads to the state of an undisturbed apply."""

import os
from contextlib import suppress

import pytest

from dcron.model import Definition
from dcron.policy.ownership import Permissions
from dcron.services.changes import transactions
from dcron.services.changes.applied import Apply, Request
from dcron.sources import Place, SourceTask
from dcron.store.planning import planning
from tests.contract.test_maintenance_deaths import Killed, killed_at
from tests.support.stage import Stage, definition

TASKS = int(os.environ.get("DCRON_TEST_TASKS", "15"))
"""Tasks of the source: a fifth of each is added, removed, renamed, changed, and waits for a renamed one."""
EVERY = int(os.environ.get("DCRON_TEST_EVERY_STATEMENT", "29"))
"""How many statements apart the deaths are."""
MOST = 1_000_000
REQUEST = Request("shop/cron", Permissions(prune=True), force=True)


def first(number: int) -> Definition | None:
    """Return a task of the source as it is applied first."""
    kinds = ("@daily", None, "@daily", "@daily", f"@after t{number - 1}")
    schedule = kinds[number % 5]
    return definition(f"t{number}", schedule) if schedule else None


def second(number: int) -> SourceTask | None:
    """Return the same as it is applied then."""
    place = Place("shop.cron", number + 1)
    match number % 5:
        case 0:
            return None
        case 3:
            return SourceTask(definition(f"new{number}", "@daily"), place, f"t{number}")
        case 4:
            return SourceTask(definition(f"t{number}", f"@after new{number - 1}"), place)
    return SourceTask(definition(f"t{number}", "@hourly"), place)


BEFORE = [SourceTask(each, Place("f", 1)) for number in range(TASKS) if (each := first(number))]
AFTER = [task for number in range(TASKS) if (task := second(number))]


def apply(stage: Stage, wanted: list[SourceTask]) -> None:
    service = Apply(stage.crontab.acting("apply"))
    service.apply(service.check(wanted, REQUEST))


def begin(stage: Stage) -> None:
    """Make the crontab before, the same each time."""
    for table in ("crontab", "subscriptions", "runs", "changes"):
        stage.sql(f"DELETE FROM {table}")
    stage.task("mine", "@daily")
    apply(stage, BEFORE)


def states(stage: Stage) -> dict[str, object]:
    """Return all tasks with their owners and their next runs, by name."""
    tasks = {task.id: task for task in stage.crontab.tasks()}
    with stage.database.read() as connection:
        coming = planning.next_occurrences(connection, list(tasks))
    return {
        task.name: (
            task.definition(),
            task.source,
            task.applied,
            task.planned_version == task.version,
            coming.get(task.id),
        )
        for task in tasks.values()
    }


def is_partial(stage: Stage) -> bool:
    """Return whether some of the changes are made, and others are not."""
    names = set(stage.crontab.names("", MOST))
    return "new3" in names and any(name.startswith("t") and int(name[1:]) % 5 == 0 for name in names)


@pytest.mark.slow
def test_the_next_apply_finishes_one_that_died(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    if TASKS < 500:
        monkeypatch.setattr(transactions, "MOST_AT_ONCE", 5)
        monkeypatch.setattr(transactions, "PAGE", 5)
    monkeypatch.setattr(transactions, "REST", 0)
    begin(stage)
    apply(stage, AFTER)
    expected = states(stage)
    partial = died = 0
    for number in range(1, MOST, EVERY):
        begin(stage)
        with suppress(Killed), killed_at(stage, number):
            apply(stage, AFTER)
            break
        died += 1
        partial += is_partial(stage)
        apply(stage, AFTER)
        assert states(stage) == expected, f"died at statement {number}"
    assert died > 3
    assert partial, "an apply that dies half-way has made some of its changes"
