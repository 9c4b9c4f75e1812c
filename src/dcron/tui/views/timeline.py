"""The view of the next 24 hours: one row per task, and the minute in which most tasks start."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from dcron.errors import DcronError, UsageError
from dcron.policy.forecast.start_times import MINUTE, Minutes
from dcron.presentation import humanize
from dcron.schedule.time_parser import parse_time
from dcron.schedule.transitions import clock
from dcron.schedule.zones import named_zone, zone
from dcron.services.dashboard import BusiestMinute, Dashboard, TaskRows, TimelineRow
from dcron.tui.table.cells import Cell, cell, task_status
from dcron.tui.table.columns import GAP, Column
from dcron.tui.table.filter_counts import MOST_COUNTED, FilterCount
from dcron.tui.table.table import LOADING, MARK_CELLS
from dcron.tui.timeline.drawing import HEAT, heat_legend, now_sign, signs_cell, starts_text
from dcron.tui.timeline.lines import Foot, LoadLine, busiest_texts
from dcron.tui.timeline.scale import cell_for, header, span_at
from dcron.tui.views.tasks import TasksPane
from dcron.values.safe_text import safe

STEP = timedelta(hours=6)
FARTHEST = timedelta(days=366)
ZONES = ("local", "task", "UTC")
NAME_CELLS, NARROW_NAME_CELLS, STARTS_CELLS = 16, 11, 6
WIDE_FROM = 60
"""Columns from which on there is room for more than names and cells."""
ZONE_CELLS = 20
LOAD_FROM = 12
"""Lines of the view from which on it has the line of the load."""
COUNTED_AT_ONCE = 200
"""Most tasks that one question counts."""
COUNTING_SECONDS, MOST_COUNTING_SECONDS = 0.08, 4.0
"""Seconds for one question, so that others are answered between, and for all of them together."""
COUNTED_EVERY = 30.0
"""Least seconds between two counts while the crontab is edited."""


class TimelinePane(TasksPane):
    """The tasks with runs to come, sorted by their next run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "move(-1)", "6 h earlier", id="timeline.earlier", key_display="["),
        Binding("right_square_bracket", "move(1)", "6 h later", id="timeline.later", key_display="]"),
        Binding("z", "zone", "zone", id="timeline.zone"),
        Binding("m", "heat", "heat map", id="timeline.heat"),
        Binding("J", "jump", "go to a time", id="timeline.jump"),
        Binding("C", "clock_change", "next clock change", id="timeline.clock_change", show=False),
    ]
    title = "Timeline"
    orders: ClassVar[Sequence[str]] = ("next", "name", "schedule", "state", "last")
    nothing: ClassVar[str] = "nothing is going to run"

    def __init__(self) -> None:
        self._shift = timedelta(0)
        self._zone = ZONES[0]
        self._span = span_at(datetime.now(UTC), cell_for(0), self._shift)
        self._header = ""
        super().__init__()
        self.foot = Foot()
        self.load = LoadLine()
        self.load.display = False  # until the size is known
        self._is_heat = False
        self._legend = Static(classes="legend", markup=False)
        self._last_change: datetime | None = None
        """The clock change that a key went to last."""
        self._counting: tuple[object, ...] = ()
        """The span, the number of tasks and the change token of the count."""
        self._begun_at = 0.0
        self._spent = 0.0
        self._counted = 0
        self._minutes = Minutes()
        self._busiest = BusiestMinute(0, 0.0)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.table
            yield self._legend
            yield self.load
            yield self.foot

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the detail panel and groups."""
        return action not in ("facts", "group", "fold_all") and super().check_action(action, parameters)

    # Drawing ----------------------------------------------------------------------------------------

    def columns(self) -> Sequence[Column]:
        """Return the columns. The name and the cells are always shown."""
        name, most = self._widths()
        return (
            self.sign_column(lambda row, now: task_status(row, now).style, rank=1, from_width=WIDE_FROM),
            Column("task", "task", name, _name, keeps_end=True, grows=True, order="name"),
            Column("cells", self._header, min(self._span.cells, most), self._signs),
            Column("starts", "starts", STARTS_CELLS, _starts, right=True, rank=2, from_width=WIDE_FROM),
        )

    def _widths(self) -> tuple[int, int]:
        """Return the width of the name and the width of the cells."""
        width = self.size.width - MARK_CELLS - 1  # the last one is the scroll bar's
        if self.size.width < WIDE_FROM:
            return NARROW_NAME_CELLS, width - NARROW_NAME_CELLS - GAP
        return NAME_CELLS, width - NAME_CELLS - STARTS_CELLS - 1 - 3 * GAP

    def _signs(self, row: TimelineRow, now: datetime) -> Cell:
        if row.span != self._span:
            return LOADING
        if not row.cells:
            return cell(row.task.error or f"{row.task.schedule} cannot be read", "error")
        heat = HEAT[self.host.settings.unicode] if self._is_heat else ""
        return signs_cell(row, now, heat, unicode=self.host.settings.unicode)

    def _here(self) -> tzinfo:
        """Return the zone of the header."""
        row = self.table.cursor_row
        if self._zone == "task" and row:
            try:
                return zone(row.task.timezone)
            except UsageError:  # this machine's tz database does not have it
                return UTC
        return self.host.zone if self._zone == "local" else UTC

    def tick(self) -> None:
        """Move the header and the cells on with the time."""
        self._rescale()
        self._count()
        super().tick()

    def on_resize(self) -> None:
        """Fit the cells to the width."""
        self.load.display = self.size.height >= LOAD_FROM
        self._draw_legend()
        self._rescale()

    def _draw_legend(self) -> None:
        """Show what the shades mean, if there are shades and room."""
        self._legend.display = self._is_heat and self.size.height >= LOAD_FROM

    def cursor_rests(self) -> None:
        """Draw the header in the zone of this task if it follows tasks."""
        self._rescale()

    def _rescale(self) -> None:
        """Draw the header for the present time; if the cells have moved, read the rows again."""
        now, before = self.host.health.now(), (self._header, self._span)
        self._span = span_at(now, cell_for(self._widths()[1]), self._shift)
        sign = now_sign(unicode=self.host.settings.unicode)
        self._header = header(self._span, self._here(), now).replace("|", sign)
        if before != (self._header, self._span):
            self.table.set_columns(self.columns())
        if before[1] != self._span:
            self._fresh.clear()
            self._ask_rows(self.table.visible_ids())
        self._draw_foot()

    def _draw_foot(self) -> None:
        here = self._here()
        tasks = len(self.table.ids)
        texts = busiest_texts(self._busiest, self._counted, tasks, here, self.host.health.now())
        self.foot.show(tuple(texts) if tasks else ("",), self._where(here))
        numbers = self._minutes.in_cells(self._span) if self._counted else []
        self.load.show(numbers, self.table.column_x("cells"), unicode=self.host.settings.unicode)

    def _where(self, here: tzinfo) -> str:
        """Return the zone of the header, and the begin of the cells if they were moved."""
        zone_name = safe(str(here), ZONE_CELLS)
        if not self._shift:
            return zone_name
        begin = f"from {humanize.clock(self._span.begin, here, self.host.health.now())}"
        return begin if self.size.width < WIDE_FROM else f"{begin}  {zone_name}"

    # Data -------------------------------------------------------------------------------------------

    def ids_question(self) -> Callable[[Dashboard], Sequence[int]]:
        """Return the question for the ids of tasks with runs to come."""
        terms, order, backwards = tuple(self.all_terms), self.order, self.backwards
        return lambda board: board.task_ids(terms, order, reverse=backwards, coming=True)

    def rows_question(self, ids: Sequence[int]) -> Callable[[Dashboard], TaskRows]:
        """Return the question for these rows with the cells of the shown span."""
        span = self._span
        return lambda board: board.timeline_rows(ids, span)

    def counter(self, text: str) -> Callable[[Dashboard], FilterCount]:
        """Return the question how many tasks with runs to come a filter finds."""
        terms = self.parse(text)

        def count(board: Dashboard) -> FilterCount:
            ids = board.task_ids(terms, "name", reverse=False, coming=True)
            return FilterCount(min(MOST_COUNTED, len(ids)))

        return count

    def _take(self, ids: Sequence[int], found: TaskRows) -> None:
        super()._take(ids, found)
        self._count()

    def _count(self) -> None:
        """Count again if the cells have moved, or if the crontab has changed some time ago."""
        what = (self._span, len(self.table.ids), self._token)
        if self._token is None or (what == self._counting and not self._is_past()):
            return
        is_edited = self._counting and self._counting[0] == self._span
        if is_edited and time.monotonic() - self._begun_at < COUNTED_EVERY:
            return
        self._counting, self._begun_at = what, time.monotonic()
        self._minutes, self._counted, self._spent = Minutes(), 0, 0.0
        self._count_on(max(self._span.begin, self.host.health.now()), self._span.end)

    def _is_past(self) -> bool:
        minute = self._busiest.minute
        return minute is not None and minute + MINUTE <= self.host.health.now()

    def _count_on(self, begin: datetime, end: datetime) -> None:
        """Count the next tasks, until all are counted or the time is used up."""
        ids = list(self.table.ids[self._counted : self._counted + COUNTED_AT_ONCE])
        minutes = self._minutes

        def take(found: BusiestMinute) -> None:
            self._busiest = found
            self._counted += found.counted
            self._spent += found.seconds
            self._draw_foot()
            if end == self._span.end:
                self._count_on(begin, end)

        if ids and self._spent < MOST_COUNTING_SECONDS:
            self.ask(
                "count",
                lambda board: board.count_starts(minutes, ids, begin, end, COUNTING_SECONDS),
                take,
            )

    # Keys -------------------------------------------------------------------------------------------

    def action_move(self, steps: int) -> None:
        self._shift = max(timedelta(0), min(FARTHEST, self._shift + steps * STEP))
        self._rescale()
        self._count()

    def action_heat(self) -> None:
        self._is_heat = not self._is_heat
        self._legend.update(Content.assemble(*heat_legend(unicode=self.host.settings.unicode)))
        self._draw_legend()
        self.table.set_columns(self.columns())

    def action_jump(self) -> None:
        hint = "2027-03-28, tomorrow 09:00, +3d; empty: now"
        self.host.ask_for(f"show which time? ({self._here()})", self._jump, hint=hint)

    def _jump(self, text: str) -> None:
        now = self.host.health.now()
        try:
            at = parse_time(text, named_zone(self._here()), now) if text.strip() else now
        except DcronError as error:
            self.host.report_error(error)
            return
        if not now <= at <= now + FARTHEST:
            self.host.report("the timeline shows the next 366 days", error=True)
        else:
            self._shift_to(at)

    def action_clock_change(self) -> None:
        now, here = self.host.health.now(), named_zone(self._here())
        shown = self._last_change  # a second key goes on from there
        after = shown if shown and self._span.begin <= shown < self._span.end else now + self._shift
        change = next(clock(here).transitions(after, now + FARTHEST + STEP), None)
        if change is None:
            self.host.report(f"the clocks of {safe(str(here))} do not change within a year")
            return
        self._last_change = change.at
        self._shift_to(max(now, change.at - STEP))
        local = change.at.astimezone(here)
        self.host.report(f"the clocks of {safe(str(here))} change on {local:%a %Y-%m-%d}")

    def _shift_to(self, at: datetime) -> None:
        """Begin the cells with this time."""
        shift = at - self.host.health.now()
        self._shift = max(timedelta(0), min(FARTHEST, shift - shift % self._span.cell))
        self._rescale()
        self._count()

    def action_zone(self) -> None:
        self._zone = ZONES[(ZONES.index(self._zone) + 1) % len(ZONES)]
        self._rescale()


def _name(row: TimelineRow, now: datetime) -> Cell:
    return cell(row.task.name, "name")


def _starts(row: TimelineRow, now: datetime) -> Cell:
    return Cell(starts_text(row, now))
