"""One run's log as far as it is read: its index, and the lines around those that are on the screen."""

import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from dcron.model import Run
from dcron.store.output import HEAD_BYTES, TAIL_BYTES, Chunk, ChunkFacts
from dcron.tui.log.index import ERR, GAP, OUT, STREAMS, Index
from dcron.tui.log.lines import LogLine, log_line
from dcron.tui.log.scan import Needle, Scan
from dcron.tui.log.source import FACTS_PAGE, RunLog
from dcron.tui.log.walking import LINE_BYTES, RawLine, walk

MARGIN = 1_000
"""Lines read above and below those on the screen."""
MARGIN_FILTERED = 150
"""The same where lines that are shown lie far apart."""
SCANNED_BYTES = HEAD_BYTES + TAIL_BYTES
"""What is searched of one line: no run has more that is kept."""
NEAR = 500
"""Lines that are rather read and passed over than jumped."""


@dataclass(frozen=True)
class VisibleLines:
    """Which lines to show, and what to find among them."""

    err_only: bool = False
    wanted: Needle | None = None
    sought: Needle | None = None


ALL = VisibleLines()


class Opened:
    """A run and its output. Used by the reader's thread alone; every method may raise DatabaseError."""

    def __init__(self, log: RunLog, run: Run, now: datetime) -> None:
        """Nothing of the output is read yet."""
        self._log = log
        self.run, self.now, self.taken_at = run, now, time.monotonic()
        self._all = Index(marks_gaps=True)
        self._err = Index(marks_gaps=False)
        self._view = ALL
        self._scan = Scan(None, None)
        self._colours = False
        self._anchor: int | None = None
        self._place: int | None = None
        self._moved = 0
        self.lines: Sequence[LogLine] = ()
        """What is read, from the row `first` on."""
        self._forget_lines()
        self.has_more = True
        """Whether the database has more chunks than were looked at."""

    # What there is -----------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """How many rows the view has, as far as it is known."""
        return self._scan.count(self._index)

    @property
    def err(self) -> int:
        """Lines of stderr that are kept."""
        return self._err.lines

    @property
    def out(self) -> int:
        """Lines of stdout that are kept."""
        return self._all.lines - self._err.lines - self._all.kinds.count(GAP)

    @property
    def hits(self) -> "array[int]":
        """Rows that the search found."""
        return self._scan.hits

    @property
    def is_scanned(self) -> bool:
        """Whether the filter and the search have seen all that is known."""
        return not self._scan.is_needed or self._scan.scanned >= self._settled

    @property
    def is_behind(self) -> bool:
        """Whether there is more to do at once."""
        return self.has_more or not self.is_scanned

    @property
    def _index(self) -> Index:
        return self._err if self._view.err_only else self._all

    @property
    def _settled(self) -> int:
        """Lines that nothing will be added to, as far as one can know."""
        return self._index.lines if self.run.state.is_final else self._index.whole_lines

    def take_moves(self) -> tuple[int | None, int]:
        """Where the anchor is, and how many rows above have gone; each is told once."""
        told = self._place, self._moved
        self._place, self._moved = None, 0
        return told

    # What is new -------------------------------------------------------------------------------------

    def look_at_run(self) -> bool:
        """See how the run stands; whether that has changed."""
        before = self.run
        self.run, self.now = self._log.find_run(self.run.id)
        self.taken_at = time.monotonic()
        return self.run != before

    def look_at_output(self) -> bool:
        """See which chunks are new, a page of them; whether there were any."""
        page = self._log.facts(self.run.id, self._all.end)
        for facts in page:
            if facts.size and facts.byte_offset >= self._all.end:
                self._add(facts)
        self.has_more = len(page) == FACTS_PAGE
        if page and not self.has_more and self._all.end > HEAD_BYTES + TAIL_BYTES:
            self._drop_middle()
        return bool(page)

    def everything(self, line_bytes: int) -> Iterator[RawLine]:
        """All lines that are kept, of each `line_bytes` at most."""
        while self.has_more:
            self.look_at_output()
        return walk(self._all, self._chunks, 0, line_bytes)

    def _add(self, facts: ChunkFacts) -> None:
        kind, is_open = (ERR if facts.stream == STREAMS[ERR] else OUT), facts.last != b"\n"
        for index in (self._all, self._err) if kind == ERR else (self._all,):
            index.add(kind, facts.byte_offset, facts.size, facts.lines, is_open=is_open)

    def _drop_middle(self) -> None:
        """Forget what the database no longer has of a very long output."""
        kept = self._log.first_after_head(self.run.id)
        if kept is None:
            return
        for index in (self._all, self._err):
            dropped = index.drop(HEAD_BYTES, kept)
            if dropped and index is self._index:
                rows = self._scan.drop(dropped)
                self._moved += rows.by
                self._forget_lines()

    # What is looked for ------------------------------------------------------------------------------

    def show(self, view: VisibleLines, colours: bool, anchor: int | None) -> None:
        """Show these lines so; `anchor` is the line of the log that should stay in sight."""
        if colours != self._colours:
            self._colours = colours
            self._forget_lines()
        if view != self._view:
            self._view = view
            self._scan = Scan(view.wanted, view.sought)
            self._forget_lines()
            self._anchor = anchor
            self._find_anchor()

    def scan(self) -> bool:
        """Look through more of the log for a short time; whether there was something to do."""
        if not self._scan.is_needed:
            return False
        if not self._scan.step(lambda first: self._walk(first, SCANNED_BYTES), self._settled):
            return False
        self._find_anchor()
        return True

    def _find_anchor(self) -> None:
        if self._anchor is None:
            return
        line = self._all.same_line(self._anchor, self._err) if self._view.err_only else self._anchor
        if not self._view.wanted or self._scan.scanned > line or self.is_scanned:
            self._place = self._scan.row_of(line)
            self._anchor = None

    # What is on the screen ---------------------------------------------------------------------------

    def fill(self, first: int, height: int, *, follow: bool) -> bool:
        """Read the lines of these rows and around them, or of the last rows; whether any were read."""
        rows = self.rows
        if self._place is not None:
            first = self._place
        first = max(0, rows - height if follow else min(first, rows - height))
        last = min(rows, first + height)
        if not (self.first <= first and last <= self._firm_end):
            # Reading the rows above again costs more than what was added; they have not changed.
            if self.first <= first <= self._firm_end and last - self.first <= 3 * MARGIN:
                self._extend(last)
            else:
                self._fill(first, last)
            return True
        return False

    @property
    def _firm_end(self) -> int:
        """The row up to which what was read is still true."""
        if self._end > self._firm and self._all.end != self._read_to:
            return self._firm
        return self._end

    @property
    def _end(self) -> int:
        return self.first + len(self.lines)

    def _fill(self, first: int, last: int) -> None:
        margin = MARGIN_FILTERED if self._view.wanted else MARGIN
        self.first = max(0, first - margin)
        self.lines = ()
        self._firm = self.first
        self._extend(min(self.rows, last + margin))

    def _extend(self, last: int) -> None:
        keep = self._firm_end
        lines = [*self.lines[: keep - self.first], *self._read(keep, last)]
        self.lines = lines
        self._firm, self._read_to = min(self._end, self._whole_rows), self._all.end

    def _forget_lines(self) -> None:
        self.first, self._firm, self._read_to = 0, 0, -1
        self.lines = ()

    @property
    def _whole_rows(self) -> int:
        return self.rows if self._view.wanted else self._index.whole_lines

    def _read(self, first: int, last: int) -> Iterator[LogLine]:
        wanted = self._scan.rows[first:last] if self._view.wanted else range(first, last)
        for raw in self._pick(wanted):
            yield log_line(raw, self._number(raw.number), colours=self._colours)

    def _pick(self, numbers: Sequence[int]) -> Iterator[RawLine]:
        """A line for each of these numbers, in order; between lines far apart nothing is read."""
        lines: Iterator[RawLine] = iter(())
        raw = None
        for number in numbers:
            if raw is None or number - raw.number > NEAR:
                lines, raw = self._walk(number), None
            while raw is None or raw.number < number:
                raw = next(lines, RawLine(number, GAP, None, b"", 0))
            # Dropped since the last look, which the next one will see.
            yield raw if raw.number == number else RawLine(number, GAP, None, b"", 0)

    def _number(self, line: int) -> int:
        """The number of a line of the view among all lines of the log."""
        return self._err.same_line(line, self._all) if self._view.err_only else line

    def _walk(self, first: int, line_bytes: int = LINE_BYTES) -> Iterator[RawLine]:
        return walk(self._index, self._chunks, first, line_bytes)

    def _chunks(self, start: int, end: int, limit: int) -> Sequence[Chunk]:
        stream = STREAMS[ERR] if self._view.err_only else None
        return self._log.chunks(self.run.id, start, end, stream, limit)
