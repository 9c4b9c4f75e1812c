"""The app: it paints the screen first, then connects to the database."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.content import Content
from textual.timer import Timer

from dcron.errors import Conflict, DcronError
from dcron.safetext import safe, safe_lines
from dcron.tui.cells import ASCII_SIGNS, UNICODE_SIGNS
from dcron.tui.database_thread import DatabaseThread
from dcron.tui.driver import Driver
from dcron.tui.header_footer import Status
from dcron.tui.health import Health
from dcron.tui.host import Host
from dcron.tui.input_queue import IMPATIENT, OrderedApp
from dcron.tui.keynames import key_name, key_of
from dcron.tui.main_screen import MainScreen
from dcron.tui.settings import TuiSettings
from dcron.tui.theme import CSS, THEMES

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Activity, Counts, Dashboard
    from dcron.tui.acts import Act, Outcome

T = TypeVar("T")
TICK = 1.0
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
COUNTS_EVERY = 15.0
"""Least seconds between two counts of the whole crontab; slow counts are rarer still."""
COUNTS_OF_CLOCK = 45.0
"""Seconds after which it is counted again without a change: tasks become late with the time."""
COUNTS_SHARE = 100
"""A count that took one second is repeated after this many seconds at the earliest."""
TOASTS = 3
COMMANDS_SHARE = 4
"""A toast shows at most one command line per this many lines of the screen."""
TYPING_SECONDS = 1.0
"""Seconds after a key in which the rows keep their order."""
ERROR_SECONDS = 12.0
EXPIRY = 10.0
"""Seconds after which a change that waits behind a hanging database is refused."""
_UNSEEN = object()
"""The change token before the first check."""


def _palette() -> Any:
    from dcron.tui.palette import Commands

    return Commands


class DcronApp(OrderedApp[Exception]):
    """`dcron tui`. Returns the error that ended it, or None."""

    CSS = CSS
    COMMANDS: ClassVar[set[Any]] = {_palette}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "app.help", "help", id="app.help"),
        Binding("ctrl+q", "quit", "quit", id="app.quit", show=False, priority=True),
    ]

    def __init__(
        self, settings: TuiSettings, connect: Callable[[], "Crontab"], find_zone: Callable[[], tzinfo]
    ) -> None:
        """`connect` opens the crontab; each thread has its own. Both functions are called in threads."""
        super().__init__(driver_class=Driver)
        self.settings = settings
        self.signs = UNICODE_SIGNS if settings.unicode else ASCII_SIGNS
        self.health = Health()
        self.zone: tzinfo = datetime.now().astimezone().tzinfo or UTC
        self.new_task_zone = "UTC"
        self.counts: Counts | None = None
        self.as_of: datetime | None = None
        """The database's time at its last answer."""
        self.reads: DatabaseThread[Dashboard] = DatabaseThread(
            "reads",
            lambda: self._open(connect, find_zone),
            self.call_later,
            health=self.health,
            health_changed=self._health_changed,
            crashed=self.exit,
        )
        self.writes: DatabaseThread[Crontab] = DatabaseThread("writes", self._shared_crontab, self.call_later)
        self._token: object = _UNSEEN
        self._next_check: Timer | None = None
        self._counted_at = 0.0
        self._is_uncounted = False
        """Whether there was a change too soon after the last count."""
        self._key_at = 0.0
        self._fetching_since: float | None = None
        """Monotonic time since which keys wait for `fetch`."""
        self._writing = 0
        """Number of calls of `write` that keys wait for."""
        self._connect = connect
        self._connecting = Lock()
        self._crontab: Crontab | None = None
        self.main = MainScreen(self._status, self._start)
        self.animation_level = "none"
        self.set_class(self.no_color, "-grey")
        self.theme = THEMES[settings.theme]

    # Threads ----------------------------------------------------------------------------------------

    def _open(self, connect: "Callable[[], Crontab]", find_zone: Callable[[], tzinfo]) -> "Dashboard":
        """Load the modules that take long, then connect. Called in the thread of `reads`."""
        from dcron.services.dashboard import Dashboard
        from dcron.tui.settings import new_task_zone

        self.main.view.load()
        self.zone = find_zone()
        self.call_later(self._loaded)
        with self._connecting:
            self._crontab = None  # if this thread has to connect again, the others have to, too
        crontab = connect()
        self.new_task_zone = new_task_zone(crontab)
        return Dashboard(crontab)

    def _shared_crontab(self) -> "Crontab":
        """Return the crontab for changes and logs. `reads` has its own connection, for change tokens."""
        with self._connecting:
            if self._crontab is None:
                self._crontab = self._connect()
            return self._crontab

    def _start(self) -> None:
        self.reads.start()
        self._check_for_changes()

    def _loaded(self) -> None:
        """Show the first view; the database may not have answered yet."""
        self.main.begin()
        self._count()

    def _health_changed(self) -> None:
        if self.health.lost_at is not None and self._token is not _UNSEEN:
            self._token = None  # the token of another connection means nothing
        self.redraw_header()
        if self.main.pane:
            self.main.pane.tick()

    # Changes in the database ------------------------------------------------------------------------

    def _check_for_changes(self) -> None:
        if self._next_check:
            self._next_check.stop()

        def read_token(board: "Dashboard") -> Any:
            found = board.poll()
            self.health.set_clock(found.now)
            return found.token

        self.reads.ask("changes", read_token, self._take_token)

    def _take_token(self, token: object) -> None:
        is_changed = self._token is not _UNSEEN and token != self._token
        self._token = token
        self.as_of = self.health.now()
        # The pause starts after the answer: a slow database is not asked more often than it answers.
        self._next_check = self.set_timer(self.health.interval, self._check_unless_paused)
        if is_changed and self.main.pane and self.screen is self.main:
            self.main.pane.refresh_data()
            self.reads.ask("activity", lambda board: board.activity(), self._take_activity)
            self._count()

    def _check_unless_paused(self) -> None:
        if not self.health.paused:
            self._check_for_changes()

    def _check_now(self) -> None:
        """Check for changes now, and treat all as changed."""
        if self._token is not _UNSEEN:
            self._token = None
        self.reads.retry_now()
        self._check_for_changes()

    def _count(self) -> None:
        """Count the whole crontab, unless it was counted a short time ago."""
        now = self.health.now().timestamp()
        self._is_uncounted = now < self._counted_at
        if not self._is_uncounted:
            self._counted_at = now + COUNTS_EVERY
            self.reads.ask("counts", _timed_counts, self._take_counts)

    def _take_activity(self, activity: "Activity") -> None:
        """Show the running runs as they are now, and not as of the last count."""
        if self.counts and self.counts.activity != activity:
            self.counts = replace(self.counts, activity=activity)
            self.redraw_header()

    def _take_counts(self, found: "tuple[Counts, float]") -> None:
        self.counts, seconds = found
        self._counted_at = self.health.now().timestamp() + max(COUNTS_EVERY, COUNTS_SHARE * seconds)
        self.redraw_header()

    # The screen -------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Paint the screen; the database comes after."""
        self.set_keymap(dict(self.settings.keys))
        self.push_screen(self.main)
        self.set_interval(TICK, self._tick)

    def on_unmount(self) -> None:
        """Ask nothing more."""
        self.reads.stop()
        self.writes.stop()

    def _tick(self) -> None:
        if self.screen is self.main:
            self.main.redraw_bar()
            if self.main.pane:
                self.main.pane.tick()
            if self._is_uncounted or self.health.now().timestamp() >= self._counted_at + COUNTS_OF_CLOCK:
                self._count()

    def redraw_header(self) -> None:
        """Draw the header and the tabs again."""
        if self.main.is_mounted:
            self.main.redraw_header()

    def redraw_tabs(self) -> None:
        """Draw the tabs again."""
        self.main.redraw_tabs()

    def _status(self) -> Status:
        return Status(self._counts_text(), self.as_of)

    def _counts_text(self) -> str:
        """Return `60 tasks  R9 x9 -8 !8`."""
        counts = self.counts
        if counts is None:
            return ""
        signs = self.signs
        text = f"{counts.tasks:,} tasks" if counts.tasks != 1 else "1 task"
        text += f"  {signs['running']}{counts.activity.running}"
        for style, number in (("failed", counts.failed), ("paused", counts.paused), ("late", counts.late)):
            text += f" {signs[style]}{number:,}" if number else ""
        return f"{text}  {counts.activity.idle}" if counts.activity.idle else text

    # The host of views, forms and dialogs -----------------------------------------------------------

    def fetch(self, question: "Callable[[Dashboard], T]", receive: Callable[[T], None]) -> None:
        """Ask the database and go on with the answer; keys wait for it. An error is reported."""
        if self._reports_lost():
            return
        self._fetching_since = time.monotonic()

        def received(answer: T) -> None:
            self._fetching_since = None
            receive(answer)

        def refused(error: DcronError) -> None:
            self._fetching_since = None
            self.forget_typed()  # the keys were for what does not open
            self.report_error(error)

        self.reads.ask("fetch", question, received, refused, waits=False)

    def write(
        self,
        work: "Callable[[Crontab], T]",
        receive: Callable[[T], None],
        refuse: Callable[[DcronError], None],
    ) -> None:
        """Call a service and go on with the result or the error; keys wait for it."""
        self._writing += 1

        def received(answer: T) -> None:
            self._writing -= 1
            receive(answer)

        def refused(error: DcronError) -> None:
            self._writing -= 1
            refuse(error)

        self.writes.start()
        self.writes.ask(object(), work, received, refused, waits=False, seconds=EXPIRY)

    def may_act(self, things: Sequence[object]) -> bool:
        """Return whether there is something to act on and acting is allowed; report why not."""
        if self.settings.readonly:
            self.report("read-only: dcron tui was started with --readonly", error=True)
            return False
        if not things:
            waits = getattr(getattr(self.main.pane, "table", None), "awaits_ids", False)
            self.report("the list is still being read; try again" if waits else "nothing is selected")
            return False
        return not self._reports_lost()

    def _reports_lost(self) -> bool:
        """Return whether the database is lost, and report it: nothing is kept for later."""
        if self.health.lost_at is not None:
            self.report(f"nothing was done: {self.health.error}", error=True)
        return self.health.lost_at is not None

    def act(self, acts: "Sequence[Act]") -> None:
        """Do these in the background and report the outcomes."""
        from dcron.tui.acts import Outcome, perform

        if not self.may_act(acts):
            return

        def refused(error: DcronError) -> None:
            self.report_outcomes([Outcome(act, str(error), error) for act in acts])

        self.writes.start()
        self.writes.ask(
            object(),
            lambda crontab: [perform(act, crontab) for act in acts],
            self.report_outcomes,
            refused,
            waits=False,
            seconds=EXPIRY,
        )

    def report_outcomes(self, outcomes: "Sequence[Outcome]") -> None:
        """Report what was done, with command lines, and what was not."""
        self._counted_at = 0.0
        self._check_now()
        self.call_later(self._report_outcomes, outcomes)

    async def _report_outcomes(self, outcomes: "Sequence[Outcome]") -> None:
        """Ask about conflicts first: a dialog removes the toasts when it opens."""
        done = [outcome for outcome in outcomes if outcome.error is None]
        failed = [outcome for outcome in outcomes if outcome.error]
        shown = failed[:TOASTS]
        for outcome in shown:
            if isinstance(outcome.error, Conflict) and outcome.act.again:
                await self._ask_again(outcome)
        for outcome in shown:
            if not isinstance(outcome.error, Conflict):
                self.report(f"{outcome.act.title}: {outcome.message}", error=True)
        if len(failed) > TOASTS:
            self.report(f"and {len(failed) - TOASTS:,} more were not done", error=True)
        if done:
            self.report(self._done_text(done))

    def _done_text(self, done: "Sequence[Outcome]") -> str:
        """Return what was done, and the command lines that do the same, as many as there is room for."""
        lines = [done[0].message + (f", and {len(done) - 1:,} more" if len(done) > 1 else "")]
        shown = done[: max(1, self.size.height // COMMANDS_SHARE)]
        lines += [outcome.act.command for outcome in shown]
        more = len(done) - len(shown)
        return "\n".join([*lines, f"... and {more:,} more"] if more else lines)

    async def _ask_again(self, outcome: "Outcome") -> None:
        """Show what another person changed first, and offer to do the act anyway."""
        from dcron.tui.forms.dialog_text import act_conflict, content
        from dcron.tui.modals import ConflictDialog

        act, theirs = outcome.act, outcome.theirs
        assert act.again
        changed = content(act_conflict(act.task, theirs, self.zone) if act.task and theirs else ())
        again = replace(act, do=act.again)
        await self.push_screen(
            ConflictDialog(outcome.message, changed, act.command),
            lambda yes: self.act([again]) if yes else None,
        )

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

    def confirm(self, question: str, details: Sequence[str], done: Callable[[bool | None], None]) -> None:
        """Ask a question whose default answer is No."""
        from dcron.tui.modals import Confirm

        self.push_screen(Confirm(f"{question}?", [*details, f"on {self.settings.address}"]), done)

    def ask_for(
        self,
        question: str,
        done: Callable[[str | None], None],
        *,
        hint: str = "",
        must_be: str | None = None,
    ) -> None:
        """Ask for a text; None after Esc. With `must_be`, Enter takes nothing else."""
        from dcron.tui.modals import Ask

        self.push_screen(Ask(question, hint=hint, must_be=must_be), done)

    def choose(self, question: str, choices: Sequence[str], done: Callable[[str], None]) -> None:
        """Let one of a few words be chosen."""
        from dcron.tui.modals import Choose

        self.push_screen(Choose(question, choices), lambda chosen: done(chosen) if chosen else None)

    def open_log(self, run_id: int) -> None:
        """Show the output of a run."""

        def show(crontab: "Crontab") -> None:
            from dcron.tui.log.screen import LogScreen
            from dcron.tui.log.source import RunLog

            self.push_screen(LogScreen(RunLog(crontab), run_id, self.zone))

        self.fetch(lambda _: self._shared_crontab(), show)

    def open_runs(
        self,
        title: str,
        *,
        task_id: int | None = None,
        node_id: str | None = None,
        node_since: datetime | None = None,
    ) -> None:
        """Show the runs of a task or of a node, inside the present view."""
        from dcron.tui.views.runs import RunsPane

        self.main.drill(RunsPane(task_id, node_id, node_since, title))

    def show_view(self, name: str) -> None:
        """Show the view of this name."""
        self.main.action_view(name)

    def filter_rows(self, text: str) -> None:
        """Filter the present view. Raises UsageError."""
        if self.main.pane:
            self.main.pane.set_filter(text)
            self.redraw_header()

    def sort_orders(self) -> Sequence[str]:
        """Return the orders of the present view."""
        return self.main.pane.orders if self.main.pane else ()

    def sort_rows(self, order: str) -> None:
        """Sort the present view by one of its orders."""
        if self.main.pane:
            self.main.pane.sort_by(order)

    def set_theme(self, name: str) -> None:
        """Use one of THEMES."""
        self.theme = THEMES[name]

    def start_command(self, text: str) -> None:
        """Open the prompt with a command to complete."""
        self.main.action_command(text)

    # Keys -------------------------------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        """Whether a key was pressed within the last second; rows should keep their order then."""
        return time.monotonic() - self._key_at < TYPING_SECONDS

    async def on_event(self, event: events.Event) -> None:
        """Record the time of keys, and cancel what keys wait for at Esc."""
        if isinstance(event, events.AppBlur | events.AppFocus):
            return  # the focus stays where it is
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._key_at = time.monotonic()
            if event is self._current and self._fetching_since is not None and event.key == "escape":
                self.reads.forget("fetch")
                self._fetching_since = None
                return
        if isinstance(event, events.Paste) and CommandPalette.is_open(cast("App[object]", self)):
            event.text = safe(event.text)  # the input of the palette is Textual's own
        await super().on_event(event)

    def holds(self, event: events.Event) -> bool:
        """Hold keys during `fetch` and `write`, and while the palette searches.

        Esc and keys that leave wait for a second at most.
        """
        if not isinstance(event, events.Key | events.Paste):
            return False
        if self._fetching_since is not None:
            waits_long = time.monotonic() - self._fetching_since >= IMPATIENT
            return not (waits_long and self.ends_waiting(event))
        if self._writing:
            return not self.ends_waiting(event)
        if CommandPalette.is_open(cast("App[object]", self)):
            return any(not each.is_finished for each in self.workers if each.node is self.screen)
        return super().holds(event)

    def was_dropped(self, dropped: Sequence[events.Event]) -> None:
        """Report dropped keys."""
        if any(isinstance(event, events.Key | events.Paste) for event in dropped):
            self.report("the typed keys were ignored: the database did not answer in time")

    def action_help_quit(self) -> None:
        """Report the key that quits: ctrl+c quits other programs."""
        self.report(f"{key_of(self, 'app.quit')} quits")

    def action_help(self) -> None:
        from dcron.tui.help import help_content
        from dcron.tui.modals import NoticeDialog

        keys = help_content(cast("Any", self.screen))
        self.push_screen(NoticeDialog("keys", lambda: keys))

    def action_error(self) -> None:
        from dcron.tui.modals import NoticeDialog

        self.push_screen(
            NoticeDialog(
                "the database", lambda: Content(safe(str(self.health.error or "the database answers")))
            )
        )

    def action_pause(self) -> None:
        self.health.paused = not self.health.paused
        self._check_now()
        self.redraw_header()

    def action_faster(self) -> None:
        self._set_interval(-1)

    def action_slower(self) -> None:
        self._set_interval(1)

    def action_refresh_now(self) -> None:
        self._check_now()

    def _set_interval(self, step: int) -> None:
        position = min(range(len(INTERVALS)), key=lambda i: abs(INTERVALS[i] - self.health.interval))
        self.health.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, position + step))]
        self._check_now()
        self.redraw_header()

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of the key."""
        return binding.key_display or key_name(binding.key)

    def get_system_commands(self, screen: Any) -> Any:
        """Return none of Textual's own commands."""
        return ()


def _timed_counts(board: "Dashboard") -> "tuple[Counts, float]":
    began = time.perf_counter()
    return board.counts(), time.perf_counter() - began


def _as_host(app: DcronApp) -> Host:
    """Let the type checker compare the app with the protocol."""
    return app
