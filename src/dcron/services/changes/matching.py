"""Match the definitions of an imported file with the tasks of the crontab, by name and by source. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dcron.model import Definition, Task

NUMBERED_NAME = 92
"""Characters of a name that stay when a number is put behind it."""
_NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>\d{1,6})")
_AFTER = re.compile(r"(?P<word>@after\s+)(?P<names>[^\s|]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Match:
    """A definition of a file, and the task that it matches."""

    named: str
    """Its name in the file."""
    definition: Definition
    """Its definition with the name it gets in the crontab."""
    task: Task | None
    """The task that it already is; None for a new one."""
    other: Task | None = None
    """The task of another source that has the name; it is also `task` if its definition is the same."""


def match(
    definitions: Sequence[Definition],
    own: Iterable[Task],
    others: Mapping[str, Task],
    names: Callable[[], Collection[str]],
    prefix: str = "",
) -> list[Match]:
    """Return the match of each definition, in order.

    `own` are the tasks of the file's source, `others` the tasks of other sources with names of the file.
    `names` returns all names of the crontab; it is called only where a definition needs another name. A task
    of another source with the same definition is matched: one task serves both sources.
    """
    prefixed = {each.name: prefix + each.name for each in definitions}
    found = _own_tasks(definitions, prefixed, {task.name: task for task in own}, others)
    clashes = {
        each.name: others[prefixed[each.name]]
        for each in definitions
        if each.name not in found and prefixed[each.name] in others
    }
    final = prefixed | {name: task.name for name, task in found.items()}
    same = [each for each in definitions if each.name in clashes]
    taken: set[str] = set()
    while different := [each for each in same if renamed(each, final) != clashes[each.name].definition()]:
        taken = taken or {*names(), *final.values()}
        for each in different:
            final[each.name] = free_name(prefixed[each.name], taken)
            taken.add(final[each.name])
        # The definition of a task that depends on one of these has changed, too.
        moved = {each.name for each in different}
        same = [each for each in same if each.name not in moved]
    known = found | {each.name: clashes[each.name] for each in same}
    return [
        Match(each.name, renamed(each, final), known.get(each.name), clashes.get(each.name))
        for each in definitions
    ]


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, or if it is taken the name with the lowest free number from 2 on."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:NUMBERED_NAME]}-{number}"
    return free


def renamed(definition: Definition, names: Mapping[str, str]) -> Definition:
    """Return the definition with its own and its upstream names as they are in the crontab."""

    def rename(after: re.Match[str]) -> str:
        return after["word"] + ",".join(names.get(name, name) for name in after["names"].split(","))

    return replace(definition, name=names[definition.name], schedule=_AFTER.sub(rename, definition.schedule))


def _own_tasks(
    definitions: Sequence[Definition],
    prefixed: Mapping[str, str],
    own: Mapping[str, Task],
    others: Mapping[str, Task],
) -> dict[str, Task]:
    """Return, by the name in the file, the task that an earlier import made of the definition.

    It has the same name; or a number behind it, where another source has the name; or it has the same
    definition under another name, for it was renamed since.
    """
    found = {each.name: own[prefixed[each.name]] for each in definitions if prefixed[each.name] in own}
    left = {name: task for name, task in own.items() if name not in prefixed.values()}
    numbered = _by_number(left)
    for each in definitions:
        full = prefixed[each.name]
        candidates = numbered.get(full[:NUMBERED_NAME], [])
        if each.name not in found and full in others and candidates:
            found[each.name] = left.pop(candidates.pop(0))
    by_text: dict[tuple[str, ...], list[Task]] = defaultdict(list)
    for task in left.values():
        by_text[_text_of(task)].append(task)
    for each in definitions:
        same = by_text.get(_text_of(each)) if each.name not in found else None
        if same and replace(same[0].definition(), name=each.name) == each:
            found[each.name] = same.pop(0)
    return found


def _by_number(names: Iterable[str]) -> dict[str, list[str]]:
    """Return numbered names by the part before the number, the lowest number first."""
    numbers: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        if numbered := _NUMBERED.fullmatch(name):
            numbers[numbered["name"]].append((int(numbered["number"]), name))
    return {base: [name for _, name in sorted(found)] for base, found in numbers.items()}


def _text_of(definition: Definition) -> tuple[str, ...]:
    return definition.schedule, definition.user or "", definition.command
