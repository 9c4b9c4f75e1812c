"""The view of the open alerts: what is wrong now, by kind."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from dcron.policy.alert_facts import AlertFacts
from dcron.presentation import alerts as words
from dcron.presentation import blame, humanize
from dcron.tui.actions import alerts
from dcron.tui.table.cells import Cell, cell
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.pane import TablePane
from dcron.tui.table.table import RowTable
from dcron.values.lists import Term


class AlertsPane(TablePane):
    """Open alerts. They are closed when their causes are gone, and leave the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "acknowledge", "acknowledge", id="alerts.acknowledge"),
        Binding("l", "log", "log", id="alerts.log"),
    ]
    title = "Alerts"
    can_filter = False
    orders: ClassVar[Sequence[str]] = ("kind", "since", "name", "times")

    def __init__(self) -> None:
        super().__init__()
        self._found: Sequence[AlertFacts] = ()
        self._counts: Counter[str] = Counter()

    def columns(self) -> Sequence[Column]:
        """Return the columns. The subject and what is wrong with it are always shown."""
        return (
            Column("sign", "", 1, self._sign),
            name_column("name", "what", lambda row, _: cell(words.name(row.alert), "name"), "name"),
            Column("kind", "is", 14, self._kind, most=28, order="kind"),
            Column("since", "since", 8, _since, right=True, rank=1, order="since"),
            Column("times", "times", 5, _times, right=True, rank=4, order="times", from_width=60),
            Column("known", "known to", 9, _known, rank=3, most=20, from_width=70),
            Column("cause", "cause", 16, _cause, rank=2, grows=True, from_width=56),
        )

    def parse(self, text: str) -> Sequence[Term]:
        """Return no terms: alerts are not filtered."""
        return ()

    def refresh_data(self) -> None:
        """Read the open alerts."""
        self.ask("alerts", lambda board: board.alerts(), self._take)

    def reload(self) -> None:
        """Sort the alerts again."""
        self._show()

    def _take(self, found: Sequence[AlertFacts]) -> None:
        self._found = found
        self._show()

    def _show(self) -> None:
        now = self.host.health.now()
        shown = [row for row in self._found if not self.errors_only or not _is_known(row, now)]
        self._counts = Counter(row.alert.kind for row in shown)
        shown.sort(key=lambda row: _key(row, self.order), reverse=self.backwards)
        self.show_ids([row.alert.id for row in shown], "nothing is wrong: there are no open alerts")
        self.show_rows({row.alert.id: row for row in shown})

    @on(RowTable.Wanting)
    def _want(self, message: RowTable.Wanting) -> None:
        message.stop()

    def _sign(self, row: AlertFacts, now: datetime) -> Cell:
        style = "quiet" if _is_known(row, now) else "failed"
        return Cell(self.host.signs[style], style)

    def _kind(self, row: AlertFacts, now: datetime) -> Cell:
        """Return what is wrong, and how many alerts of this kind there are."""
        count = self._counts[row.alert.kind]
        text = words.word(row.alert.kind) + (f" ({count:,})" if count > 1 else "")
        return cell(text, "" if _is_known(row, now) else "failed")

    def subject_of(self, row: AlertFacts, kind: str) -> str:
        """Return the task of the alert, or its run."""
        if kind == "run":
            return str(row.run.id) if row.run else ""
        return (row.alert.task or "") if kind == "task" else ""

    # Acts -------------------------------------------------------------------------------------------

    def action_acknowledge(self) -> None:
        alerts.acknowledge(self.host, [row.alert for row in self.table.chosen_rows()])

    def action_log(self) -> None:
        row = self.table.cursor_row
        if row and row.run:
            self.host.open_log(row.run.id)
        elif row:
            self.host.report("this alert is about no run, or its run was pruned")

    @on(RowTable.Chosen)
    def _open(self, message: RowTable.Chosen) -> None:
        message.stop()
        row = self.table.cursor_row
        if row and row.alert.task_id is not None:
            self.host.open_task(row.alert.task_id, words.name(row.alert))
        elif row and row.alert.subject.startswith("node:"):
            self.host.show_view("nodes")


def _key(row: AlertFacts, order: str) -> tuple[object, ...]:
    alert = row.alert
    match order:
        case "since":
            return (-alert.opened_at.timestamp(), -alert.id)
        case "name":
            return (words.name(alert), alert.id)
        case "times":
            return (-alert.times, -alert.id)
    return (words.word(alert.kind), -alert.id)


def _is_known(row: AlertFacts, now: datetime) -> bool:
    return words.is_acknowledged(row.alert, now)


def _since(row: AlertFacts, now: datetime) -> Cell:
    return Cell(humanize.ago(row.alert.opened_at, now))


def _times(row: AlertFacts, now: datetime) -> Cell:
    return Cell(f"{row.alert.times:,}")


def _known(row: AlertFacts, now: datetime) -> Cell:
    return cell(row.alert.acknowledged_by if _is_known(row, now) else None, "quiet")


def _cause(row: AlertFacts, now: datetime) -> Cell:
    note = row.alert.acknowledged_note if _is_known(row, now) else None
    changed = known.sentence if (known := blame.of(row)) else None
    return cell("; ".join(filter(None, (note, words.cause(row, now), changed))))
