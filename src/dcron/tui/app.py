"""The app: what is on the screen first, and the database after."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.content import Content
from textual.message import Message

from dcron.errors import Conflict, DcronError
from dcron.safetext import safe, safe_lines
from dcron.tui.acting import Act, Acted, Acting, Outcome
from dcron.tui.cells import ASCII_SIGNS, UNICODE_SIGNS
from dcron.tui.driver import Driver
from dcron.tui.health import Health
from dcron.tui.input_queue import IMPATIENT, OrderedApp
from dcron.tui.keynames import key_name, key_of
from dcron.tui.main_screen import MainScreen
from dcron.tui.reader import Answered, Changed, HealthChanged, Reader, Unusable
from dcron.tui.settings import TuiSettings
from dcron.tui.theme import CSS, THEMES

if TYPE_CHECKING:
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Activity, Counts, Dashboard

T = TypeVar("T")
TICK = 1.0
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
COUNTS_EVERY = 15.0
"""Seconds between two counts of the whole crontab at least; a slow one is counted more seldom still."""
COUNTS_OF_CLOCK = 45.0
"""Seconds more where nothing was written: what is late is so by the clock alone."""
COUNTS_SHARE = 100
TOASTS = 3
COMMANDS_SHARE = 4
"""Of the screen's lines, a toast takes one in so many for command lines."""
STILL = 1.0
"""Seconds after a key in which nobody's rows are sorted anew."""
ERROR_SECONDS = 12.0


def _palette() -> Any:
    from dcron.tui.palette import Commands

    return Commands


class Loaded(Message):
    """All that the views need is loaded."""


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
        """`connect` opens the crontab, for each thread anew; both are called in threads."""
        super().__init__(driver_class=Driver)
        self.settings = settings
        self.signs = UNICODE_SIGNS if settings.unicode else ASCII_SIGNS
        self.health = Health()
        self.zone = datetime.now().astimezone().tzinfo or UTC
        """Of the times on the screen."""
        self.new_task_zone = "UTC"
        """Of tasks that are made here."""
        self.reader = Reader(lambda: self._open(connect, find_zone), self._post, self.health)
        self.acting = Acting(self._shared_crontab, self._post)
        self.counts: Counts | None = None
        self.as_of: datetime | None = None
        """The database's time when it last answered."""
        self._counted_at = 0.0
        self._uncounted = False
        """Whether something was written since, too soon after the last count."""
        self._key_at = 0.0
        self._fetching_since: float | None = None
        """When something was asked that will open what is typed after it; a monotonic time."""
        self.errands = 0
        """How many calls of the service are under way whose outcome opens something, or closes it."""
        self._connect = connect
        self._connecting = threading.Lock()
        self._crontab: Crontab | None = None
        self.main = MainScreen()
        self.animation_level = "none"
        self.set_class(self.no_color, "-grey")
        self.theme = THEMES[settings.theme]

    # From the threads -------------------------------------------------------------------------------

    def _post(self, message: Message) -> None:
        """Tell the app; once it is gone there is nobody to tell."""
        try:
            self.post_message(message)
        except RuntimeError:  # its loop has ended
            return

    def _open(self, connect: "Callable[[], Crontab]", find_zone: Callable[[], tzinfo]) -> "Dashboard":
        """In the reader's thread: load what takes long, then connect."""
        from dcron.services.dashboard import Dashboard
        from dcron.tui.settings import new_task_zone

        self.main.view.load()
        self.zone = find_zone()
        self._post(Loaded())
        with self._connecting:
            self._crontab = None  # where the reader has to connect anew, so have the others
        crontab = connect()
        self.new_task_zone = new_task_zone(crontab)
        return Dashboard(crontab)

    def _shared_crontab(self) -> "Crontab":
        """For acts and logs, in their threads: the reader's change tokens need a connection of its own."""
        with self._connecting:
            if self._crontab is None:
                self._crontab = self._connect()
            return self._crontab

    def on_loaded(self, _: "Loaded") -> None:
        """The first view can be shown, though there is no database yet."""
        self.main.begin()
        self._count()

    def on_answered(self, message: Answered) -> None:
        """Hand the answer to who asked, unless something newer was asked meanwhile."""
        if self.reader.is_current(message.request):
            self.as_of = self.health.now()
            message.request.receive(message.answer)

    def on_changed(self, _: Changed) -> None:
        """Somebody has written: what is shown may be old."""
        if self.main.pane and self.screen is self.main:
            self.main.pane.refresh_data()
            self.reader.ask("pulse", lambda board: board.activity(), self._take_pulse)
            self._count()

    def on_health_changed(self, _: HealthChanged) -> None:
        """Show it at once."""
        self.redraw_chrome()
        if self.main.pane:
            self.main.pane.tick()

    def on_unusable(self, message: Unusable) -> None:
        """Say why on the terminal, where it can be read and copied."""
        self.exit(message.error)

    async def on_acted(self, message: Acted) -> None:
        """Tell how it went. Questions come first: a dialog that opens takes the toasts away."""
        self._counted_at = 0.0
        self.reader.look_now()
        done = [outcome for outcome in message.outcomes if outcome.error is None]
        failed = [outcome for outcome in message.outcomes if outcome.error]
        shown = failed[:TOASTS]
        for outcome in shown:
            if isinstance(outcome.error, Conflict) and outcome.act.afresh:
                await self._ask_again(outcome)
        for outcome in shown:
            if not isinstance(outcome.error, Conflict):
                self.tell(f"{outcome.act.what}: {outcome.told}", error=True)
        if len(failed) > TOASTS:
            self.tell(f"and {len(failed) - TOASTS:,} more were not done", error=True)
        if done:
            self.tell(self._told_of(done))

    def _told_of(self, done: Sequence[Outcome]) -> str:
        """What was done, and the command lines that do the same, as many as there is room for."""
        lines = [done[0].told + (f", and {len(done) - 1:,} more" if len(done) > 1 else "")]
        shown = done[: max(1, self.size.height // COMMANDS_SHARE)]
        lines += [outcome.act.command for outcome in shown]
        more = len(done) - len(shown)
        return "\n".join([*lines, f"... and {more:,} more"] if more else lines)

    async def _ask_again(self, outcome: Outcome) -> None:
        """Show who was first and what they changed; nothing is done unless that is asked for then."""
        from dcron.tui.forms.dialog_text import act_conflict, content
        from dcron.tui.modals import Conflicted

        act, theirs = outcome.act, outcome.theirs
        assert act.afresh
        changed = content(act_conflict(act.task, theirs, self.zone) if act.task and theirs else ())
        again = replace(act, do=act.afresh)
        await self.push_screen(
            Conflicted(outcome.told, changed, act.command), lambda yes: self.act([again]) if yes else None
        )

    # The screen -------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Chrome first, database after."""
        self.set_keymap(dict(self.settings.keys))
        self.push_screen(self.main)
        self.set_interval(TICK, self._tick)

    def on_unmount(self) -> None:
        """Ask nothing more."""
        self.reader.stop()

    def _tick(self) -> None:
        if self.screen is self.main:
            self.main.redraw_bar()
            if self.main.pane:
                self.main.pane.tick()
            if self._uncounted or self.health.now().timestamp() >= self._counted_at + COUNTS_OF_CLOCK:
                self._count()

    def redraw_chrome(self) -> None:
        """Bar and tabs tell something else."""
        if self.main.is_mounted:
            self.main.redraw_chrome()

    def counted(self) -> str:
        """`60 tasks  R9 x9 -8 !8`."""
        counts = self.counts
        if counts is None:
            return ""
        signs = self.signs
        told = f"{counts.tasks:,} tasks" if counts.tasks != 1 else "1 task"
        told += f"  {signs['running']}{counts.activity.running}"
        for look, number in (("failed", counts.failed), ("paused", counts.paused), ("late", counts.late)):
            told += f" {signs[look]}{number:,}" if number else ""
        return f"{told}  {counts.activity.idle}" if counts.activity.idle else told

    def _count(self) -> None:
        """Counting reads every line, so it is done seldom, and the more so the longer it takes."""
        now = self.health.now().timestamp()
        self._uncounted = now < self._counted_at
        if not self._uncounted:
            self._counted_at = now + COUNTS_EVERY
            self.reader.ask("counts", _timed_counts, self._take_counts)

    def _take_pulse(self, activity: "Activity") -> None:
        """What runs beside the rows that show it, and not as it was at the last count."""
        if self.counts and self.counts.activity != activity:
            self.counts = replace(self.counts, activity=activity)
            self.redraw_chrome()

    def _take_counts(self, found: "tuple[Counts, float]") -> None:
        self.counts, seconds = found
        self._counted_at = self.health.now().timestamp() + max(COUNTS_EVERY, COUNTS_SHARE * seconds)
        self.redraw_chrome()

    # For panes and commands -------------------------------------------------------------------------

    def fetch(self, question: "Callable[[Dashboard], T]", receive: Callable[[T], None]) -> None:
        """Ask the database something at once, and go on with the answer, or tell that there is none.

        What is typed meanwhile waits: it is meant for what the answer opens.
        """
        if self._tells_that_it_is_away():
            return
        self._fetching_since = time.monotonic()

        def received(answer: T) -> None:
            self._fetching_since = None
            receive(answer)

        def refused(error: DcronError) -> None:
            self._fetching_since = None
            self.forget_typed()  # it was for what does not open
            self.complain(error)

        self.reader.ask("fetch", question, received, refused, waits=False)

    def _tells_that_it_is_away(self) -> bool:
        """Whether the database is lost; then nothing is kept for later, and that is told."""
        if self.health.lost_at is not None:
            self.tell(f"nothing was done: {self.health.error}", error=True)
        return self.health.lost_at is not None

    def tell(self, text: str, *, error: bool = False) -> None:
        """A toast. The text is made inert here."""
        self.notify(
            safe_lines(text),
            severity="error" if error else "information",
            timeout=ERROR_SECONDS if error else 5.0,
            markup=False,
        )

    def complain(self, error: DcronError) -> None:
        """A toast of what went wrong."""
        self.tell(str(error), error=True)

    def may_act(self, things: Sequence[object]) -> bool:
        """Whether there is something to act upon, and nothing forbids it; says so if not."""
        if self.settings.readonly:
            self.tell("read-only: it was started with --readonly", error=True)
            return False
        if not things:
            waits = getattr(getattr(self.main.pane, "table", None), "awaits_ids", False)
            self.tell("the list is being read: once more, please" if waits else "nothing is chosen")
            return False
        return not self._tells_that_it_is_away()

    def act(self, acts: Sequence[Act]) -> None:
        """Do these in the acting thread."""
        if self.may_act(acts):
            self.acting.submit(acts)

    def confirm(self, question: str, details: Sequence[str], done: Callable[[bool | None], None]) -> None:
        """Ask a question that silence answers with No."""
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
        """Ask for a line of text; None after Esc."""
        from dcron.tui.modals import Ask

        self.push_screen(Ask(question, hint=hint, must_be=must_be), done)

    def choose(self, question: str, choices: Sequence[str], done: Callable[[str], None]) -> None:
        """Let one of a few words be chosen."""
        from dcron.tui.modals import Choose

        self.push_screen(Choose(question, choices), lambda chosen: done(chosen) if chosen else None)

    def open_log(self, run_id: int) -> None:
        """Show what a run printed."""

        def show(crontab: "Crontab") -> None:
            from dcron.tui.log.screen import LogScreen
            from dcron.tui.log.source import RunLog

            self.push_screen(LogScreen(RunLog(crontab), run_id, self.zone))

        self.fetch(lambda _: self._shared_crontab(), show)

    # Keys -------------------------------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        """Whether a key was pressed a moment ago: then no row should go elsewhere."""
        return time.monotonic() - self._key_at < STILL

    async def on_event(self, event: events.Event) -> None:
        """Note when a key comes, and what of it is not for the widgets."""
        if isinstance(event, events.AppBlur | events.AppFocus):
            return  # the focus stays where it is: what is typed blindly goes where it would have gone
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._key_at = time.monotonic()
            if event is self._current and self._fetching_since is not None and event.key == "escape":
                self.reader.forget("fetch")
                self._fetching_since = None
                return
        if isinstance(event, events.Paste) and CommandPalette.is_open(cast("App[object]", self)):
            event.text = safe(event.text)  # the palette's line is not one of ours
        await super().on_event(event)

    def holds(self, event: events.Event) -> bool:
        """Keys wait for what is being fetched, and in the palette for what is being found.

        Esc and the key that quits wait no longer than a moment.
        """
        if not isinstance(event, events.Key | events.Paste):
            return False
        if self._fetching_since is not None:
            waits_long = time.monotonic() - self._fetching_since >= IMPATIENT
            return not (waits_long and self.ends_waiting(event))
        if self.errands:
            return not self.ends_waiting(event)
        if CommandPalette.is_open(cast("App[object]", self)):
            return any(not each.is_finished for each in self.workers if each.node is self.screen)
        return super().holds(event)

    def was_dropped(self, dropped: Sequence[events.Event]) -> None:
        """Say so."""
        if any(isinstance(event, events.Key | events.Paste) for event in dropped):
            self.tell("what was typed was ignored: it was for what is not read yet")

    def action_help_quit(self) -> None:
        """ctrl+c quits other programs, so it says here what does."""
        self.tell(f"{key_of(self, 'app.quit')} quits")

    def action_help(self) -> None:
        from dcron.tui.keys import help_content
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
        self.reader.look_now()
        self.redraw_chrome()

    def action_faster(self) -> None:
        self._set_interval(-1)

    def action_slower(self) -> None:
        self._set_interval(1)

    def action_refresh_now(self) -> None:
        self.reader.look_now()

    def _set_interval(self, step: int) -> None:
        position = min(range(len(INTERVALS)), key=lambda i: abs(INTERVALS[i] - self.health.interval))
        self.health.interval = INTERVALS[max(0, min(len(INTERVALS) - 1, position + step))]
        self.reader.look_now()
        self.redraw_chrome()

    def get_key_display(self, binding: Binding) -> str:
        """Keys by their names."""
        return binding.key_display or key_name(binding.key)

    def get_system_commands(self, screen: Any) -> Any:
        """None of Textual's own: the commands are dcron's words."""
        return ()


def _timed_counts(board: "Dashboard") -> "tuple[Counts, float]":
    import time

    began = time.perf_counter()
    return board.counts(), time.perf_counter() - began
