"""A task's fields by groups, and what its schedule will do, told while it is typed."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static

from dcron.errors import DcronError
from dcron.model import Definition
from dcron.safetext import safe, shorten
from dcron.schedule import Calendar
from dcron.services.calendars import Calendars
from dcron.tui.forms.checking import Checked, Checker, CheckResult, Typed
from dcron.tui.forms.entries import Row, row_of
from dcron.tui.forms.fields import FIELDS, GROUPS
from dcron.tui.forms.reading import GENERAL, texts_of
from dcron.tui.forms.schedule_preview import draw
from dcron.tui.keynames import fitting, told_keys
from dcron.tui.modals import NoticeDialog

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp

TICK = 1.0
PAUSE = 0.1
"""Seconds without a key after which what was typed is read."""
AGAIN = 5.0
"""Seconds between two looks ahead at most, where what was seen has come: a task may run every second."""
WIDE = 116
"""Columns from which on the outlook stands beside the fields."""
LOW = 20
"""Lines below which the outlook is seen only while the schedule is written."""
EMPTY = "write a schedule: '30 2 * * *', @daily, '@every 90s'; what it will do is told here"
_KEYS = (
    "{form.save} save  ",
    "{form.leave} leave  ",
    "{form.previous}/{form.next} field  ",
    "{form.previous_group}/{form.next_group} group  ",
    "{form.outlook} outlook in full  ",
    "{app.help} help",
)


class Form(Screen[None]):
    """A task's fields, what is wrong with them, and what the schedule will do."""

    DEFAULT_CSS = """
    Form .form { layout: grid; grid-size: 1 4; grid-rows: 1 1fr 11 2; height: 100%; }
    Form .title { height: 1; background: $panel; }
    Form .fields { height: 100%; overflow-y: auto; scrollbar-size-vertical: 1; }
    Form .group { height: 1; color: $text-primary; padding: 0 1; }
    Form .outlook {
        height: 100%; background: $surface; padding: 0 1; overflow-y: auto; scrollbar-size-vertical: 1;
    }
    Form .hint { height: 100%; color: $foreground-muted; padding: 0 1; }
    Form.-beside .form { grid-size: 2 3; grid-rows: 1 1fr 2; grid-columns: 1fr 76; }
    Form.-beside .title, Form.-beside .hint { column-span: 2; }
    Form.-low .form { grid-size: 1 3; grid-rows: 1 1fr 1; }
    Form.-low .outlook { display: none; }
    Form.-low.-when .form { grid-size: 1 4; grid-rows: 1 1fr 40% 1; }
    Form.-low.-when .outlook { display: block; }
    """
    AUTO_FOCUS = ""  # else it would be the first field for a moment
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,enter", "next", "next field", id="form.next", show=False),
        Binding("up", "previous", "previous field", id="form.previous", show=False),
        Binding("pagedown", "group(1)", "next group", id="form.next_group", show=False),
        Binding("pageup", "group(-1)", "previous group", id="form.previous_group", show=False),
        Binding("f2", "outlook", "all of the outlook", id="form.outlook"),
    ]

    def __init__(self, line: Definition, *, is_new: bool = False) -> None:
        """Change this Task, or write a new one that begins as `line`."""
        super().__init__()
        self.base = line
        self.is_new = is_new
        self.began_as = texts_of(line)
        self._checker = Checker(self._hear)
        self._calendars: dict[str, Calendar] = {}
        self._missing: dict[str, str] = {}
        self._asked: set[str] = set()
        self.touched: set[str] = set()
        """The fields whose mistakes are told; those of the others are not made yet."""
        self._number = 0
        self._found: CheckResult | None = None
        self._told = Content(EMPTY)
        """The outlook as it is shown."""
        self._waiting: Timer | None = None
        self._checked_at = 0.0

    @property
    def dcron(self) -> "DcronApp":
        """The app, as what it is."""
        return cast("DcronApp", self.app)

    def compose(self) -> ComposeResult:
        with Vertical(classes="form"):
            yield Static(self._title(), classes="title", markup=False)
            with Vertical(classes="fields"):
                for group in GROUPS:
                    yield Static(Content.styled(group, "bold"), classes="group", markup=False)
                    yield from (Row(each, self.began_as[name]) for name, each in self._of(group))
            with Vertical(classes="outlook"):
                yield Static(self._told, markup=False)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Read what is there, and begin with the name."""
        self._checker.start()
        self._check()
        self.set_interval(TICK, self._tick)
        self.row("name" if self.is_new else "schedule").take_focus()

    def on_unmount(self) -> None:
        """Read nothing more."""
        self._checker.stop()

    # Typing -----------------------------------------------------------------------------------------

    @on(Row.Changed)
    def _typed(self, message: Row.Changed) -> None:
        message.stop()
        name = message.row.field.name
        if message.row.text == self.began_as[name] and name not in self.touched:
            return
        self.touched.add(name)
        self.read_soon()

    def read_soon(self) -> None:
        """Read what is there, a moment later."""
        self._number += 1
        if self._waiting:
            self._waiting.stop()
        self._waiting = self.set_timer(PAUSE, self._check)

    def _check(self) -> None:
        self._checked_at = time.monotonic()
        self._checker.check(
            Typed(
                self._number,
                self.base,
                self.texts(),
                self.is_new,
                self.dcron.health.now(),
                dict(self._calendars),
                dict(self._missing),
            )
        )

    def texts(self) -> Mapping[str, str]:
        """What stands in the form."""
        return {row.field.name: row.text for row in self.query(Row)}

    def _hear(self, message: Message) -> None:
        """Called in the checker's thread."""
        try:
            self.post_message(message)
        except RuntimeError:  # the app's loop has ended
            return

    @on(Checked)
    def _checked(self, message: Checked) -> None:
        message.stop()
        found = message.found
        if found.typed.number != self._number or self._ask_calendars(found.reading.line):
            return
        before, self._found = self._found, found
        self._show_outlook()
        if before and before.typed.number == found.typed.number:  # only the time is another
            return
        self._show_errors()
        self.row("name").show_placeholder("" if found.reading.named else found.reading.line.name)
        self.settled(found)

    def settled(self, found: CheckResult) -> None:
        """All that was typed so far has been read."""

    def _ask_calendars(self, line: Definition) -> bool:
        """Whether calendars have to be read before there is anything to say."""
        names = {line.except_calendar, line.only_calendar} - {None, *self._calendars, *self._missing}
        for name in names - self._asked:
            assert name
            self._asked.add(name)
            self._ask_calendar(name)
        return bool(names)

    def _ask_calendar(self, name: str) -> None:
        def found(calendar: Any) -> None:
            self._calendars[name] = calendar
            self._again(name)

        def refused(error: DcronError) -> None:
            self._missing[name] = str(error)
            self._again(name)

        self.dcron.reader.ask((self, name), lambda board: Calendars(board.crontab).read(name), found, refused)

    def _again(self, name: str) -> None:
        self._asked.discard(name)
        if self.is_attached:
            self._check()

    # Showing ----------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Beside or below."""
        self.set_class(event.size.width >= WIDE and event.size.height >= LOW, "-beside")
        self.set_class(event.size.height < LOW, "-low")
        self.call_after_refresh(self._show_outlook)
        self._keep_in_sight()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Say what to write there."""
        row = row_of(event.widget)
        if row:
            self.show_hint(row.field.hint)
            self.set_class(row.field.group == "when", "-when")
            self._keep_in_sight()

    def show_hint(self, hint: str) -> None:
        """Say what to write, or what happens."""
        width = self.size.width - 2
        keys = fitting([told_keys(self, each) for each in _KEYS], width)
        lines = [shorten(hint, width)] + ([] if self.has_class("-low") else ["".join(keys)])
        self.query_one(".hint", Static).update(Content("\n".join(lines)))

    def _keep_in_sight(self) -> None:
        """The row that is typed into, with what is wrong with it, once there is a layout for both."""
        if row := row_of(self.focused):
            self.call_after_refresh(row.scroll_visible, animate=False)

    def _show_errors(self) -> None:
        errors = self._found.reading.errors if self._found else {}
        for row in self.query(Row):
            name = row.field.name
            row.show_error(errors.get(name, "") if name in self.touched else "")
        self.query_one(".title", Static).update(self._title(errors.get(GENERAL, "")))
        self._keep_in_sight()

    def _tick(self) -> None:
        """A second has passed: what is to come is nearer, or here."""
        seen = self._found.outlook.coming if self._found and self._found.outlook else ()
        is_past = seen and seen[0].at <= self.dcron.health.now()
        if is_past and time.monotonic() - self._checked_at >= AGAIN:
            self._check()
        self._show_outlook()

    def _show_outlook(self) -> None:
        pane = self.query_one(".outlook", Vertical)
        told = self._outlook(pane.size.width - 2, pane.size.height)
        if not told.is_same(self._told):
            self._told = told
            pane.query_one(Static).update(told)

    def _outlook(self, width: int, height: int | None) -> Content:
        if self._found is None or not self._found.reading.line.schedule.strip():
            return Content(EMPTY)
        if self._found.outlook is None:
            return Content("nothing can be told until the schedule and its zone are right")
        return draw(self._found.outlook, self.dcron.health.now(), width, height)

    def _title(self, wrong: str = "") -> Content:
        what = "new task" if self.is_new else f"edit {self.base.name}"
        return Content.assemble((f" {safe(what)} ", "reverse"), f"  {safe(wrong)}")

    # Moving -----------------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.focus_next()

    def action_next(self) -> None:
        self.focus_next()

    def action_previous(self) -> None:
        self.focus_previous()

    def action_group(self, by: int) -> None:
        row = row_of(self.focused)
        at = GROUPS.index(row.field.group) if row else 0
        name, _ = next(iter(self._of(GROUPS[(at + by) % len(GROUPS)])))
        self.row(name).take_focus()

    def action_outlook(self) -> None:
        width = min(68, self.size.width - 6)
        self.app.push_screen(NoticeDialog("what it will do", lambda: self._outlook(width, None)))

    def _of(self, group: str) -> list[tuple[str, Any]]:
        return [(name, field) for name, field in FIELDS.items() if field.group == group]

    def row(self, name: str) -> Row:
        """The field of this name."""
        return self.query_one(f"#field-{name}", Row)
