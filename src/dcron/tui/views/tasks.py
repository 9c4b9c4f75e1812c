"""The view of the tasks: state, next run and last runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from dcron.model import Task
from dcron.presentation import statistics
from dcron.services.dashboard import ORDERS, TASK_TERMS, Dashboard, TaskDetail, TaskRows
from dcron.services.tasks.rows import TaskRow
from dcron.tui.actions import runs, tasks
from dcron.tui.actions.why import explain
from dcron.tui.history import undoing
from dcron.tui.history.pane import HistoryPane
from dcron.tui.keys.keynames import with_keys
from dcron.tui.reads.database_thread import timed
from dcron.tui.table.cells import (
    EMPTY,
    Cell,
    cell,
    last_cell,
    next_cell,
    owner_cell,
    spark,
    task_status,
)
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.detail_panel import DetailPanel
from dcron.tui.table.filter_counts import MOST_COUNTED, FilterCount
from dcron.tui.table.grouping import GroupHead, Grouping, with_heads
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import HeadId
from dcron.tui.views.task_sections import brief_sections, in_tens

NOTHING = "no tasks yet: {tasks.new} adds one, `dcron import FILE` a crontab"
STATISTICS_FROM = 155
"""Width of the table from which it has the success rate and the 95th percentile of the last 30 days."""
NO_GROUPS = "no groups"
MOST_OF_GROUP = 1000
"""Most tasks of a group that one key acts on: each is a transaction."""
SETTLED, LONGEST_SETTLED = 5.0, 30.0
"""Least seconds between two readings of all ids if the order or the filter depends on runs."""
IDS_SHARE = 10
"""Ids that took one second are read again after this many seconds, up to LONGEST_SETTLED."""


class TasksPane(TablePane):
    """All tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="tasks.log"),
        Binding("n", "new", "new", id="tasks.new"),
        Binding("e", "edit", "edit", id="tasks.edit"),
        Binding("E", "edit_text", "edit as text", id="tasks.edit_text", show=False),
        Binding("r", "run", "run now", id="tasks.run"),
        Binding("R", "run_with", "run with a payload", id="tasks.run_with", show=False),
        Binding("s", "pause", "pause/resume", id="tasks.pause"),
        Binding("K", "cancel", "cancel its run", id="tasks.cancel", show=False),
        Binding("D", "delete", "delete", id="tasks.delete", show=False),
        Binding("h", "history", "history", id="tasks.history", show=False),
        Binding("u", "undo", "undo your last act", id="tasks.undo", show=False),
        Binding("w", "why", "why", id="tasks.why", show=False),
        Binding("p", "facts", "detail", id="tasks.detail", show=False),
        Binding("b", "group", "group", id="tasks.group", show=False),
        Binding("B", "fold_all", "fold all groups", id="tasks.fold_all", show=False),
    ]
    title = "Tasks"
    orders: ClassVar[Sequence[str]] = ORDERS
    fields = TASK_TERMS
    nothing: ClassVar[str] = NOTHING

    def __init__(self) -> None:
        super().__init__()
        self.facts = DetailPanel()
        self.grouping = Grouping()
        self._detail: TaskDetail | None = None
        """The task that `facts` shows."""
        self._token: object = None
        self._fresh: set[int] = set()
        """The rows that were read since the last change. Older ones are shown until they are read again."""
        self._asked_ids_at = 0.0
        self._ids_took = 0.0
        """Seconds that the last reading of all ids took."""

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.facts

    def columns(self) -> Sequence[Column]:
        """Return the columns. The name and the next run are always shown (docs/tui.md)."""
        columns = (
            self.sign_column(lambda row, now: task_status(row, now).style),
            name_column("task", "task", lambda row, _: cell(row.task.name, "name"), "name"),
            Column("state", "state", 9, lambda row, now: Cell(*task_status(row, now)), rank=5, order="state"),
            Column(
                "schedule",
                *("schedule", 13, lambda row, _: cell(row.task.schedule)),
                rank=3,
                most=40,
                fits=True,
                order="schedule",
                from_width=50,
            ),
            Column("owner", "owner", 9, lambda row, _: owner_cell(row), rank=4, most=14, from_width=56),
            Column("next", "next", 9, next_cell, order="next"),
            Column("last", "last", 14, last_cell, rank=1, most=20, fits=True, order="last", from_width=50),
            Column("recent", "10 runs", 10, self._spark, rank=2, from_width=62),
            Column("ok", "ok", 6, _success, right=True, rank=7, order="success", from_width=STATISTICS_FROM),
            Column("p95", "p95", 8, _p95, right=True, rank=8, order="p95", from_width=STATISTICS_FROM),
            Column(
                *("labels", "labels", 12, _labels),
                rank=9,
                most=30,
                fits=True,
                if_used=True,
                from_width=130,
            ),
            Column(
                *("command", "command", 20, lambda row, _: cell(row.task.command, "quiet")),
                rank=6,
                grows=True,
                from_width=110,
            ),
        )
        return [with_heads(column, unicode=lambda: self.host.settings.unicode) for column in columns]

    @property
    def hides_rows(self) -> bool:
        """Whether a group may be folded."""
        return bool(self.grouping.key)

    def counter(self, text: str) -> Callable[[Dashboard], FilterCount]:
        """Return the question how many tasks a filter finds."""
        terms = self.parse(text)
        return lambda board: FilterCount(board.count_tasks(terms, MOST_COUNTED))

    def _spark(self, row: TaskRow, now: datetime) -> Cell:
        return spark(row.recent, unicode=self.host.settings.unicode)

    # Data -------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the ids, then the rows in sight."""
        self._asked_ids_at = time.monotonic()
        self.ask("ids", timed(self.ids_question()), self._take_ids)

    def _take_ids(self, found: tuple[Sequence[Any], float]) -> None:
        ids, self._ids_took = found
        self.show_ids(ids, self.nothing)

    def _are_settled(self, times: int = 1) -> bool:
        """Return whether all ids may be read again."""
        pause = min(max(SETTLED, IDS_SHARE * self._ids_took), LONGEST_SETTLED)
        return time.monotonic() - self._asked_ids_at >= times * pause

    def ids_question(self) -> Callable[[Dashboard], Sequence[Any]]:
        """Return the question for the ids, or for the groups of ids."""
        terms, order, backwards = tuple(self.all_terms), self.order, self.backwards
        if key := self.grouping.key:
            return lambda board: board.task_groups(terms, order, key, reverse=backwards)
        return lambda board: board.task_ids(terms, order, reverse=backwards)

    def rows_question(self, ids: Sequence[int]) -> Callable[[Dashboard], TaskRows]:
        """Return the question for these rows."""
        return lambda board: board.task_rows(ids)

    def tick(self) -> None:
        """Draw what the time has changed. The rows of a filter change with the time, too."""
        super().tick()
        self._draw_facts()
        if self.all_terms and self._are_settled(2) and not self.host.is_typing:
            self.reload()

    def refresh_data(self) -> None:
        """Read the rows in sight, and all ids if they may have changed."""
        moved_by_runs = bool(self.all_terms or self.grouping.key) or self.order not in ("name", "schedule")
        if self._token is None or (moved_by_runs and self._are_settled() and not self.host.is_typing):
            self.reload()
        self._fresh.clear()
        self._ask_rows(self.table.visible_ids())

    def show_ids(self, ids: Sequence[Any], nothing: str) -> None:
        """Show these ids, or groups of ids, and read the rows in sight."""
        if self.grouping.key:
            ids = self.grouping.arrange(ids)
        super().show_ids(ids, nothing)
        self._fresh.clear()
        self._show_heads()
        self._ask_rows(self.table.visible_ids())

    def _show_heads(self) -> None:
        rows = {i: row for i, row in self.table.rows.items() if not isinstance(i, HeadId)}
        self.table.set_rows({**rows, **self.grouping.heads})

    def _ask_rows(self, ids: Sequence[Any]) -> None:
        ids = [each for each in ids if not isinstance(each, HeadId)]
        if ids:
            self.ask("rows", self.rows_question(ids), lambda found: self._take(ids, found))

    def _take(self, ids: Sequence[int], found: TaskRows) -> None:
        edited = self._token is not None and found.token != self._token
        self._token = found.token
        self._fresh.update(ids)
        table = self.table
        near = {*table.visible_ids(margin=2 * table.size.height), *table.marks, *table.hidden_marks}
        near = near.difference(ids)
        before, rows = self.table.cursor_row, self.table.rows
        fresh = {i: rows[i] if rows.get(i) == row else row for i, row in found.rows.items()}
        self.show_rows({i: row for i, row in rows.items() if i in near} | fresh | self.grouping.heads)
        if self.table.cursor_row != before:
            self.cursor_rests()
        if edited or len(found.rows) < len(ids):
            self.reload()

    def read_more(self) -> None:
        """Read the rows in sight or, if they are known, those one page further."""
        page = len(self.table.visible_ids())
        for needed, asked in ((0, page), (page, 2 * page)):
            if any(self._is_missing(each) for each in self.table.visible_ids(margin=needed)):
                near = self.table.visible_ids(margin=asked)
                self._ask_rows([each for each in near if self._is_missing(each)])
                return

    def _is_missing(self, row_id: Any) -> bool:
        return row_id not in self._fresh and not isinstance(row_id, HeadId)

    # Groups -----------------------------------------------------------------------------------------

    def action_group(self) -> None:
        self.ask("keys", lambda board: board.label_keys(), self._choose_group)

    def _choose_group(self, keys: Sequence[str]) -> None:
        if choices := [*keys, *([NO_GROUPS] if self.grouping.key else [])]:
            self.host.choose("group by", choices, self._group_by)
        else:
            self.host.report("no task has a label to group by")

    def _group_by(self, key: str) -> None:
        self.grouping.by("" if key == NO_GROUPS else key)
        self._show_heads()
        self._ask_for_others()

    def action_fold_all(self) -> None:
        if self.grouping.key and not self.table.awaits_ids:
            self._show_folded(self.grouping.fold_all())

    def _show_folded(self, ids: Sequence[Any]) -> None:
        self.table.set_ids(ids, hides_others=True)
        self._show_heads()
        self._ask_rows(self.table.visible_ids())

    # The detail panel -------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """Show the detail panel if there is room for it."""
        self.call_after_refresh(self.cursor_rests)

    def cursor_rests(self) -> None:
        """Read the details of the task if the panel is visible."""
        task_id = self._task_id
        if task_id is None:
            self._detail = None
            self.facts.show("", ())
        elif self.facts.display:
            self.ask("facts", lambda board: board.task_detail(task_id), self._show_facts)

    @property
    def _task_id(self) -> int | None:
        """The id of the task under the cursor; None without one, and on the head of a group."""
        task_id = self.table.cursor_id
        return None if isinstance(task_id, HeadId) else task_id

    def action_facts(self) -> None:
        self.screen.toggle_class("-hide-detail" if self.screen.has_class("-wide") else "-show-detail")
        self.call_after_refresh(self.cursor_rests)

    def _show_facts(self, detail: TaskDetail | None) -> None:
        if self._task_id is not None:
            self._detail = detail or self._detail
            self._draw_facts()

    def _draw_facts(self) -> None:
        detail, now = self._detail, self.host.health.now()
        if detail and self.facts.display:
            shown_at = now if detail.row.alive or detail.waiting else in_tens(now)
            self.facts.show(detail.row.task.name, brief_sections(detail, shown_at))
            if detail.coming and detail.coming[0].at <= now:
                self.cursor_rests()

    # Acts -------------------------------------------------------------------------------------------

    def subject_of(self, row: Any, kind: str) -> str:
        """Return the name of the task, or the number of its running or last run."""
        if not isinstance(row, TaskRow):
            return ""  # the head of a group
        if kind == "task":
            return row.task.name
        run = row.alive[-1] if row.alive else row.last_run
        return str(run.id) if kind == "run" and run else ""

    def copied(self) -> str | None:
        """Return the name of the task."""
        row = self._row
        return row.task.name if row else None

    @property
    def _row(self) -> TaskRow | None:
        """The task under the cursor, if there is one that was read."""
        row = self.table.cursor_row
        return row if isinstance(row, TaskRow) else None

    def open_row(self, row: TaskRow | GroupHead) -> None:
        """Show the page of the task, or fold or unfold the group."""
        if isinstance(row, TaskRow):
            self.host.open_task(row.task.id, row.task.name)
        else:
            self._show_folded(self.grouping.fold(self.table.cursor_id))

    def action_why(self) -> None:
        if not self._refuses_group() and (row := self._row):
            explain(self.host, row.task.name)

    def action_log(self) -> None:
        if self._refuses_group():
            return
        row = self._row
        run = row and (row.alive[-1] if row.alive else row.last_run)
        if run:
            self.host.open_log(run.id)
        elif row:
            self.host.report(f"{row.task.name} has not run yet")

    def action_history(self) -> None:
        if not self._refuses_group() and (task := self._at_cursor()):
            self.host.open_pane(HistoryPane(task.name))

    def action_undo(self) -> None:
        undoing.undo_own_act(self.host)

    def action_new(self) -> None:
        tasks.new(self.host)

    def action_edit(self) -> None:
        if not self._refuses_group():
            tasks.edit(self.host, self._at_cursor())

    def action_edit_text(self) -> None:
        self._act(lambda rows, _: tasks.edit_as_text(self.host, _tasks(rows)))

    def action_run_with(self) -> None:
        if not self._refuses_group():
            tasks.run_with_payload(self.host, self._at_cursor())

    def action_run(self) -> None:
        self._act(lambda rows, group: tasks.run_now(self.host, _tasks(rows), group))

    def action_pause(self) -> None:
        self._act(lambda rows, group: tasks.pause_or_resume(self.host, _tasks(rows), group))

    def action_delete(self) -> None:
        self._act(lambda rows, group: tasks.delete(self.host, _tasks(rows), group))

    def action_cancel(self) -> None:
        self._act(lambda rows, _: self._cancel_runs_of(rows))

    def _cancel_runs_of(self, rows: Sequence[TaskRow]) -> None:
        found = [run for row in rows for run in row.alive]
        if rows and not found:
            self.host.report("no run is under way")
        else:
            runs.cancel(self.host, found)

    def _at_cursor(self) -> Task | None:
        row = None if self.table.awaits_ids else self._row
        return row.task if row else None

    def _act(self, act: Callable[[Sequence[TaskRow], str], None]) -> None:
        """Act on the marked tasks, else on the one under the cursor, or on all of the group that it heads.

        `act` gets the tasks, and the name of their group if they are one.
        """
        head = self._head
        if head is None or self.table.marks:
            act([row for row in self.table.chosen_rows() if isinstance(row, TaskRow)], "")
            return
        ids, title = self.grouping.ids_of(head), self.grouping.heads[head].title
        if len(ids) > MOST_OF_GROUP:
            text = f"{title} has {len(ids):,} tasks; a key acts on {MOST_OF_GROUP:,} at most"
            self.host.report(with_keys(self.screen, f"{text}: {{main.filter}} shows fewer"))
        elif self.host.may_act(ids):
            self.host.fetch(
                self.rows_question(ids),
                lambda found: act([found.rows[each] for each in ids if each in found.rows], title),
            )

    @property
    def _head(self) -> HeadId | None:
        """The head of a group, if it is under the cursor."""
        row_id = None if self.table.awaits_ids else self.table.cursor_id
        return row_id if isinstance(row_id, HeadId) else None

    def _refuses_group(self) -> bool:
        """Report that a key is for one task if the cursor is on the head of a group."""
        if self._head:
            self.host.report("this is a group: put the cursor on one of its tasks")
        return self._head is not None


def _tasks(rows: Sequence[TaskRow]) -> Sequence[Task]:
    return [row.task for row in rows]


def _labels(row: TaskRow, _: datetime) -> Cell:
    labels = row.task.labels
    if not isinstance(labels, Mapping):  # text that cannot be read
        return EMPTY
    return cell(",".join(f"{key}={value}" for key, value in labels.items()), "quiet")


def _success(row: TaskRow, _: datetime) -> Cell:
    return cell(statistics.rate(row.statistics.success_rate))


def _p95(row: TaskRow, _: datetime) -> Cell:
    return cell(statistics.duration(row.statistics.p95))
