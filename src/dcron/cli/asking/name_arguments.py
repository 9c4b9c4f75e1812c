"""Find the tasks that a verb changes or starts: by whole names, or by a prefix that the user confirms."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from dcron import services
from dcron.cli.output import console
from dcron.model import Task
from dcron.presentation import humanize
from dcron.services.name_prefix import NotExact

T = TypeVar("T")
SHOWN = 10
"""Names that a question or a message lists."""


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


def to_change(crontab: "services.crontab.Crontab", verb: str, typed: str, *, asks: bool = False) -> Task:
    """Return the task to change or start, as `agreed` finds it. Raises NotFound or Refused."""
    return agreed(crontab.get, verb, typed, asks=asks)


def all_to_change(
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
    found = (to_change(crontab, verb, name, asks=is_named_later) for name in typed)
    tasks = list({task.id: task for task in found}.values())
    if only and len(tasks) > 1:
        for task in tasks:
            if not only(task):
                console.note(f"{task.name} is {otherwise}")
        tasks = list(filter(only, tasks))
    if tasks and not asks:
        require_consent(verb, tasks, asks=False)
    return tasks


def require_consent(verb: str, tasks: Sequence[Task], *, asks: bool = True) -> None:
    """Ask whether to do something to these tasks. Raises Refused if the user does not agree."""
    console.agree(f"{verb} {named(tasks)}", count=len(tasks), asks=asks)


def named(tasks: Sequence[Task]) -> str:
    """Return the name of one task; the number of several with the first of their names."""
    if len(tasks) == 1:
        return tasks[0].name
    return f"{humanize.plural(len(tasks), 'task')}: {shortened([task.name for task in tasks])}"


def shortened(names: Sequence[str]) -> str:
    """Return the names as one text: the first SHOWN of them, and how many follow; all in a dry run."""
    shown = len(names) if console.consent.dry_run else SHOWN
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"
