"""Which task of the crontab a line of an imported file is, by its name and by where both come from. Pure."""

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
    """A line of a file, and the task that it is."""

    named: str
    """Its name in the file."""
    line: Definition
    """As it is to be in the crontab, with its name there."""
    task: Task | None
    """The task that it is already; None for a new one."""
    other: Task | None = None
    """The task of another source that has the name; it is also `task` where both say the same."""


def match(
    lines: Sequence[Definition],
    own: Iterable[Task],
    others: Mapping[str, Task],
    names: Callable[[], Collection[str]],
    prefix: str = "",
) -> list[Match]:
    """Return what each line is, in order.

    `own` are the tasks of the file's source, `others` the tasks of other sources with names of the file;
    `names` gives all names of the crontab and is called only where a line needs another name. A task of
    another source that says the same is the line: it stays one task.
    """
    wanted = {line.name: prefix + line.name for line in lines}
    found = _own_tasks(lines, wanted, {task.name: task for task in own}, others)
    final = wanted | {name: task.name for name, task in found.items()}
    clashing = [line for line in lines if line.name not in found and wanted[line.name] in others]
    taken: set[str] = set()
    while different := [
        line for line in clashing if renamed(line, final) != others[wanted[line.name]].definition()
    ]:
        taken = taken or {*names(), *final.values()}
        for line in different:
            final[line.name] = free_name(wanted[line.name], taken)
            taken.add(final[line.name])
        # A line that comes after one of these says something else now.
        moved = {line.name for line in different}
        clashing = [line for line in clashing if line.name not in moved]
    known = found | {line.name: others[wanted[line.name]] for line in clashing}
    clashes = {
        line.name: others[wanted[line.name]]
        for line in lines
        if line.name not in found and wanted[line.name] in others
    }
    return [
        Match(line.name, renamed(line, final), known.get(line.name), clashes.get(line.name)) for line in lines
    ]


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name itself, or with the lowest number that makes it one of its own."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[:NUMBERED_NAME]}-{number}"
    return free


def renamed(line: Definition, names: Mapping[str, str]) -> Definition:
    """Return the line with its name in the crontab, coming after other lines by their names there."""

    def rename(after: re.Match[str]) -> str:
        return after["word"] + ",".join(names.get(name, name) for name in after["names"].split(","))

    return replace(line, name=names[line.name], schedule=_AFTER.sub(rename, line.schedule))


def _own_tasks(
    lines: Sequence[Definition],
    wanted: Mapping[str, str],
    own: Mapping[str, Task],
    others: Mapping[str, Task],
) -> dict[str, Task]:
    """By a line's name in the file, the task that it became at an earlier import.

    It has the same name; or a number behind it, where another source has the name; or it says the same under
    a name that it was given since.
    """
    found = {line.name: own[wanted[line.name]] for line in lines if wanted[line.name] in own}
    left = {name: task for name, task in own.items() if name not in wanted.values()}
    numbered = _by_number(left)
    for line in lines:
        full = wanted[line.name]
        candidates = numbered.get(full[:NUMBERED_NAME], [])
        if line.name not in found and full in others and candidates:
            found[line.name] = left.pop(candidates.pop(0))
    by_text: dict[tuple[str, ...], list[Task]] = defaultdict(list)
    for task in left.values():
        by_text[_text_of(task)].append(task)
    for line in lines:
        same = by_text.get(_text_of(line)) if line.name not in found else None
        if same and replace(same[0].definition(), name=line.name) == line:
            found[line.name] = same.pop(0)
    return found


def _by_number(names: Iterable[str]) -> dict[str, list[str]]:
    """Numbered names by what is before the number, the lowest first."""
    numbers: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in names:
        if numbered := _NUMBERED.fullmatch(name):
            numbers[numbered["name"]].append((int(numbered["number"]), name))
    return {base: [name for _, name in sorted(found)] for base, found in numbers.items()}


def _text_of(line: Definition) -> tuple[str, ...]:
    return line.schedule, line.user or "", line.command
