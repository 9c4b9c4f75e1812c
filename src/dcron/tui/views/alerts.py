"""The view of the open alerts: what is wrong now, by kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from dcron.policy.alert_facts import AlertFacts
from dcron.presentation import alerts as words
from dcron.presentation import blame, humanize
from dcron.services.dashboard import Dashboard
from dcron.tui.actions import alerts
from dcron.tui.table.cells import Cell, cell
from dcron.tui.table.columns import Column, name_column
from dcron.tui.table.lists import WholeListPane


class AlertsPane(WholeListPane):
    """Open alerts. They are closed when their causes are gone, and leave the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("A", "acknowledge", "acknowledge", id="alerts.acknowledge"),
        Binding("l", "log", "log", id="alerts.log"),
    ]
    title = "Alerts"
    read = staticmethod(Dashboard.alerts)
    id_of = attrgetter("alert.id")
    nothing = "nothing is wrong: there are no open alerts"
    sort_keys: ClassVar = {
        "kind": lambda row, _: (words.word(row.alert.kind), -row.alert.id),
        "since": lambda row, _: (-row.alert.opened_at.timestamp(), -row.alert.id),
        "name": lambda row, _: (words.name(row.alert), row.alert.id),
        "times": lambda row, _: (-row.alert.times, -row.alert.id),
    }
    orders = tuple(sort_keys)

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def columns(self) -> Sequence[Column]:
        """Return the columns. The subject and what is wrong with it are always shown."""
        return (
            self.sign_column(lambda row, now: "quiet" if _is_known(row, now) else "failed"),
            name_column("name", "what", lambda row, _: cell(words.name(row.alert), "name"), "name"),
            Column("kind", "is", 14, self._kind, most=28, order="kind"),
            Column("since", "since", 8, _since, right=True, rank=1, order="since"),
            Column("times", "times", 5, _times, right=True, rank=4, order="times", from_width=60),
            Column("known", "known to", 9, _known, rank=3, most=20, from_width=70),
            Column("cause", "cause", 16, _cause, rank=2, grows=True, from_width=56),
        )

    def is_trouble(self, row: AlertFacts, now: datetime) -> bool:
        """Return whether the alert is not acknowledged."""
        return not _is_known(row, now)

    def show_rows(self, rows: Mapping[Any, AlertFacts]) -> None:
        """Show these alerts, and how many there are of each kind."""
        self._counts = Counter(row.alert.kind for row in rows.values())
        super().show_rows(rows)

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

    def open_row(self, row: AlertFacts) -> None:
        """Show the task of the alert, or the nodes."""
        if row.alert.task_id is not None:
            self.host.open_task(row.alert.task_id, words.name(row.alert))
        elif row.alert.subject.startswith("node:"):
            self.host.show_view("nodes")


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
