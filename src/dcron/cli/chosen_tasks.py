"""Find the tasks that a selector (-l) chooses, ask before a change, and report which were left alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from dcron.cli import console
from dcron.errors import NotFound, Refused, UsageError

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.policy.selectors import Selector
    from dcron.services.bulk import BulkResult
    from dcron.services.crontab import Crontab

SHOWN = 10
"""Names that a question lists."""


def read_selector(text: str | None, names: Any = None) -> "Selector | None":
    """Return the selector that was typed, if any. Raises UsageError for a bad one, and beside names."""
    from dcron.policy.selectors import Selector

    if text is None:
        return None
    if names:
        raise UsageError("give names or -l, not both: -l alone chooses tasks by their labels")
    try:
        return Selector.parse(text)
    except UsageError as error:
        raise UsageError(f"-l: {error}") from None


def names_or_selector(names: Sequence[str] | None, text: str | None) -> "Selector | None":
    """Return the selector of a verb that changes tasks; None where names are given. Raises UsageError."""
    if not names and text is None:
        raise UsageError("give the names of tasks, or -l with their labels: -l team=shop")
    return read_selector(text, names)


def selected(crontab: "Crontab", selector: "Selector") -> "list[Task]":
    """Return the tasks that the selector chooses, by name. Raises NotFound if there are none."""
    if found := crontab.selected(selector):
        return found
    raise no_such_task(selector)


def no_such_task(selector: "Selector") -> NotFound:
    """Return the error for a selector that chooses no task."""
    return NotFound(f"no task has the labels {selector}; `dcron list` shows what there is")


@dataclass(frozen=True)
class Choice:
    """The tasks that the user has agreed to change."""

    selector: "Selector"
    found: "Sequence[Task]"
    """All that the selector chose."""
    tasks: "Sequence[Task]"
    """Those of them that are to be changed."""


def to_change(
    crontab: "Crontab",
    verb: str,
    selector: "Selector | None",
    *,
    force: bool,
    only: "Callable[[Task], bool] | None" = None,
    otherwise: str = "",
    asks: bool = False,
) -> Choice | None:
    """Return the tasks to change, after the user has agreed to how many and which; None without a selector.

    Tasks that are not among `only` are `otherwise` already. One task needs no question unless the verb
    `asks` about one, too. Raises NotFound for no task, and Refused if the user does not agree.
    """
    if selector is None:
        return None
    found = selected(crontab, selector)
    chosen = [task for task in found if only is None or only(task)]
    if not chosen:
        raise Refused(f"{_tasks(found)}: {otherwise}")
    if len(chosen) > 1 or asks:
        console.require_consent(f"{verb} {_tasks(chosen)}", force=force, count=len(chosen))
    return Choice(selector, found, chosen)


def report(crontab: "Crontab", choice: Choice, result: "BulkResult[Any]") -> None:
    """Print which tasks were left alone, and why. Raises Exit with the code of the first such reason."""
    for name, error in result.left.items():
        console.complain(f"{name} was left alone: {error}")
    known = {task.id for task in choice.found}
    for task in crontab.selected(choice.selector):
        if task.id not in known:
            console.complain(f"{task.name} was left alone: it got these labels meanwhile")
    if result.left:
        raise typer.Exit(next(iter(result.left.values())).exit_code)


def _tasks(found: "Sequence[Task]") -> str:
    from dcron.presentation.humanize import plural

    names = ", ".join(task.name for task in found[:SHOWN])
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return f"{plural(len(found), 'task')}: {names}{more}"
