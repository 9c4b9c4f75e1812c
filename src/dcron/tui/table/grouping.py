"""Group tasks by the values of a label: a row that heads each group, which folds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dcron.presentation.humanize import plural
from dcron.services.dashboard import TaskGroup
from dcron.tui.table.cells import EMPTY, Cell, cell
from dcron.tui.table.columns import Column
from dcron.tui.table.table import HeadId


@dataclass(frozen=True)
class GroupHead:
    """The row above the tasks of a group."""

    title: str
    tasks: int
    failed: int
    is_folded: bool


class Grouping:
    """The label by whose values tasks are grouped, if any, and which groups are folded."""

    def __init__(self) -> None:
        self.key = ""
        """Empty: no groups."""
        self.heads: dict[HeadId, GroupHead] = {}
        self._groups: Sequence[TaskGroup] = ()
        self._folded: set[HeadId] = set()

    def by(self, key: str) -> None:
        """Group by another label, unfolded; without a key, group no more."""
        self.key, self._folded, self._groups, self.heads = key, set(), (), {}

    def arrange(self, groups: Sequence[TaskGroup]) -> list[Any]:
        """Return the ids of all rows: each group's head, then its tasks unless it is folded."""
        self._groups, self.heads = groups, {}
        ids: list[Any] = []
        for group in groups:
            head = HeadId(group.value)
            title = _title(self.key, group.value)
            is_folded = head in self._folded
            self.heads[head] = GroupHead(title, len(group.ids), group.failed, is_folded)
            ids += [head, *(() if is_folded else group.ids)]
        return ids

    def ids_of(self, head: HeadId) -> Sequence[int]:
        """Return the ids of the tasks of a group that match the filter."""
        return next((group.ids for group in self._groups if group.value == head.value), ())

    def fold(self, head: HeadId) -> list[Any]:
        """Fold or unfold a group, and return the ids of all rows."""
        self._folded ^= {head}
        return self.arrange(self._groups)

    def fold_all(self) -> list[Any]:
        """Fold all groups, or unfold all if they are folded; return the ids of all rows."""
        self._folded = set() if self._folded >= self.heads.keys() else set(self.heads)
        return self.arrange(self._groups)


def _title(key: str, value: str | None) -> str:
    return f"no {key}" if value is None else f"{key}={value}"


def with_heads(column: Column, *, unicode: Callable[[], bool]) -> Column:
    """Return the column with cells for the heads of groups, too."""

    def show(row: Any, now: datetime) -> Cell:
        if isinstance(row, GroupHead):
            return _head_cell(column.key, row, unicode=unicode())
        return column.show(row, now)

    return replace(column, show=show)


def _head_cell(key: str, head: GroupHead, *, unicode: bool) -> Cell:
    match key:
        case "sign":
            folded, unfolded = ("▸", "▾") if unicode else ("+", "-")
            return Cell(folded if head.is_folded else unfolded, "quiet")
        case "task":
            return cell(f"{head.title}: {plural(head.tasks, 'task')}", "name")
        case "state":
            return cell(f"{head.failed:,} failed", "failed") if head.failed else EMPTY
    return EMPTY
