"""The form of a task: its fields in groups, their errors, and a preview of the schedule."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static

from dcron.errors import DcronError
from dcron.fields import FIELDS, GROUPS
from dcron.model import Definition
from dcron.policy.forecast.start_load import SPAN, OtherStarts
from dcron.policy.forecast.start_times import Minutes
from dcron.schedule.calendars import Calendar
from dcron.services.calendars import Calendars
from dcron.tui.dialogs.modals import NoticeDialog
from dcron.tui.forms import checking
from dcron.tui.forms.checking import GENERAL, Checked, FormState
from dcron.tui.forms.fields import texts_of
from dcron.tui.forms.rows import GroupHeading, Row, group_of, row_of
from dcron.tui.forms.schedule_preview import draw
from dcron.tui.host import Hosted
from dcron.tui.keys.hints import fitting_hints
from dcron.tui.keys.input_queue import Listener
from dcron.tui.reads.database_thread import DatabaseThread
from dcron.values.safe_text import safe, shorten

TICK = 1.0
PAUSE = 0.1
"""Seconds without a key after which the texts are checked."""
AGAIN = 5.0
"""Least seconds between two previews made because time has passed: a task may run every second."""
WIDE = 128
"""Columns from which on the preview is drawn beside the fields."""
LOW = 20
"""Lines below which the preview is shown only while the schedule is typed."""
OPEN_GROUPS = ("what", "when")
"""The groups that are unfolded at first, also if all their fields have their defaults."""
EMPTY = "write a schedule: '30 2 * * *', @daily, '@every 90s'; its next runs are shown here"
COUNTED_AT_ONCE = 500
"""Tasks whose starts are counted in one step."""
COUNTING_SECONDS = 0.1
"""Seconds after which a step ends."""
MOST_COUNTING_SECONDS = 2.0
"""Seconds after which the other tasks are left out."""
_KEYS = (
    "{form.save} save",
    "{form.leave} leave",
    "{form.previous}/{form.next} field",
    "{form.previous_group}/{form.next_group} group",
    "{form.outlook} whole preview",
    "{app.help} help",
)


class Form(Screen[None], Hosted, Listener):
    """The fields of a task, their errors, and the preview of its schedule."""

    DEFAULT_CSS = """
    Form .form { layout: grid; grid-size: 1 4; grid-rows: 1 1fr 11 2; height: 100%; }
    Form .title { height: 1; background: $panel; }
    Form .fields { height: 100%; overflow-y: auto; scrollbar-size-vertical: 1; }
    Form .preview {
        height: 100%; background: $surface; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    Form .hint { height: 100%; color: $foreground-muted; padding: 0 1; }
    Form.-beside .form { grid-size: 2 3; grid-rows: 1 1fr 2; grid-columns: 1fr 76; }
    Form.-beside .title, Form.-beside .hint { column-span: 2; }
    Form.-low .form { grid-size: 1 3; grid-rows: 1 1fr 1; }
    Form.-low .preview { display: none; }
    Form.-low.-when .form { grid-size: 1 4; grid-rows: 1 1fr 40% 1; }
    Form.-low.-when .preview { display: block; }
    """
    AUTO_FOCUS = ""  # `on_mount` chooses the field
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,enter", "app.focus_next", "next field", id="form.next", show=False),
        Binding("up", "app.focus_previous", "previous field", id="form.previous", show=False),
        Binding("pagedown", "group(1)", "next group", id="form.next_group", show=False),
        Binding("pageup", "group(-1)", "previous group", id="form.previous_group", show=False),
        Binding("f2", "outlook", "whole preview", id="form.outlook"),
    ]

    def __init__(self, definition: Definition, *, is_new: bool = False) -> None:
        """Edit this Task, or a new one that starts as `definition`."""
        super().__init__()
        texts = texts_of(definition)
        self.state = FormState(definition, is_new, texts, texts)
        self._checker = DatabaseThread("form checker", lambda: None, self.call_later)
        self.touched: set[str] = set()
        """The fields whose errors are shown; the others were not typed into yet."""
        self._result: Checked | None = None
        self._shown = Content(EMPTY)
        """The preview on the screen."""
        self._pause: Timer | None = None
        self._checked_at = 0.0

    def compose(self) -> ComposeResult:
        with Vertical(classes="form"):
            yield Static(self._title(), classes="title", markup=False)
            with Vertical(classes="fields"):
                for group in GROUPS:
                    rows = [Row(each, self.state.began_as[name]) for name, each in self._of(group)]
                    is_used = any(not row.is_default for row in rows)
                    yield GroupHeading(group, rows, is_open=is_used or group in OPEN_GROUPS)
                    yield from rows
            with Vertical(classes="preview"):
                yield Static(self._shown, markup=False)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Check the texts and go to the first field to type."""
        self._checker.start()
        self._check()
        self._count_others()
        self.set_interval(TICK, self._tick)
        self.row("name" if self.state.is_new else "schedule").take_focus()

    def on_unmount(self) -> None:
        """Check nothing more."""
        self._checker.stop()
        self.host.reads.forget_all(self)

    # The other tasks --------------------------------------------------------------------------------

    def _count_others(self) -> None:
        """Count when the other tasks start, in short steps between other questions to the database."""
        own, begin = (
            getattr(self.state.base, "id", None),
            self.host.health.now().replace(second=0, microsecond=0),
        )

        def count(ids: Sequence[int]) -> None:
            self._count_on(OtherStarts(begin, Minutes()), [each for each in ids if each != own], 0.0)

        self.host.reads.ask(
            (self, "ids"), lambda board: board.task_ids((), "next", reverse=False, coming=True), count
        )

    def _count_on(self, others: OtherStarts, ids: Sequence[int], spent: float) -> None:
        """Count the starts of the next tasks, until all are counted or the time is used up."""
        if not ids or spent >= MOST_COUNTING_SECONDS:
            self._know(others=replace(others, left_out=len(ids)))
            return
        some, end = list(ids[:COUNTED_AT_ONCE]), others.begin + SPAN
        self.host.reads.ask(
            (self, "count"),
            lambda board: board.count_starts(others.minutes, some, others.begin, end, COUNTING_SECONDS),
            lambda found: self._count_on(others, ids[found.counted :], spent + found.seconds),
        )

    # Typing -----------------------------------------------------------------------------------------

    @on(Row.Changed)
    def _typed(self, message: Row.Changed) -> None:
        message.stop()
        name = message.row.field.name
        if message.row.text == self.state.began_as[name] and name not in self.touched:
            return
        self.touched.add(name)
        self.check_soon()

    def check_soon(self) -> None:
        """Check the texts when the keys have rested."""
        self.state = replace(self.state, number=self.state.number + 1)
        if self._pause:
            self._pause.stop()
        self._pause = self.set_timer(PAUSE, self._check)

    def _know(self, **known: Any) -> None:
        """Check again with what is known now."""
        self.state = replace(self.state, **known)
        self._check()

    def _check(self) -> None:
        self._checked_at = time.monotonic()
        self.state = state = replace(self.state, texts=self.texts())
        now = self.host.health.now()
        self._checker.ask("check", lambda _: checking.check(state, now), self._take)

    def texts(self) -> Mapping[str, str]:
        """Return the texts of all fields."""
        return {row.field.name: row.text for row in self.query(Row)}

    def _take(self, result: Checked) -> None:
        if result.state.number != self.state.number or self._ask_calendars(result.task):
            return
        before, self._result = self._result, result
        self._show_preview()
        if before and before.state.number == result.state.number:  # checked again because time has passed
            return
        self._show_errors()
        self.row("name").show_placeholder("" if result.named else result.task.name)
        self.settled(result)

    def settled(self, result: Checked) -> None:
        """Go on after all that was typed has been checked."""

    def _ask_calendars(self, definition: Definition) -> bool:
        """Ask for the calendars that are not known yet; return whether there are any."""
        known = {None, *self.state.calendars, *self.state.missing}
        names = {definition.except_calendar, definition.only_calendar} - known
        for name in names:
            if name and not self.host.reads.is_waiting((self, name)):
                self._ask_calendar(name)
        return bool(names)

    def _ask_calendar(self, name: str) -> None:
        def found(calendar: Calendar) -> None:
            self._know(calendars={**self.state.calendars, name: calendar})

        def refused(error: DcronError) -> None:
            self._know(missing={**self.state.missing, name: str(error)})

        self.host.reads.ask((self, name), lambda board: Calendars(board.crontab).read(name), found, refused)

    # Showing ----------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Draw the preview beside the fields or below them."""
        self.set_class(event.size.width >= WIDE and event.size.height >= LOW, "-beside")
        self.set_class(event.size.height < LOW, "-low")
        self.call_after_refresh(self._show_preview)
        self._keep_in_sight()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the hint of the field."""
        row = row_of(event.widget)
        if row:
            self.show_hint(row.field.hint)
            self.set_class(row.field.group == "when", "-when")
            self._keep_in_sight()

    def show_hint(self, hint: str) -> None:
        """Show a hint, and the keys."""
        width = self.size.width - 2
        lines = [Content(shorten(hint, width))]
        if not self.has_class("-low"):
            lines.append(fitting_hints(self, _KEYS, width))
        self.query_one(".hint", Static).update(Content("\n").join(lines))

    def _keep_in_sight(self) -> None:
        """Scroll to the row with the focus and its error, after their layout."""
        if row := row_of(self.focused):
            self.call_after_refresh(row.scroll_visible, animate=False)

    def _show_errors(self) -> None:
        errors = self._result.errors if self._result else {}
        for row in self.query(Row):
            name = row.field.name
            row.show_error(errors.get(name, "") if name in self.touched else "")
        self.query_one(".title", Static).update(self._title(errors.get(GENERAL, "")))
        self._keep_in_sight()

    def _tick(self) -> None:
        """Draw the times to the next runs; preview anew when the first of them has come."""
        coming = self._result.preview.coming if self._result and self._result.preview else ()
        is_past = coming and coming[0].at <= self.host.health.now()
        if is_past and time.monotonic() - self._checked_at >= AGAIN:
            self._check()
        self._show_preview()

    def _show_preview(self) -> None:
        pane = self.query_one(".preview", Vertical)
        drawn = self._preview(pane.size.width - 2, pane.size.height)
        if not drawn.is_same(self._shown):
            self._shown = drawn
            pane.query_one(Static).update(drawn)

    def _preview(self, width: int, height: int | None) -> Content:
        if self._result is None or not self._result.task.schedule.strip():
            return Content(EMPTY)
        if self._result.preview is None:
            return Content("no preview until the schedule and its time zone are valid")
        return draw(self._result.preview, self.host.health.now(), width, height, self._result.load)

    def _title(self, error: str = "") -> Content:
        what = "new task" if self.state.is_new else f"edit {self.state.base.name}"
        return Content.assemble((f" {safe(what)} ", "reverse"), f"  {safe(error)}")

    # Moving -----------------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.focus_next()

    def action_group(self, by: int) -> None:
        group = group_of(self.focused)
        at = GROUPS.index(group) if group else 0
        name, _ = next(iter(self._of(GROUPS[(at + by) % len(GROUPS)])))
        self.row(name).take_focus()

    def action_outlook(self) -> None:
        width = min(68, self.size.width - 6)
        self.app.push_screen(NoticeDialog("next runs", lambda: self._preview(width, None)))

    def _of(self, group: str) -> list[tuple[str, Any]]:
        return [(name, field) for name, field in FIELDS.items() if field.group == group]

    def row(self, name: str) -> Row:
        """Return the row of the field of this name."""
        return self.query_one(f"#field-{name}", Row)
