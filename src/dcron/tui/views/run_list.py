"""The common part of the lists of runs: filter, pages and acts."""

from dcron.model import Run
from dcron.services.dashboard import RUN_TERMS
from dcron.tui.actions import runs
from dcron.tui.table.cells import run_status
from dcron.tui.table.columns import Column
from dcron.tui.table.lists import PagedPane


class RunListPane(PagedPane):
    """A list of runs, the newest first."""

    most = 100_000
    """Most runs in a list; a filter finds older ones."""
    fields = RUN_TERMS

    @property
    def hides_rows(self) -> bool:
        """Whether the list goes on: it is read page by page."""
        return True

    def run_sign(self) -> Column:
        """Return the column with the sign of the run's state."""
        return self.sign_column(lambda run, _: run_status(run).style)

    def subject_of(self, row: Run, kind: str) -> str:
        """Return the number of the run, its task, or the node that it ran on."""
        return {"run": str(row.id), "task": row.task, "node": row.node or ""}.get(kind, "")

    # Acts -------------------------------------------------------------------------------------------

    def open_row(self, row: Run) -> None:
        """Show the log of the run."""
        self.host.open_log(row.id)

    def action_log(self) -> None:
        if run := self.table.cursor_row:
            self.host.open_log(run.id)

    def action_retry(self) -> None:
        runs.retry(self.host, self.table.chosen_rows())

    def action_dismiss(self) -> None:
        runs.dismiss(self.host, self.table.chosen_rows())
