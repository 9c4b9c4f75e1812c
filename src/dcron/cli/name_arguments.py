"""Names given to verbs that change or start something: whole ones, or one that a person agrees to."""

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

    Where only one name begins so, a person on a terminal is asked about it: `run deploy-prod? [y/N]`. A verb
    that `asks` names it in a question of its own, so this one is left out. Raises NotExact without a terminal
    and with `force`, and Refused where the answer is no.
    """
    try:
        return find(typed)
    except NotExact as beginning:
        if force or len(beginning.names) != 1 or not console.is_attended():
            raise
        (name,) = beginning.names
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
    """Return these tasks, each once; all are looked up before anything is done. Raises what `agreed` does."""
    found = (to_change(crontab, verb, name, force=force, asks=asks) for name in typed)
    return list({task.id: task for task in found}.values())
