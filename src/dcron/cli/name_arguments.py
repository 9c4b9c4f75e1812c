"""Find the tasks that a verb changes or starts: by whole names, or by a prefix that the user confirms."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from dcron.cli import console
from dcron.services.name_prefix import NotExact

if TYPE_CHECKING:
    from dcron.model import Task
    from dcron.services.crontab import Crontab

T = TypeVar("T")


def agreed(find: Callable[[str], T], verb: str, typed: str, *, force: bool = False, asks: bool = False) -> T:
    """Return what `find` finds under the whole name that was typed.

    If the text is a prefix of only one name, ask on the terminal: `run deploy-prod? [y/N]`. A verb that
    `asks` names it in its own question, so this one is omitted. Raises NotExact without a terminal and with
    `force`, and Refused if the answer is no.
    """
    try:
        return find(typed)
    except NotExact as prefix:
        if force or len(prefix.names) != 1 or not console.is_attended():
            raise
        (name,) = prefix.names
    if not asks:
        console.require_consent(f"{verb} {name}", force=False)
    return find(name)


def to_change(
    crontab: "Crontab", verb: str, typed: str, *, force: bool = False, asks: bool = False
) -> "Task":
    """Return the task to change or start, as `agreed` finds it. Raises NotFound or Refused."""
    return agreed(crontab.get, verb, typed, force=force, asks=asks)


def all_to_change(
    crontab: "Crontab", verb: str, typed: Sequence[str], *, force: bool = False, asks: bool = False
) -> "list[Task]":
    """Return these tasks, each once. Raises what `agreed` does."""
    found = (to_change(crontab, verb, name, force=force, asks=asks) for name in typed)
    return list({task.id: task for task in found}.values())
