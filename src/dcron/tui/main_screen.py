"""The screen of the views: a stack of panes for each, between bar and hints."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from dcron.errors import DcronError, UsageError
from dcron.safetext import safe
from dcron.tui.header_footer import Bar, Hints, Tabs
from dcron.tui.pane import Pane
from dcron.tui.views import VIEWS, View

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp
    from dcron.tui.prompt import Prompt

FIRST_PAINT = 0.03
"""Seconds that the first paint gets for itself: what is imported for the database would hold it up."""
WIDE = 110
"""Columns from which on there is room for the detail pane."""
SHORT = 12
"""Lines below which tabs and hints give way to rows."""


_LEAVING = ("main.back", "main.quit", "app.quit")
"""The keys that do something before anything is loaded."""


class MainScreen(Screen[None]):
    """The views. Digits switch, Enter goes in, Esc comes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(view.digit, f"view('{view.name}')", view.title, id=f"view.{view.name}", show=False)
            for view in VIEWS
        ),
        Binding("escape", "back", "back", id="main.back", show=False),
        Binding("q", "back_or_quit", "back, or quit", id="main.quit", show=False),
        Binding("slash", "filter", "filter", id="main.filter", key_display="/"),
        Binding("colon", "command", "command", id="main.command", key_display=":"),
        Binding("P", "app.pause", "pause refreshing", id="main.pause", show=False),
        Binding("plus", "app.faster", "refresh more often", id="main.faster", show=False, key_display="+"),
        Binding("minus", "app.slower", "refresh less often", id="main.slower", show=False, key_display="-"),
        Binding("ctrl+r", "app.refresh_now", "refresh now", id="main.refresh", show=False),
        Binding(
            "exclamation_mark", "app.error", "what is wrong", id="main.error", show=False, key_display="!"
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.view: View = VIEWS[0]
        self._stacks: dict[str, list[Pane]] = {}
        self.prompt: Prompt | None = None
        """The line for filters and commands; None in the first moment, before there is anything to filter."""

    @property
    def dcron(self) -> "DcronApp":
        """The app, as what it is."""
        return cast("DcronApp", self.app)

    @property
    def pane(self) -> Pane | None:
        """What fills the screen; None until it is made."""
        stack = self._stacks.get(self.view.name)
        return stack[-1] if stack else None

    @property
    def has_keys(self) -> bool:
        """Whether what is open takes them: the line that is typed on, or the pane."""
        taker = self.prompt if self._is_prompting else self.pane
        return self.focused is not None and taker in self.focused.ancestors

    @property
    def _is_prompting(self) -> bool:
        return self.prompt is not None and self.prompt.is_open

    def crumbs(self) -> list[str]:
        """The way to what is shown, inert."""
        return [safe(pane.title) for pane in self._stacks.get(self.view.name, [])]

    def compose(self) -> ComposeResult:
        yield Bar()
        yield Tabs()
        yield Container(id="body")
        yield Hints()

    def on_mount(self) -> None:
        """Show the first view."""
        self.bindings_updated_signal.subscribe(self, lambda _: self.query_one(Hints).refresh())
        self.set_timer(FIRST_PAINT, self.dcron.reader.start)

    def begin(self) -> None:
        """The views can be opened without holding up the screen: show the first."""
        if self.pane is None and self.query_one("#body").is_attached:  # it is not when one has quit by now
            from dcron.tui.prompt import Prompt

            self.prompt = Prompt()
            self.mount(self.prompt, before=self.query_one(Hints))
            self._show()

    def on_resize(self, event: events.Resize) -> None:
        """What there is no room for goes."""
        self.set_class(event.size.width >= WIDE, "-wide")
        self.set_class(event.size.height < SHORT, "-short")

    def on_screen_resume(self) -> None:
        """Back from a dialog or a log: show what happened meanwhile."""
        if self.pane:
            self.pane.refresh_data()

    def redraw_bar(self) -> None:
        """Time has passed."""
        for bar in self.query(Bar):
            bar.refresh()

    def redraw_tabs(self) -> None:
        """The cursor is elsewhere."""
        for tabs in self.query(Tabs):
            tabs.refresh()

    def redraw_chrome(self) -> None:
        """Bar and tabs tell something else."""
        self.redraw_bar()
        self.redraw_tabs()

    # Panes ------------------------------------------------------------------------------------------

    def action_view(self, name: str) -> None:
        view = next(view for view in VIEWS if view.name == name)
        if view is not self.view:
            self._leave()
            self.view = view
        self._show()

    def drill(self, pane: Pane) -> None:
        """Go in: show this pane; Esc comes back to the one before."""
        self._leave()
        self._stacks.setdefault(self.view.name, []).append(pane)
        self._show()

    def action_back(self) -> None:
        pane = self.pane
        if pane and pane.filter_text:
            pane.set_filter("")
        elif pane and getattr(pane, "errors_only", False):
            self.run_action_soon("errors")
        else:
            self._pop()
        self.redraw_chrome()

    def action_back_or_quit(self) -> None:
        if not self._pop():
            self.app.exit()

    def run_action_soon(self, action: str) -> None:
        """Do what a key of the pane would do."""
        if self.pane:
            getattr(self.pane, f"action_{action}")()

    def _pop(self) -> bool:
        stack = self._stacks.get(self.view.name, [])  # none yet, in the first moment
        if len(stack) < 2:
            return False
        stack.pop().remove()
        self._show()
        return True

    def _leave(self) -> None:
        """Hide the pane, and give its keys to nobody: they are meant for the next one."""
        if self.pane:
            self.pane.display = False
            self.set_focus(None)

    def _show(self) -> None:
        stack = self._stacks.setdefault(self.view.name, [])
        if not stack:
            stack.append(self.view.open())
        pane = stack[-1]
        if pane.is_attached:
            pane.display = True
            pane.refresh_data()
            self._focus(pane)
        else:
            self.query_one("#body").mount(pane)
            self.call_after_refresh(self._focus, pane)
        self.redraw_chrome()

    def _focus(self, pane: Pane) -> None:
        """Give it the keys, but for what is being typed."""
        if self._is_prompting or pane is not self.pane:
            return
        for widget in pane.query("*"):
            if widget.focusable:
                self.set_focus(widget)  # at once: later it would take the keys from what has opened meanwhile
                return

    # Filter and command -----------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No filter where there is nothing to filter."""
        if action == "filter":
            return self.pane is not None and self.pane.can_filter
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        pane, prompt = self.pane, self.prompt
        assert pane
        assert prompt
        before = pane.filter_text

        def apply(text: str) -> None:
            """A filter that is wrong leaves the one that was kept in force."""
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

        prompt.open("/", before, typed=apply, done=done, complete=pane.complete_filter)

    def action_command(self, text: str = "") -> None:
        from dcron.tui.commands import run_command
        from dcron.tui.completion import complete_command

        def done(text: str | None) -> None:
            self._close_prompt()
            if text:
                self._try(lambda: run_command(self.dcron, text))

        assert self.prompt
        self.prompt.open(":", text, typed=None, done=done, complete=partial(complete_command, self.dcron))

    def on_prompt_left(self) -> None:
        """Something else was clicked: it has the keys, or else the pane."""
        if self.focused is None and self.pane:
            self._focus(self.pane)
        self.redraw_chrome()

    def _close_prompt(self) -> None:
        assert self.prompt
        self.prompt.close()
        if self.pane:
            self._focus(self.pane)
        self.redraw_chrome()

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except DcronError as error:
            self.dcron.complain(error)

    # Keys -------------------------------------------------------------------------------------------

    def holds(self, event: events.Event) -> bool:
        """A key for rows waits until there are those that it is meant for."""
        if not isinstance(event, events.Key | events.Paste):
            return False
        if self.prompt and self.prompt.is_open:
            return self.prompt.is_completing
        bound = self.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        if self.prompt is None:
            return bound is None or bound.binding.id not in _LEAVING
        if (bound and bound.node in (self, self.app)) or self.dcron.health.lost_at is not None:
            return False
        return not (self.pane and self.has_keys and self.pane.is_ready)

    def hears(self, event: events.Event) -> bool:
        """All that is typed counts."""
        return True
