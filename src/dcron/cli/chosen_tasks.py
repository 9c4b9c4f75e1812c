"""Find the tasks that a selector (-l) chooses, ask before a change, and report which were left alone."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from dcron.cli import console
from dcron.errors import Conflict, DcronError, NotFound, Refused, UsageError

if TYPE_CHECKING:
    from dcron.model import Run, Task
    from dcron.policy.selectors import Selector
    from dcron.services.bulk import BulkResult
    from dcron.services.crontab import Crontab

MOST_RUNS = 10_000
"""Most runs that one command line changes by -l."""
SHOWN = 10
"""Names that a question or a message lists."""


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


def runs_or_selector(run_ids: Sequence[int] | None, text: str | None) -> "Selector | None":
    """Return the selector of a verb that changes runs; None where numbers are given. Raises UsageError."""
    if not run_ids and text is None:
        raise UsageError("give the numbers of runs, or -l with the labels of their tasks: -l team=shop")
    if run_ids and text is not None:
        raise UsageError("give numbers of runs or -l, not both")
    return read_selector(text)


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
        require_consent(verb, chosen, force=force)
    return Choice(selector, found, chosen)


def require_consent(verb: str, tasks: "Sequence[Task]", *, force: bool) -> None:
    """Ask whether to do something to these tasks. Raises Refused if the user does not agree."""
    console.require_consent(f"{verb} {_tasks(tasks)}", force=force, count=len(tasks))


def runs_to_change(
    crontab: "Crontab", verb: str, selector: "Selector", found: "Sequence[Run]", none: str, *, force: bool
) -> None:
    """Ask whether to do something to these runs of the tasks that a selector chooses.

    Raises NotFound for no task, and Refused for no run or if the user does not agree.
    """
    from dcron.presentation.humanize import plural

    tasks = selected(crontab, selector)
    if not found:
        raise Refused(f"{_tasks(tasks)}: {none}")
    shown = _shortened([f"{run.id} of {run.task}" for run in found])
    console.require_consent(f"{verb} {plural(len(found), 'run')}: {shown}", force=force, count=len(found))


def each_run(
    found: "Sequence[Run]", act: "Callable[[Run], Run]"
) -> "tuple[list[Run], dict[str, DcronError]]":
    """Act on each run. Return the runs afterwards, and why others were left alone."""
    done: list[Run] = []
    left: dict[str, DcronError] = {}
    for run in found:
        try:
            done.append(act(run))
        except (Conflict, NotFound, Refused, UsageError) as error:
            left[f"run {run.id}"] = error
    return done, left


def report_left(left: "Mapping[str, DcronError]") -> None:
    """Print what was left alone, with each reason once. Raises Exit with the code of the first reason."""
    by_reason = defaultdict[str, list[str]](list)
    for name, error in left.items():
        by_reason[str(error)].append(name)
    for reason, names in by_reason.items():
        console.complain(f"{_shortened(names)} {'was' if len(names) == 1 else 'were'} left alone: {reason}")
    if left:
        raise typer.Exit(next(iter(left.values())).exit_code)


def report(crontab: "Crontab", choice: Choice, result: "BulkResult[Any]") -> None:
    """Print which tasks were left alone, and why. Raises Exit with the code of the first such reason."""
    known = {task.id for task in choice.found}
    for task in crontab.selected(choice.selector):
        if task.id not in known:
            console.complain(f"{task.name} was left alone: it got these labels meanwhile")
    report_left(result.left)


def _tasks(found: "Sequence[Task]") -> str:
    from dcron.presentation.humanize import plural

    return f"{plural(len(found), 'task')}: {_shortened([task.name for task in found])}"


def _shortened(names: Sequence[str]) -> str:
    """Return the names as one text: the first SHOWN of them, and how many follow."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
