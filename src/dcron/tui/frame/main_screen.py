"""The main screen: a stack of panes for each view, between the header and the hints."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from dcron.errors import DcronError, UsageError
from dcron.tui.dialogs.prompt import Prompt
from dcron.tui.frame.alert_line import AlertLine, FreezeLine
from dcron.tui.frame.header_footer import Bar, Hints, Location, Tabs
from dcron.tui.frame.saved_filters import MOST, FilterTabs, SavedFilters
from dcron.tui.frame.tabbed_page import TabbedPage
from dcron.tui.host import Hosted
from dcron.tui.keys.input_queue import Listener
from dcron.tui.keys.keynames import key_of, with_keys
from dcron.tui.look.backdrop import Backdrop, Body
from dcron.tui.reads.database_thread import timed
from dcron.tui.table.filter_counts import FilterCount, FilterCounts
from dcron.tui.table.pane import Pane
from dcron.tui.views import VIEWS, View
from dcron.values.safe_text import safe

if TYPE_CHECKING:  # loads SQLAlchemy, which comes after the first paint
    pass

FIRST_PAINT = 0.03
"""Seconds for the first paint; the imports for the database would delay it."""
WIDE = 110
"""Columns from which on the detail panel is shown."""
SHORT = 12
"""Lines below which the tabs and the hints are hidden."""

NO_FILTER = "there is no filter here; {prompt.leave} leaves"

_COUNTING = "saved filters"
"""The topic of the question how many rows a saved filter finds."""
_LEAVING = ("main.back", "main.quit", "app.quit")
"""The bindings that act before anything is loaded."""


class MainScreen(Screen[None], Backdrop, Hosted, Listener):
    """The views. A digit switches, Enter opens a row, Esc goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(view.digit, f"view('{view.name}')", view.title, id=f"view.{view.name}", show=False)
            for view in VIEWS
        ),
        Binding("escape", "back", "back", id="main.back", show=False),
        Binding("q", "back_or_quit", "back, or quit", id="main.quit", show=False),
        Binding("slash", "filter", "filter", id="main.filter", key_display="/"),
        Binding("slash", "no_filter", "no filter here", id="main.filter", key_display="/", show=False),
        Binding("f", "next_saved", "next saved filter", id="main.next_saved", show=False),
        Binding("F", "save_filter", "save the filter", id="main.save_filter", show=False),
        Binding("colon", "command", "command", id="main.command", key_display=":"),
        Binding("P", "app.pause", "pause refreshing", id="main.pause", show=False),
        Binding("plus", "app.faster", "refresh more often", id="main.faster", show=False, key_display="+"),
        Binding("minus", "app.slower", "refresh less often", id="main.slower", show=False, key_display="-"),
        Binding("ctrl+r", "app.refresh_now", "refresh now", id="main.refresh", show=False),
        Binding(
            "exclamation_mark", "app.error", "what is wrong", id="main.error", show=False, key_display="!"
        ),
    ]

    def __init__(self, start: Callable[[], None]) -> None:
        """`start` is called after the first paint."""
        super().__init__()
        self.view: View = VIEWS[0]
        self.prompt = Prompt()
        self._bar = Bar()
        self._alerts = AlertLine()
        self._freeze = FreezeLine()
        self._freeze.display = False
        self._tabs = Tabs(self.location)
        self._filter_tabs = FilterTabs(self._saved_filters)
        self._start = start
        self._filter_counts = FilterCounts()
        self._stacks: dict[str, list[Pane]] = {}

    @property
    def page(self) -> Pane | None:
        """What fills the screen: a pane, or a page whose tabs are panes; None before the first is opened."""
        stack = self._stacks.get(self.view.name)
        return stack[-1] if stack else None

    @property
    def pane(self) -> Pane | None:
        """The pane that has the keys: the page itself, or the tab in front of it."""
        return self.page.front if self.page else None

    @property
    def has_keys(self) -> bool:
        """Whether the prompt, if it is open, or else the pane has the focus."""
        owner = self.prompt if self.prompt.is_open else self.pane
        return self.focused is not None and owner in self.focused.ancestors

    def crumbs(self) -> list[str]:
        """Return the inert titles of the panes from the view to the visible pane."""
        return [safe(pane.title) for pane in self._stacks.get(self.view.name, [])]

    def location(self) -> Location:
        """Return what the tabs show."""
        pane = self.pane
        crumbs = " > ".join(self.crumbs()[1:])
        if pane is None:
            return Location(self.view.name, crumbs, "", errors_only=False, counted="")
        return Location(self.view.name, crumbs, safe(pane.filter_text), pane.errors_only, pane.counted())

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self._freeze
        yield self._alerts
        yield self._tabs
        yield self._filter_tabs
        yield Body(id="body")
        yield self.prompt
        yield Hints()

    def on_mount(self) -> None:
        """Start to load after the first paint."""
        self.bindings_updated_signal.subscribe(self, lambda _: self.query_one(Hints).refresh())
        self.set_timer(FIRST_PAINT, self._start)

    def begin(self) -> None:
        """Show the first view. Its modules are loaded, so this does not delay the screen."""
        if self.pane is None and self.query_one("#body").is_attached:  # not attached if the app has ended
            self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Hide what does not fit."""
        self.set_class(event.size.width >= WIDE, "-wide")
        if self.has_class("-wide"):
            self.remove_class("-show-detail")
        self.set_class(event.size.height < SHORT, "-short")

    def on_screen_resume(self) -> None:
        """Read the rows again after a dialog or a log."""
        if self.page:
            self.page.refresh_data()

    def redraw_bar(self) -> None:
        """Draw the header again."""
        self._bar.refresh()

    def redraw_tabs(self) -> None:
        """Draw the tabs again."""
        self._tabs.refresh()
        self._filter_tabs.update_tabs()

    def redraw_header(self) -> None:
        """Draw the header and the tabs again."""
        self.redraw_bar()
        self._freeze.update_freeze()
        self._alerts.update_alerts()
        self.redraw_tabs()

    # Panes ------------------------------------------------------------------------------------------

    def action_view(self, name: str) -> None:
        self.show_view(name)

    def show_view(self, name: str, *, from_top: bool = False) -> None:
        """Show the view of this name; `from_top`, without what was opened inside it."""
        view = next(view for view in VIEWS if view.name == name)
        if view is not self.view:
            self._leave()
            self.view = view
        self._show()
        while from_top and self._pop():
            pass

    def action_show_tasks(self, filter_text: str) -> None:
        """Show the tasks that match this filter."""
        self.show_view(VIEWS[0].name, from_top=True)
        if self.pane:
            self.pane.set_filter(filter_text)
        self.redraw_header()

    def drill(self, pane: Pane) -> None:
        """Show this pane; Esc goes back to the one before."""
        self._leave()
        self._stacks.setdefault(self.view.name, []).append(pane)
        self._show()

    def action_back(self) -> None:
        pane = self.pane
        if pane and pane.filter_text:
            pane.set_filter("")
        elif pane and pane.errors_only:
            pane.action_errors()
        else:
            self._pop()
        self.redraw_header()

    def action_back_or_quit(self) -> None:
        if not self._pop():
            self.app.exit()

    def _pop(self) -> bool:
        stack = self._stacks.get(self.view.name, [])
        if len(stack) < 2:
            return False
        stack.pop().remove()
        self._show()
        return True

    def _leave(self) -> None:
        """Hide the pane and drop the focus: the next keys are for the next pane."""
        if self.page:
            self.page.display = False
            self.set_focus(None)

    def _show(self) -> None:
        stack = self._stacks.setdefault(self.view.name, [])
        if not stack:
            stack.append(self.view.open())
        page = stack[-1]
        if page.is_attached:
            page.display = True
            page.refresh_data()
            self._focus(page.front)
        else:
            self.query_one("#body").mount(page)
            self.call_after_refresh(self._focus, page.front)
        self.redraw_header()

    def on_tabbed_page_switched(self, message: TabbedPage.Switched) -> None:
        """Focus the tab that is in front now."""
        message.stop()
        if self.pane:
            self._focus(self.pane)
        self.redraw_header()

    def action_tab(self, number: int) -> None:
        if isinstance(self.page, TabbedPage):
            self.page.show_tab(number)

    def _focus(self, pane: Pane) -> None:
        """Focus the pane, unless the prompt is open."""
        if self.prompt.is_open or pane is not self.pane:
            return
        for widget in pane.query("*"):
            if widget.focusable:
                self.set_focus(widget)  # at once: later it would take the focus from a dialog
                return

    # Filter and command -----------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the filter in panes without one; there its key says so."""
        if action in ("filter", "no_filter"):
            return self.pane is not None and bool(self.pane.fields) == (action == "filter")
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        pane = self.pane
        assert pane
        before = pane.filter_text

        def apply(text: str) -> None:
            """Apply the filter. If it is invalid, apply the one before."""
            try:
                if pane.filter_text != text:
                    pane.set_filter(text)
            except UsageError:
                if pane.filter_text != before:
                    pane.set_filter(before)
                raise

        def done(text: str | None) -> None:
            apply(before if text is None else text)
            self._close_prompt()

        self.prompt.open("/", before, typed=apply, done=done, complete=pane.complete_filter)

    def action_no_filter(self) -> None:
        """Take the letters that are typed for a filter: they must not act on what the page shows."""
        note = with_keys(self.prompt, NO_FILTER)

        def refuse(text: str) -> None:
            if text:
                raise UsageError(note)

        def done(text: str | None) -> None:
            refuse(text or "")
            self._close_prompt()

        self.prompt.open("/", "", typed=refuse, done=done)
        self.prompt.show_note(note, is_wrong=True)

    # Saved filters ----------------------------------------------------------------------------------

    def _saved_filters(self) -> SavedFilters:
        """Return the saved filters of the visible view. A list that was opened from one has none."""
        pane = self.pane
        if pane is None or not pane.fields or len(self.crumbs()) > 1:
            return SavedFilters((), "", {})
        name = self.view.name
        return SavedFilters(
            self.host.state.of_view(name), pane.whole_filter, self._filter_counts.of_view(name)
        )

    def count_saved_filters(self) -> None:
        """Count the rows of the saved filter that was counted the longest ago, if it is time to."""
        pane, view, health = self.pane, self.view.name, self.host.health
        if pane is None or health.paused or health.is_old or self.host.reads.is_waiting(_COUNTING):
            return
        texts = [text for _, text in self._saved_filters().filters]
        text = self._filter_counts.next_due(view, texts, time.monotonic())
        if text is None:
            return

        def take(found: tuple[FilterCount | None, float]) -> None:
            self._filter_counts.take(view, text, *found, time.monotonic())
            self.redraw_tabs()
            self.count_saved_filters()

        try:
            counter = pane.counter(text)
        except UsageError:  # an older version saved it
            counter = None
        if counter is None:
            self._filter_counts.take(view, text, None, 0.0, time.monotonic())
        else:
            self.host.reads.ask(_COUNTING, timed(counter), take)

    def action_saved_filter(self, number: int) -> None:
        filters, text, _ = self._saved_filters()
        chosen = filters[number - 1][1] if 0 < number <= len(filters) else ""

        def show() -> None:
            """Show the rows of this filter, and not errors only."""
            self.host.filter_rows(chosen)
            if self.pane and self.pane.errors_only:
                self.pane.action_errors()

        if chosen != text:
            self._try(show)

    def action_next_saved(self) -> None:
        filters, text, _ = self._saved_filters()
        if not filters:
            self.host.report(
                with_keys(self, "no filter is saved here: {main.filter}, then {main.save_filter}")
            )
            return
        texts = ["", *(saved for _, saved in filters)]
        position = texts.index(text) + 1 if text in texts else 0
        self.action_saved_filter(position % len(texts))

    def action_save_filter(self) -> None:
        """Save the filter in force under a name; if it is saved already, forget it."""
        pane, view = self.pane, self.view.name
        if pane is None or not pane.fields or len(self.crumbs()) > 1:
            self.host.report("filters are not saved on this page")
            return
        text, state = pane.whole_filter, self.host.state
        if not text:
            keys = f"{key_of(self, 'main.filter')} or {key_of(pane, 'pane.errors')}"
            self.host.report(f"there is no filter to save: {keys} makes one")
            return
        if name := next((name for name, saved in state.of_view(view) if saved == text), None):
            state.set_filter(view, name, None)
            self.host.report(f"the filter {name} is not saved any more")
            self.redraw_header()
            return

        def save(name: str) -> None:
            if name.strip() and len(state.of_view(view)) < MOST:
                state.set_filter(view, name.strip(), text)
                self.redraw_header()

        self.host.ask_for(
            f"save the filter {text} as", save, hint="Enter saves it; its tab is above the rows"
        )

    def action_command(self, text: str = "") -> None:
        from dcron.tui.frame.commands import command_of, complete_command

        def done(text: str | None) -> None:
            run = command_of(self.host, text) if text and text.strip() else None
            self._close_prompt()
            if run:
                self._try(run)

        self.prompt.open(
            ":",
            text,
            typed=None,
            done=done,
            complete=partial(complete_command, self.host),
            history=tuple(self.host.state.commands),
        )

    def on_prompt_left(self) -> None:
        """Focus the pane if no other widget has the focus."""
        if self.focused is None and self.pane:
            self._focus(self.pane)
        self.redraw_header()

    def _close_prompt(self) -> None:
        self.prompt.close()
        if self.pane:
            self._focus(self.pane)
        self.redraw_header()

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except DcronError as error:
            self.host.report_error(error)

    # Keys -------------------------------------------------------------------------------------------

    def holds(self, event: events.Event) -> bool:
        """Hold the keys for rows until the rows that they are meant for are there."""
        if not isinstance(event, events.Key | events.Paste):
            return False
        if self.prompt.is_open:
            return self.prompt.is_completing
        bound = self.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        if self.pane is None:
            return bound is None or bound.binding.id not in _LEAVING
        if (bound and bound.node in (self, self.app)) or self.host.health.lost_at is not None:
            return False
        return not (self.has_keys and self.pane.is_ready)
