"""Divide many changes of tasks into transactions, so that agents and others can write between them. Pure."""

from collections.abc import Callable, Sequence
from time import sleep
from typing import TypeVar

from dcron.errors import ScheduleError
from dcron.model import Definition
from dcron.policy.starting import occurrences
from dcron.policy.starting.dependencies import groups_in_order

MOST_AT_ONCE = 500
"""Changes in one transaction. Each locks a SQLite file for about 8 ms."""
PAGE = 100
"""Changes in one transaction, where they are too many for one."""
REST = 0.25
"""Seconds between two such transactions."""

T = TypeVar("T")
Before = Definition | None
After = Definition | None


def rest() -> None:
    """Wait between two such transactions, so that agents and others write."""
    sleep(REST)


def in_transactions(writes: Sequence[T], states: Callable[[T], tuple[Before, After]]) -> list[list[T]]:
    """Return what to write in transactions: one, or several if there are more writes than MOST_AT_ONCE.

    `states` returns a task before and after a write. A task comes after those that it waits for. Tasks that
    need each other are in one transaction: a renamed task, and the tasks that wait for it.
    """
    if len(writes) <= MOST_AT_ONCE:
        return [list(writes)] if writes else []
    pages: list[list[T]] = [[]]
    for group in groups_in_order(_needs([states(each) for each in writes])):
        if len(pages[-1]) >= PAGE:
            pages.append([])
        pages[-1] += (writes[int(number)] for number in group)
    return pages


def upstream_of(task: Definition | None) -> Sequence[str]:
    """Return the tasks that this one waits for."""
    if task is None:
        return ()
    try:
        return occurrences.schedule_of(task).after
    except ScheduleError:  # a task of the crontab whose schedule was written with plain SQL
        return ()


def _needs(writes: Sequence[tuple[Before, After]]) -> dict[str, set[str]]:
    """Return, by number, the writes that each of these needs to be done before or together with it."""
    giving = {after.name: str(number) for number, (_, after) in enumerate(writes) if after}
    taking = {
        before.name: str(number)
        for number, (before, after) in enumerate(writes)
        if before and (after is None or after.name != before.name or after.every_node)
    }
    needs: dict[str, set[str]] = {str(number): set() for number in range(len(writes))}
    for number, (before, after) in enumerate(writes):
        needs[str(number)] |= {giving[name] for name in upstream_of(after) if name in giving}
        for name in upstream_of(before):
            if name in taking:
                needs[taking[name]].add(str(number))
    return needs
