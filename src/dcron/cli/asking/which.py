"""Find the tasks, runs and nodes that a verb means, and ask before it changes them.

A verb that reads takes a prefix. One that changes something takes whole names, or a prefix that the user
confirms. A pattern among the names, or labels (-l), choose tasks: then each is changed alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import typer

from dcron import policy, services
from dcron.cli.output import console
from dcron.errors import Conflict, DcronError, NotFound, Refused, UsageError
from dcron.model import Run, Task
from dcron.presentation import humanize
from dcron.services.name_prefix import NotExact

T = TypeVar("T")

MOST_RUNS = 10_000
"""Most runs that one command line changes by -l."""
SHOWN = 10
"""Names that a question or a message lists."""


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
    has_pattern = names and any(map(policy.selectors.is_pattern, names))
    return policy.selectors.NamedTasks((), tuple(names or ())) if has_pattern else None


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
    raise NotFound(f"no task has the labels {selector}; `dcron list` shows what there is")


def agreed(find: Callable[[str], T], verb: str, typed: str, *, asks: bool = False) -> T:
    """Return what `find` finds under the whole name that was typed.

    If the text is a prefix of only one name, ask on the terminal: `run deploy-prod? [y/N]`. A verb that
    `asks` names it in its own question, so this one is omitted. Raises NotExact without a terminal and if
    the user has agreed beforehand, and Refused if the answer is no.
    """
    try:
        return find(typed)
    except NotExact as prefix:
        given = console.consent.is_given(asks=True)
        if given or len(prefix.names) != 1 or not console.is_attended():
            raise
        (name,) = prefix.names
    if not asks:
        console.agree(f"{verb} {name}")
    return find(name)


def named_tasks(
    crontab: "services.crontab.Crontab",
    verb: str,
    typed: Sequence[str],
    *,
    only: Callable[[Task], bool] | None = None,
    otherwise: str = "",
    asks: bool = False,
) -> list[Task]:
    """Return these tasks, each once, after the user has agreed if the context is protected.

    Of several, those that are not among `only` are `otherwise` already: they are left out, with a note. A
    verb that `asks` asks about them itself. Raises what `agreed` does.
    """
    is_named_later = asks or console.consent.always_asks
    found = (agreed(crontab.get, verb, name, asks=is_named_later) for name in typed)
    tasks = list({task.id: task for task in found}.values())
    if only and len(tasks) > 1:
        for task in tasks:
            if not only(task):
                console.note(f"{task.name} is {otherwise}")
        tasks = list(filter(only, tasks))
    if tasks and not asks:
        require_consent(verb, tasks, asks=False)
    return tasks


@dataclass
class Chosen:
    """The tasks that the user has agreed to change, and why some of them were left alone."""

    tasks: Sequence[Task]
    is_list: bool
    """Whether JSON has an array of them, also of one."""
    selector: "policy.selectors.Selector | None" = None
    """What chose them: then each is changed alone. None for whole names: all are changed, or none."""
    found: Sequence[Task] = ()
    """All that the selector chose, also those that need no change."""
    left: Mapping[str, DcronError] = field(default_factory=dict)

    def change(
        self, crontab: "services.crontab.Crontab", changes: "Iterable[services.changes.changeset.Change]"
    ) -> list[Task]:
        """Make these changes. Return the tasks, and keep why others were left alone."""
        changeset = services.changes.changeset
        written = crontab.change(list(changes), changeset.ALONE if self.selector else changeset.TOGETHER)
        self.left = written.left
        return written.tasks

    def report_left(self, crontab: "services.crontab.Crontab") -> None:
        """Print which tasks were left alone, and why. Raises Exit with the code of the first such reason."""
        if self.selector and not isinstance(self.selector, policy.selectors.NamedTasks):
            known = {task.id for task in self.found}
            for task in crontab.selected(self.selector):
                if task.id not in known:
                    console.complain(f"{task.name} was left alone: it got these labels meanwhile")
        report_left(self.left)


def to_change(
    crontab: "services.crontab.Crontab",
    verb: str,
    names: Sequence[str] | None,
    selector: "policy.selectors.Selector | None",
    *,
    only: Callable[[Task], bool] | None = None,
    otherwise: str = "",
    asks: bool = False,
) -> Chosen:
    """Return the tasks to change, after the user has agreed to how many and which.

    Tasks that are not among `only` are `otherwise` already. One task that a selector chose needs no question
    unless the verb `asks` about one, too. Raises NotFound for no task, and Refused if the answer is no.
    """
    if selector is None:
        named_ones = named_tasks(crontab, verb, names or (), only=only, otherwise=otherwise, asks=asks)
        return Chosen(named_ones, is_list=len(names or ()) > 1)
    found = selected(crontab, selector)
    chosen = [task for task in found if only is None or only(task)]
    if not chosen:
        raise Refused(f"{named(found)}: {otherwise}")
    require_consent(verb, chosen, asks=asks or len(chosen) > 1)
    return Chosen(chosen, True, selector, found)


def require_consent(verb: str, tasks: Sequence[Task], *, asks: bool = True) -> None:
    """Ask whether to do something to these tasks. Raises Refused if the user does not agree."""
    console.agree(f"{verb} {named(tasks)}", count=len(tasks), asks=asks)


def agree_to_runs(
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


def each_run(found: Sequence[Run], act: Callable[[int], Run]) -> tuple[list[Run], dict[str, DcronError]]:
    """Act on each run, by its number. Return the runs afterwards, and why others were left alone."""
    done: list[Run] = []
    left: dict[str, DcronError] = {}
    for run in found:
        try:
            done.append(act(run.id))
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


def named(tasks: Sequence[Task]) -> str:
    """Return the name of one task; the number of several with the first of their names."""
    if len(tasks) == 1:
        return tasks[0].name
    return f"{humanize.plural(len(tasks), 'task')}: {shortened([task.name for task in tasks])}"


def named_runs(found: Sequence[Run]) -> str:
    """Return one run with its task; the number of several with the first of them."""
    each = [f"{run.id} of {run.task}" for run in found]
    if len(each) == 1:
        return f"run {each[0]}"
    return f"{humanize.plural(len(each), 'run')}: {shortened(each)}"


def shortened(names: Sequence[str]) -> str:
    """Return the names as one text: the first SHOWN of them, and how many follow; all in a dry run."""
    shown = len(names) if console.consent.dry_run else SHOWN
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"
