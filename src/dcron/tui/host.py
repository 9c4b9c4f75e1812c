"""What views, forms and dialogs may ask of the app, and how the database is asked for them."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, TypeVar, cast

from textual.dom import DOMNode
from textual.widget import Widget

from dcron.errors import DcronError
from dcron.model import Node
from dcron.tui.keys.input_queue import OrderedApp
from dcron.tui.look.settings import TuiSettings
from dcron.tui.look.state import TuiState
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.tui.reads.health import Health
from dcron.values.safe_text import safe_lines

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Counts, Dashboard
    from dcron.tui.reads.acts import Act, Outcome

T = TypeVar("T")
ERROR_SECONDS = 12.0
_OWN_ACTS = 100
"""Acts of this session that can be undone as such."""
EXPIRY = 10.0
"""Seconds after which a change that waits behind a hanging database is refused."""


class Host(OrderedApp[Exception]):
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
    writes: "DatabaseThread[Crontab]"
    """Makes changes."""
    counts: "Counts | None" = None
    """The numbers of the header; None before the first count."""
    as_of: datetime | None = None
    """The database's time at its last answer."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.own_batches: Sequence[str] = ()
        """The batches of the acts of this session, the last one last. A batch may have no changes."""
        self.fetching_since: float | None = None
        """Monotonic time since which keys wait for `fetch`."""
        self.writing = 0
        """Number of calls of `write` that keys wait for."""
        self._has_agreed = False
        """Whether the answer to `confirm` in a protected context is being acted on."""

    # Database ---------------------------------------------------------------------------------------

    def fetch(self, question: "Callable[[Dashboard], T]", receive: Callable[[T], object]) -> None:
        """Ask the database and go on with the answer; keys wait for it. An error is reported."""

        def received(answer: T) -> None:
            self.fetching_since = None
            receive(answer)

        def refused(error: DcronError) -> None:
            self.fetching_since = None
            self.forget_typed()  # the keys were for what does not open
            self.report_error(error)

        if not self.reports_lost():
            self.fetching_since = time.monotonic()
            self.reads.ask("fetch", question, received, refused, waits=False)

    def cancel_fetch(self) -> None:
        """Forget the question: its answer is not shown."""
        self.reads.forget("fetch")
        self.fetching_since = None

    def write(
        self,
        work: "Callable[[Crontab], T]",
        receive: Callable[[T], None],
        refuse: Callable[[DcronError], None],
    ) -> None:
        """Call a service and go on with the result or the error; keys wait for it."""
        self.writing += 1

        def received(answer: T) -> None:
            self.writing -= 1
            receive(answer)

        def refused(error: DcronError) -> None:
            self.writing -= 1
            refuse(error)

        self._change(work, received, refused)

    def act(self, acts: "Sequence[Act]") -> None:
        """Do these in the background and report the outcomes."""
        from dcron.tui.reads.acts import Outcome, perform

        def refused(error: DcronError) -> None:
            self.report_outcomes([Outcome(act, str(error), error) for act in acts])

        def do() -> None:
            self._change(
                lambda crontab: [perform(act, crontab) for act in acts], self.report_outcomes, refused
            )

        if not self.may_act(acts):
            return
        if any(act.needs_consent for act in acts):
            more = f", and {len(acts) - 1:,} more" if len(acts) > 1 else ""
            self.ask_if_protected(acts[0].title + more, do)
        else:
            do()

    def _change(
        self,
        work: "Callable[[Crontab], T]",
        receive: Callable[[T], None],
        refuse: Callable[[DcronError], None],
    ) -> None:
        def work_as_act(crontab: "Crontab") -> T:
            acting = crontab.acting("tui")
            self.own_batches = [*self.own_batches, acting.author.batch][-_OWN_ACTS:]
            return work(acting)

        self.writes.start()
        self.writes.ask(object(), work_as_act, receive, refuse, waits=False, seconds=EXPIRY)

    def may_act(self, things: Sequence[object]) -> bool:
        """Return whether there is something to act on and acting is allowed; report why not."""
        raise NotImplementedError

    def report_outcomes(self, outcomes: "Sequence[Outcome]") -> None:
        """Report what was done, with command lines, and what was not."""

    # Messages ---------------------------------------------------------------------------------------

    def report(self, text: str, *, error: bool = False) -> None:
        """Show a text for some seconds. It is made inert here."""
        self.notify(
            safe_lines(text),
            severity="error" if error else "information",
            timeout=ERROR_SECONDS if error else 5.0,
            markup=False,
        )

    def report_error(self, error: DcronError) -> None:
        """Show an error for some seconds."""
        self.report(str(error), error=True)

    def reports_lost(self) -> bool:
        """Return whether the database is lost, and report it once: nothing is kept for later."""
        if error := self.health.error:
            text = f"nothing was done: {error}"
            if not any(each.message == safe_lines(text) for each in self._notifications):
                self.report(text, error=True)
        return error is not None

    def copy(self, text: str) -> None:
        """Put a text, made inert, into the clipboard of the terminal."""
        self.copy_to_clipboard(safe_lines(text))
        self.report(f"copied {text}")

    # Dialogs ----------------------------------------------------------------------------------------

    def confirm(
        self,
        question: str,
        details: Sequence[str],
        go: Callable[[], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask a question whose default answer is No, and go on after Yes.

        In a protected context, its name must be typed.
        """
        from dcron.tui.questions.dialogs import Ask, Confirm

        lines = [*details, f"on {self.settings.address}"]
        if not self.settings.is_protected:
            self.push_screen(Confirm(f"{question}?", lines), lambda yes: go() if yes else leave())
            return
        name = self.settings.context

        def answered(text: str | None) -> None:
            self._has_agreed = text == name
            try:
                (go if self._has_agreed else leave)()
            finally:
                self._has_agreed = False

        asked = "\n".join([f"{question} in {name}?", *lines])
        self.push_screen(Ask(asked, hint=f"type {name} and Enter to do it", must_be=name), answered)

    def ask_if_protected(self, question: str, go: Callable[[], None]) -> None:
        """Go on, in a protected context only after its name was typed, for this or for `confirm`."""
        if self._has_agreed or not self.settings.is_protected:
            go()
        else:
            self.confirm(question, [], go)

    def ask_for(
        self,
        question: str,
        take: Callable[[str], None],
        *,
        hint: str = "",
        must_be: str | None = None,
        text: str = "",
    ) -> None:
        """Ask for a text, at first `text`, and go on with it. With `must_be`, Enter takes nothing else.

        In a protected context, its name must be typed after such a text.
        """
        from dcron.tui.questions.dialogs import Ask

        def answered(text: str | None) -> None:
            if text is None:
                return
            if must_be is None or not self.settings.is_protected:
                take(text)
            else:
                self.confirm(question.splitlines()[0].rstrip("?"), [], lambda: take(text))

        self.push_screen(Ask(question, text, hint=hint, must_be=must_be), answered)

    def choose(self, question: str, choices: Sequence[str], done: Callable[[str], None]) -> None:
        """Let one of a few words be chosen."""
        from dcron.tui.questions.dialogs import Choose

        self.push_screen(Choose(question, choices), lambda chosen: done(chosen) if chosen else None)

    # Views ------------------------------------------------------------------------------------------

    def open_log(self, run_id: int) -> None:
        """Show the output of a run."""

    def open_pane(self, pane: Widget) -> None:
        """Show a pane, inside the present view."""

    def open_task(self, task_id: int, name: str) -> None:
        """Show the page of a task, inside the present view."""

    def open_node(self, node: Node) -> None:
        """Show the page of a node, inside the present view."""

    def show_view(self, name: str, *, from_top: bool = False) -> None:
        """Show the view of this name; `from_top`, without what was opened inside it."""

    def subject(self, kind: str) -> str:
        """Return the `task`, `run` or `node` under the cursor; empty if there is none."""
        raise NotImplementedError

    def filter_rows(self, text: str) -> None:
        """Filter the present view. Raises UsageError."""

    def sort_orders(self) -> Sequence[str]:
        """Return the orders of the present view."""
        raise NotImplementedError

    def sort_rows(self, order: str) -> None:
        """Sort the present view by one of its orders."""

    def set_theme(self, name: str) -> None:
        """Use one of THEMES."""

    def refresh_rows(self) -> bool:
        """Read the visible rows again, unless a dialog is open; return False if no row is visible."""
        raise NotImplementedError

    def redraw_header(self) -> None:
        """Draw the header and the tabs again."""

    def redraw_tabs(self) -> None:
        """Draw the tabs again."""

    # Keys -------------------------------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        """Whether a key was pressed within the last second; rows should keep their order then."""
        raise NotImplementedError

    def start_command(self, text: str) -> None:
        """Open the prompt with a command to complete."""

    def action_refresh_now(self) -> None:
        """Check the database for changes now."""

    def action_help(self) -> None:
        """Show the keys."""


class Hosted(DOMNode):
    """A part of the screen that asks the app."""

    @property
    def host(self) -> Host:
        """The app."""
        return cast("Host", self.app)
