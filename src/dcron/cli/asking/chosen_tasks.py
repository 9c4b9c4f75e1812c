"""Find the tasks that a selector (-l) chooses, ask before a change, and report which were left alone."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from dcron import policy, services
from dcron.cli.asking.name_arguments import named, require_consent, shortened
from dcron.cli.output import console
from dcron.errors import Conflict, DcronError, NotFound, Refused, UsageError
from dcron.model import Run, Task
from dcron.presentation import humanize

MOST_RUNS = 10_000
"""Most runs that one command line changes by -l."""


def read_selector(text: str | None, names: Any = None) -> "policy.selectors.Selector | None":
    """Return the selector that was typed, if any. Raises UsageError for a bad one, and beside names."""
    if text is None:
        return None
    if names:
        raise UsageError("give names or -l, not both: -l alone chooses tasks by their labels")
    try:
        return policy.selectors.Selector.parse(text)
    except UsageError as error:
        raise UsageError(f"-l: {error}") from None


def names_or_selector(names: Sequence[str] | None, text: str | None) -> "policy.selectors.Selector | None":
    """Return the selector of a verb that changes tasks; None where names are given. Raises UsageError."""
    if not names and text is None:
        raise UsageError("give the names of tasks, or -l with their labels: -l team=shop")
    return read_selector(text, names) or patterns_in(names)


def patterns_in(names: Sequence[str] | None) -> "policy.selectors.Selector | None":
    """Return what the names choose if a pattern is among them: it chooses tasks as -l does."""
    return (
        policy.selectors.NamedTasks((), tuple(names))
        if names and any(map(policy.selectors.is_pattern, names))
        else None
    )


def with_patterns(crontab: "services.crontab.Crontab", names: Sequence[str]) -> list[str]:
    """Return the names, with those of the tasks that a pattern fits in its place. Raises NotFound."""
    found: list[str] = []
    for name in names:
        fitting = crontab.selected(crontab.named([name])) if policy.selectors.is_pattern(name) else ()
        found += [task.name for task in fitting] or [name]
    return found


def tasks_to_read(
    crontab: "services.crontab.Crontab", names: Sequence[str] | None, text: str | None
) -> "tuple[str | None, policy.selectors.Selector | None]":
    """Return the one name that was typed, or what several names, a pattern or -l choose.

    Raises NotFound or UsageError.
    """
    chooser = read_selector(text, names)
    if chooser or not names:
        return None, chooser
    if len(names) == 1 and not policy.selectors.is_pattern(names[0]):
        return names[0], None
    return None, crontab.named(names)


def selected(crontab: "services.crontab.Crontab", selector: "policy.selectors.Selector") -> list[Task]:
    """Return the tasks that the selector chooses, by name. Raises NotFound if there are none."""
    if isinstance(selector, policy.selectors.NamedTasks):
        selector = crontab.named(selector.words, whole=True)
    if found := crontab.selected(selector):
        return found
    raise no_such_task(selector)


def no_such_task(selector: "policy.selectors.Selector") -> NotFound:
    """Return the error for a selector that chooses no task."""
    return NotFound(f"no task has the labels {selector}; `dcron list` shows what there is")


@dataclass(frozen=True)
class Choice:
    """The tasks that the user has agreed to change."""

    selector: "policy.selectors.Selector"
    found: Sequence[Task]
    """All that the selector chose."""
    tasks: Sequence[Task]
    """Those of them that are to be changed."""


def to_change(
    crontab: "services.crontab.Crontab",
    verb: str,
    selector: "policy.selectors.Selector | None",
    *,
    only: Callable[[Task], bool] | None = None,
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
        raise Refused(f"{named(found)}: {otherwise}")
    require_consent(verb, chosen, asks=asks or len(chosen) > 1)
    return Choice(selector, found, chosen)


def runs_to_change(
    crontab: "services.crontab.Crontab",
    verb: str,
    selector: "policy.selectors.Selector",
    found: Sequence[Run],
    none: str,
) -> None:
    """Ask whether to do something to these runs of the tasks that a selector chooses.

    Raises NotFound for no task, and Refused for no run or if the user does not agree.
    """
    tasks = selected(crontab, selector)
    if not found:
        raise Refused(f"{named(tasks)}: {none}")
    console.agree(f"{verb} {named_runs(found)}", count=len(found))


def named_runs(found: Sequence[Run]) -> str:
    """Return one run with its task; the number of several with the first of them."""
    each = [f"{run.id} of {run.task}" for run in found]
    if len(each) == 1:
        return f"run {each[0]}"
    return f"{humanize.plural(len(each), 'run')}: {shortened(each)}"


def each_run(found: Sequence[Run], act: Callable[[Run], Run]) -> tuple[list[Run], dict[str, DcronError]]:
    """Act on each run. Return the runs afterwards, and why others were left alone."""
    done: list[Run] = []
    left: dict[str, DcronError] = {}
    for run in found:
        try:
            done.append(act(run))
        except (Conflict, NotFound, Refused, UsageError) as error:
            left[f"run {run.id}"] = error
    return done, left


def report_left(left: Mapping[str, DcronError]) -> None:
    """Print what was left alone, with each reason once. Raises Exit with the code of the first reason."""
    by_reason = defaultdict[str, list[str]](list)
    for name, error in left.items():
        by_reason[str(error)].append(name)
    for reason, names in by_reason.items():
        console.complain(f"{shortened(names)} {'was' if len(names) == 1 else 'were'} left alone: {reason}")
    if left:
        raise typer.Exit(next(iter(left.values())).exit_code)


def report(
    crontab: "services.crontab.Crontab", choice: Choice, result: "services.changes.selected.BulkResult[Any]"
) -> None:
    """Print which tasks were left alone, and why. Raises Exit with the code of the first such reason."""
    known = {task.id for task in choice.found}
    is_named = isinstance(choice.selector, policy.selectors.NamedTasks)
    for task in [] if is_named else crontab.selected(choice.selector):
        if task.id not in known:
            console.complain(f"{task.name} was left alone: it got these labels meanwhile")
    report_left(result.left)
