"""Prepare the crontab as text for an editor, and compare tasks before and after."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from difflib import unified_diff

from dcron.crontabfile.writing import HEADER, write
from dcron.model import Definition

MARK = "# !! "
"""Begins the lines that dcron puts on top of a text to say what is wrong with it."""
MARKS = re.compile(rf"\A(?:{MARK}[^\n]*+(?:\n|\Z))*")
MARKS_SHOWN = 20
MARK_LENGTH = 300
GREETING = """\
# Change the tasks, save, and leave the editor: you see what would change, and
# are asked, first. Change name= to rename a task, delete its lines to remove
# it, write new lines to add one. An empty text changes nothing. Comments that
# do not stand directly above a task are not kept.
"""
WITHOUT_ONE_OFFS = """\
# One-offs (`dcron at`, `dcron in`) are not here; `dcron edit NAME` shows them.
"""


def greet(definitions: Iterable[Definition], *, whole: bool) -> str:
    """Return the tasks as text, below a few lines that say what can be done."""
    greeting = GREETING + (WITHOUT_ONE_OFFS if whole else "")
    return greeting + write(definitions).removeprefix(HEADER)


def mark(text: str, mistakes: Sequence[tuple[int, str]]) -> tuple[str, int]:
    """Return the text below comments that say what is wrong, and the new number of the first bad line."""
    shown = mistakes[:MARKS_SHOWN]
    more = len(mistakes) - len(shown)
    height = len(shown) + (1 if more else 0) + 1
    marks = ["not right yet, and nothing is changed; leave the text as it is to give up"]
    marks += [f"line {line + height}: {_on_one_line(message)}" for line, message in shown]
    marks += [f"and {more:,} more"] if more else []
    return "".join(f"{MARK}{each}\n" for each in marks) + text, mistakes[0][0] + height


def unmark(text: str) -> str:
    """Return the text without the comments of `mark`."""
    return MARKS.sub("", text, count=1)


def difference(before: Definition | None, after: Definition | None) -> list[str]:
    """Return the lines of a task as a unified diff: each begins with a space, a minus or a plus."""
    lines = unified_diff(_lines(before), _lines(after), lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def pair_renamed(removed: Sequence[Definition], new: Sequence[Definition]) -> dict[str, str]:
    """Return old names by new names: of tasks that are otherwise the same, then of a single pair.

    The single pair has the same command.
    """
    pairs = _pair(removed, new, lambda task: write([replace(task, name="")]), alone=False)
    removed = [task for task in removed if task.name not in pairs.values()]
    new = [task for task in new if task.name not in pairs]
    return pairs | _pair(removed, new, lambda task: (task.command, str(task.argv)), alone=True)


def _on_one_line(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= MARK_LENGTH else message[:MARK_LENGTH] + "…"


def _lines(definition: Definition | None) -> list[str]:
    if definition is None:
        return []
    return [line for line in write([definition]).removeprefix(HEADER).split("\n") if line]


def _pair(
    removed: Sequence[Definition],
    new: Sequence[Definition],
    key: Callable[[Definition], Hashable],
    *,
    alone: bool,
) -> dict[str, str]:
    """Return old names by new names of tasks with the same key, in order.

    With `alone`, leave out keys that a third task has.
    """
    before, after = _grouped(removed, key), _grouped(new, key)
    both = [(after[each], before[each]) for each in after if each in before]
    return {
        new_name: name
        for new_names, names in both
        if not alone or len(new_names) == len(names) == 1
        for new_name, name in zip(new_names, names, strict=False)
    }


def _grouped(
    definitions: Sequence[Definition], key: Callable[[Definition], Hashable]
) -> dict[Hashable, list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for definition in definitions:
        groups.setdefault(key(definition), []).append(definition.name)
    return groups
