"""The app: it paints the screen first, then connects to the database."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.content import Content
from textual.filter import LineFilter, Monochrome, NoColor
from textual.scrollbar import ScrollBar
from textual.widget import Widget

from dcron.model import Node
from dcron.tui.frame.main_screen import MainScreen
from dcron.tui.frame.refresher import Refresher
from dcron.tui.host import Host
from dcron.tui.keys.input_queue import IMPATIENT
from dcron.tui.keys.keynames import key_name, key_of
from dcron.tui.look.ascii_filter import AsciiFilter, WholeCellScrollBar
from dcron.tui.look.colours import OWN_THEMES, theme_name
from dcron.tui.look.driver import Driver
from dcron.tui.look.settings import TuiSettings
from dcron.tui.look.state import TuiState
from dcron.tui.look.theme import CSS
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.tui.reads.health import Health
from dcron.tui.table.cells import ASCII_SIGNS, UNICODE_SIGNS
from dcron.tui.table.pane import Pane
from dcron.values.safe_text import safe

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    from dcron.services.crontab import Crontab
    from dcron.services.dashboard import Dashboard
    from dcron.tui.reads.acts import Outcome

TICK = 1.0
TYPING_SECONDS = 1.0
"""Seconds after a key in which the rows keep their order."""


def _palette() -> Any:
    from dcron.tui.frame.palette import Commands

    return Commands


class DcronApp(Host):
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
        self.state = TuiState.load(settings.state_file)
        self.signs = UNICODE_SIGNS if settings.unicode else ASCII_SIGNS
        self.health = Health()
        self.zone: tzinfo = datetime.now().astimezone().tzinfo or UTC
        self.new_task_zone = "UTC"
        self.reads: DatabaseThread[Dashboard] = DatabaseThread(
            "reads",
            lambda: self._open(find_zone),
            self.call_later,
            health=self.health,
            health_changed=self._health_changed,
            crashed=self.exit,
        )
        self._connect = connect
        self._lock = Lock()
        self._shared: Crontab | None = None
        """The crontab for changes and logs. The reads have a connection of their own."""
        self.writes: DatabaseThread[Crontab] = DatabaseThread("writes", self._crontab, self.call_later)
        self._refresher = Refresher(self)
        self._key_at = 0.0
        self.main = MainScreen(self._start)
        self._ascii = AsciiFilter()
        self._no_color = NoColor()
        ScrollBar.renderer = WholeCellScrollBar
        self.animation_level = "none"
        self.set_class(self.no_color, "-grey")
        for theme in OWN_THEMES:
            self.register_theme(theme)
        self.set_theme(settings.theme)

    # Threads ----------------------------------------------------------------------------------------

    def _open(self, find_zone: Callable[[], tzinfo]) -> "Dashboard":
        """Load the modules that take long, then connect. Called in the thread of `reads`."""
        from dcron.services.dashboard import Dashboard
        from dcron.tui.look.settings import new_task_zone

        self.main.view.load()
        self.zone = find_zone()
        self.call_later(self._loaded)
        with self._lock:
            self._shared = None  # if this thread has to connect again, the others have to, too
        dashboard = Dashboard(self._connect())
        self.new_task_zone = new_task_zone(dashboard.crontab)
        return dashboard

    def _crontab(self) -> "Crontab":
        """Return the crontab for changes and logs. Called in the threads."""
        with self._lock:
            if self._shared is None:
                self._shared = self._connect()
            return self._shared

    def _start(self) -> None:
        self.reads.start()
        self._refresher.check()

    def _loaded(self) -> None:
        """Show the first view; the database may not have answered yet."""
        self.main.begin()
        self._refresher.count()

    def _health_changed(self) -> None:
        if self.health.lost_at is not None:
            self._refresher.forget_token()
        self.redraw_header()
        if self.main.page:
            self.main.page.tick()

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
        if self.screen_stack and self.main.is_current:  # there is no screen while the app ends
            self.main.redraw_bar()
            self._refresher.tick()
            if self.screen is self.main:  # behind a dialog only the header goes on
                if self.main.page:
                    self.main.page.tick()
                self.main.count_saved_filters()

    def refresh_rows(self) -> bool:
        if self.main.page and self.screen is self.main:
            self.main.page.refresh_data()
        return self.main.page is not None and self.main.is_current

    def redraw_header(self) -> None:
        if self.main.is_mounted:
            self.main.redraw_header()

    def redraw_tabs(self) -> None:
        self.main.redraw_tabs()

    # Acts -------------------------------------------------------------------------------------------

    def may_act(self, things: Sequence[object]) -> bool:
        if self.settings.readonly:
            self.report("read-only: dcron tui was started with --readonly", error=True)
            return False
        if not things:
            waits = getattr(getattr(self.main.pane, "table", None), "awaits_ids", False)
            self.report("the list is still being read; try again" if waits else "nothing is selected")
            return False
        return not self.reports_lost()

    def report_outcomes(self, outcomes: "Sequence[Outcome]") -> None:
        from dcron.tui.actions import outcomes as reports

        self._refresher.count_at_next_change()
        self._refresher.check_now()
        self.call_later(reports.report, self, outcomes, self.size.height)

    # Views ------------------------------------------------------------------------------------------

    def open_log(self, run_id: int) -> None:
        def show(crontab: "Crontab") -> None:
            from dcron.services.log import RunLog
            from dcron.tui.log.screen import LogScreen

            self.push_screen(LogScreen(RunLog(crontab), run_id, self.zone))

        self.fetch(lambda _: self._crontab(), show)

    def open_pane(self, pane: Widget) -> None:
        self.main.drill(cast("Pane", pane))

    def open_task(self, task_id: int, name: str) -> None:
        from dcron.tui.pages.task import TaskPage

        self.main.drill(TaskPage(task_id, name))

    def open_node(self, node: Node) -> None:
        from dcron.tui.pages.node import NodePage

        self.main.drill(NodePage(node))

    def show_view(self, name: str, *, from_top: bool = False) -> None:
        self.main.show_view(name, from_top=from_top)

    def subject(self, kind: str) -> str:
        panes = (self.main.pane, self.main.page)
        return next(filter(None, (pane.subject(kind) for pane in panes if pane)), "")

    def filter_rows(self, text: str) -> None:
        if self.main.pane:
            self.main.pane.set_filter(text)
            self.redraw_header()

    def sort_orders(self) -> Sequence[str]:
        return self.main.pane.orders if self.main.pane else ()

    def sort_rows(self, order: str) -> None:
        if self.main.pane:
            self.main.pane.sort_by(order)

    def set_theme(self, name: str) -> None:
        self.theme = theme_name(name, self.settings.colours)

    def action_leave_for_command(self) -> None:
        """Leave a text that is shown above the views, and open the prompt for a command."""
        if len(self.screen_stack) > 1 and self.screen is not self.main:
            self.screen.dismiss()
        if self.screen is self.main:
            self.start_command("")

    def start_command(self, text: str) -> None:
        self.main.action_command(text)

    # Keys -------------------------------------------------------------------------------------------

    @property
    def is_typing(self) -> bool:
        return time.monotonic() - self._key_at < TYPING_SECONDS

    async def on_event(self, event: events.Event) -> None:
        """Record the time of keys, and cancel what keys wait for at Esc."""
        if isinstance(event, events.AppBlur | events.AppFocus):
            return  # the focus stays where it is
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._key_at = time.monotonic()
            if event is self._current and self.fetching_since is not None and event.key == "escape":
                self.cancel_fetch()
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
        if (since := self.fetching_since) is not None:
            return not (time.monotonic() - since >= IMPATIENT and self.ends_waiting(event))
        if self.writing:
            return not self.ends_waiting(event)
        if CommandPalette.is_open(cast("App[object]", self)):
            return any(not each.is_finished for each in self.workers if each.node is self.screen)
        return super().holds(event)

    def was_dropped(self, dropped: Sequence[events.Event]) -> None:
        """Report dropped keys."""
        if any(isinstance(event, events.Key | events.Paste) for event in dropped):
            self.report("the typed keys were ignored: the database did not answer in time")

    def action_pause(self) -> None:
        self.health.paused = not self.health.paused
        self._refresher.check_now()
        self.redraw_header()

    def action_faster(self) -> None:
        self._refresher.change_interval(-1)
        self.redraw_header()

    def action_slower(self) -> None:
        self._refresher.change_interval(1)
        self.redraw_header()

    def action_refresh_now(self) -> None:
        self._refresher.check_now()

    def action_help_quit(self) -> None:
        """Report the key that quits: ctrl+c quits other programs."""
        self.report(f"{key_of(self, 'app.quit')} quits")

    def action_help(self) -> None:
        from dcron.tui.dialogs.modals import HelpDialog
        from dcron.tui.frame.help import help_content

        keys = help_content(cast("Any", self.screen), HelpDialog.room(self.size.width))
        self.push_screen(HelpDialog("keys", lambda: keys))

    def action_error(self) -> None:
        """Show the error of the database."""
        from dcron.tui.dialogs.modals import NoticeDialog

        self.push_screen(
            NoticeDialog(
                "the database", lambda: Content(safe(str(self.health.error or "the database answers")))
            )
        )

    def get_key_display(self, binding: Binding) -> str:
        """Return the name of the key."""
        return binding.key_display or key_name(binding.key)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what changes drawn lines: with ASCII glyphs, nothing else is drawn around texts.

        Textual chooses its filter for $NO_COLOR before there is a theme. Monochrome makes the terminal's own
        colours black.
        """
        filters = super().get_line_filters()
        if self.native_ansi_color:
            filters = [self._no_color if isinstance(each, Monochrome) else each for each in filters]
        return filters if self.settings.unicode else [*filters, self._ascii]

    def get_system_commands(self, screen: Any) -> Any:
        """Return none of Textual's own commands."""
        return ()
