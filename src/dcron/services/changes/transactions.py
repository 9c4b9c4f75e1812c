"""Divide many changes of tasks into transactions, so that agents and others can write between them. Pure."""

from collections.abc import Sequence
from time import sleep

from dcron.errors import ScheduleError
from dcron.model import Definition
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import groups_in_order
from dcron.services.changes.changeset import Change

MOST_AT_ONCE = 500
"""Changes in one transaction. Each locks a SQLite file for about 8 ms."""
PAGE = 100
"""Changes in one transaction, where they are too many for one."""
REST = 0.25
"""Seconds between two such transactions."""

CHOSEN = 250
"""Changes in one transaction where each is made alone. There is no rest between two of these."""


def rest() -> None:
    """Wait between two such transactions, so that agents and others write."""
    sleep(REST)


def in_transactions(changes: Sequence[Change]) -> list[list[Change]]:
    """Return what to write in transactions: one, or several if there are more changes than MOST_AT_ONCE.

    A task comes after those that it waits for. Tasks that need each other are in one transaction: a renamed
    task, and the tasks that wait for it.
    """
    if len(changes) <= MOST_AT_ONCE:
        return [list(changes)] if changes else []
    pages: list[list[Change]] = [[]]
    for group in _in_order(changes):
        if len(pages[-1]) >= PAGE:
            pages.append([])
        pages[-1] += group
    return pages


def each_alone(changes: Sequence[Change]) -> list[list[Change]]:
    """Return pages of changes that stop no other one, in the same order."""
    ordered = [change for group in _in_order(changes) for change in group]
    return [ordered[start : start + CHOSEN] for start in range(0, len(ordered), CHOSEN)]


def upstream_of(task: Definition | None) -> Sequence[str]:
    """Return the tasks that this one waits for."""
    if task is None:
        return ()
    try:
        return occurrences.schedule_of(task).after
    except ScheduleError:  # a task of the crontab whose schedule was written with plain SQL
        return ()


def _in_order(changes: Sequence[Change]) -> list[list[Change]]:
    """Return groups of changes that need each other, each after those that have to be made before."""
    giving = {each.definition.name: str(number) for number, each in enumerate(changes) if each.definition}
    taking = {
        each.before.name: str(number) for number, each in enumerate(changes) if each.before and _takes(each)
    }
    needs: dict[str, set[str]] = {str(number): set() for number in range(len(changes))}
    for number, each in enumerate(changes):
        needs[str(number)] |= {giving[name] for name in upstream_of(each.definition) if name in giving}
        for name in upstream_of(each.before):
            if name in taking:
                needs[taking[name]].add(str(number))
    return [[changes[int(number)] for number in group] for group in groups_in_order(needs)]


def _takes(change: Change) -> bool:
    """Return whether no task can wait for the one of this name afterwards."""
    after = change.definition
    return after is None or change.before is None or after.name != change.before.name or after.every_node
