"""What views, forms and dialogs may ask of the app. Only `app` knows how it is done."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from textual.screen import Screen
from textual.widget import Widget

from dcron.errors import DcronError
from dcron.model import Node
from dcron.tui.look.settings import TuiSettings
from dcron.tui.look.state import TuiState
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.tui.reads.health import Health

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Dashboard
    from dcron.tui.reads.acts import Act, Outcome

T = TypeVar("T")


class Host(Protocol):
    """The app, as its parts see it. Every method is called in the UI thread."""

    settings: TuiSettings
    health: Health
    zone: tzinfo
    """The zone of the times on the screen."""
    new_task_zone: str
    """The zone of a new task; empty where the form has to ask."""
    state: TuiState
    """What is remembered between sessions."""
    signs: Mapping[str, str]
    """The sign of each style of a cell."""
    reads: "DatabaseThread[Dashboard]"
    """Answers questions in the background. Keys do not wait for the answers."""

    # Database ---------------------------------------------------------------------------------------

    def fetch(self, question: "Callable[[Dashboard], T]", receive: Callable[[T], None]) -> None:
        """Ask the database and go on with the answer; keys wait for it. An error is reported."""

    def write(
        self,
        work: "Callable[[Crontab], T]",
        receive: Callable[[T], None],
        refuse: Callable[[DcronError], None],
    ) -> None:
        """Call a service and go on with the result or the error; keys wait for it."""

    def may_act(self, things: Sequence[object]) -> bool:
        """Return whether there is something to act on and acting is allowed; report why not."""

    @property
    def own_batches(self) -> Sequence[str]:
        """The batches of the acts of this session, the last one last."""

    def act(self, acts: "Sequence[Act]") -> None:
        """Do these in the background and report the outcomes."""

    def report_outcomes(self, outcomes: "Sequence[Outcome]") -> None:
        """Report what was done, with command lines, and what was not."""

    # Messages and dialogs ---------------------------------------------------------------------------

    def report(self, text: str, *, error: bool = False) -> None:
        """Show a text for some seconds. It is made inert here."""

    def report_error(self, error: DcronError) -> None:
        """Show an error for some seconds."""

    def copy(self, text: str) -> None:
        """Put a text, made inert, into the clipboard of the terminal."""

    def confirm(
        self,
        question: str,
        details: Sequence[str],
        go: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask a question whose default answer is No, and go on after Yes."""

    def ask_if_protected(self, question: str, go: Callable[[], None]) -> None:
        """Go on, in a protected context only after its name was typed, for this or for `confirm`."""

    def ask_for(
        self,
        question: str,
        take: Callable[[str], None],
        *,
        hint: str = "",
        must_be: str | None = None,
        text: str = "",
    ) -> None:
        """Ask for a text, at first `text`, and go on with it. With `must_be`, Enter takes nothing else."""

    def choose(self, question: str, choices: Sequence[str], done: Callable[[str], None]) -> None:
        """Let one of a few words be chosen."""

    def push_screen(self, screen: Screen[Any], callback: Callable[[Any], None] | None = None) -> Any:
        """Show a screen; `callback` gets its result."""

    def suspend(self) -> AbstractContextManager[None]:
        """Give the terminal to another program."""

    # Views ------------------------------------------------------------------------------------------

    def open_log(self, run_id: int) -> None:
        """Show the output of a run."""

    def open_runs(
        self,
        title: str,
        *,
        task_id: int | None = None,
        node_id: str | None = None,
        node_since: datetime | None = None,
    ) -> None:
        """Show the runs of a task or of a node, inside the present view."""

    def open_pane(self, pane: Widget) -> None:
        """Show a pane, inside the present view."""

    def open_history(self, name: str | None = None) -> None:
        """Show the changes of a task, or all changes, inside the present view."""

    def open_task(self, task_id: int, name: str) -> None:
        """Show the page of a task, inside the present view."""

    def open_node(self, node: Node) -> None:
        """Show the page of a node, inside the present view."""

    def show_view(self, name: str, *, from_top: bool = False) -> None:
        """Show the view of this name; `from_top`, without what was opened inside it."""

    def subject(self, kind: str) -> str:
        """Return the `task`, `run` or `node` under the cursor; empty if there is none."""

    def filter_rows(self, text: str) -> None:
        """Filter the present view. Raises UsageError."""

    def sort_orders(self) -> Sequence[str]:
        """Return the orders of the present view."""

    def sort_rows(self, order: str) -> None:
        """Sort the present view by one of its orders."""

    def set_theme(self, name: str) -> None:
        """Use one of THEMES."""

    def redraw_header(self) -> None:
        """Draw the header and the tabs again."""

    def redraw_tabs(self) -> None:
        """Draw the tabs again."""

    # Keys and the rest ------------------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        """Whether a key was pressed within the last second; rows should keep their order then."""

    def forget_typed(self) -> None:
        """Drop the keys that have not acted yet."""

    def start_command(self, text: str) -> None:
        """Open the prompt with a command to complete."""

    def action_refresh_now(self) -> None:
        """Check the database for changes now."""

    def action_help(self) -> None:
        """Show the keys."""

    def exit(self) -> None:
        """End the app."""
