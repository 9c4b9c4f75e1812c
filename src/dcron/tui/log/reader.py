"""The thread that reads one log. The screen never waits for it: it asks, and is told what there is.

Whatever is asked for anew (another run, a filter) has a new generation; what is told carries the generation
it answers, and the screen drops what is older than its last question. It is a daemon thread, so quitting
waits for no query.
"""

import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dcron.errors import DatabaseError, DcronError
from dcron.model import Run, RunState
from dcron.tui.health import Health
from dcron.tui.log.lines import LogLine
from dcron.tui.log.opened import ALL, Opened, VisibleLines
from dcron.tui.log.source import RunLog

LOOK_EVERY = 0.25
"""Seconds between two looks for new output of a run that lives."""
RUN_EVERY = 1.0
"""Seconds between two looks at how the run stands."""
SETTLED_EVERY = 5.0
"""Seconds between two looks at a run that is over: a lost one's output may come late."""

Which = int | str
"""A run's number, or a task for the run to follow."""


@dataclass(frozen=True)
class LogRequest:
    """What the screen wants to see."""

    which: Which
    step: int = 0
    """With -1 or 1, the run before or after that one."""
    view: VisibleLines = ALL
    colours: bool = False
    generation: int = 0
    first: int = 0
    height: int = 0
    """Of the rows that are on the screen."""
    follow: bool = False
    """Whether the last rows are wanted, however many there are."""
    anchor: int | None = None
    """The line that the reader's eye is on, when the view changes."""


@dataclass(frozen=True)
class Seen:
    """What there is, told to the screen."""

    generation: int
    run: Run
    now: datetime
    """The database's clock, at the monotonic time `taken_at`."""
    taken_at: float
    rows: int
    whole: bool
    """Whether these are all there are by now."""
    out: int
    err: int
    first: int
    """The row of the first of these lines."""
    lines: Sequence[LogLine]
    hits: "array[int]"
    """Rows that the search found so far, in order. Only grows."""
    done: bool
    """Whether the filter and the search have seen all there is."""
    place: int | None
    """The row at which the anchor is now; told once."""
    moved: int
    """How many rows above have gone since the last time."""


@dataclass(frozen=True)
class Absent:
    """There is no such run, told to the screen."""

    generation: int
    why: str


class LogReader:
    """Reads the run that is wanted, as long as it is wanted."""

    def __init__(self, log: RunLog, tell: Callable[[Seen | Absent], object], wanted: LogRequest) -> None:
        """`tell` is called in the thread and must not block."""
        self._log = log
        self._tell = tell
        self._wanted = wanted
        self._wake = threading.Condition()
        self._stopped = False
        self._retry = False
        self._opened: Opened | None = None
        self._answered: LogRequest | None = None
        self._refused = -1
        self._look_at = 0.0
        self._run_at = 0.0
        self.health = Health(interval=RUN_EVERY)
        self.thread = threading.Thread(target=self._work, name="log reader", daemon=True)

    @property
    def generation(self) -> int:
        """Of the latest question."""
        return self._wanted.generation

    def stop(self) -> None:
        """Ask nothing more; a query that hangs may go on hanging."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def want(self, first: int, height: int, *, follow: bool) -> None:
        """Have these rows read, or the last ones."""
        self._ask(replace(self._wanted, first=first, height=height, follow=follow))

    def want_anew(self, **changes: object) -> None:
        """Have another run, view or colours; answers to what was asked before are dropped."""
        wanted = replace(self._wanted, step=0, generation=self.generation + 1)
        self._ask(replace(wanted, **changes))  # type: ignore[arg-type]

    def look_now(self) -> None:
        """Look at once, and do not wait to try again."""
        with self._wake:
            self._retry, self._look_at, self._run_at = True, 0.0, 0.0
            self._wake.notify()

    def _ask(self, wanted: LogRequest) -> None:
        with self._wake:
            if wanted != self._wanted:
                self._wanted = wanted
                self._wake.notify()

    # In the thread ----------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stopped:
            wanted = self._wanted
            self.health.asked_at = time.monotonic()
            try:
                until = self._answer(wanted)
            except DatabaseError as error:
                self._lost(error)
                continue
            except DcronError as error:
                self._refuse(wanted, error)
                until = time.monotonic() + SETTLED_EVERY
            except Exception as error:  # a mistake of ours must not go unsaid, nor write over the screen
                self._tell(Absent(wanted.generation, f"the log cannot be shown: {error!r}"))
                return
            self.health.heard()
            self.health.asked_at = None
            self._rest(wanted, until)

    def _rest(self, wanted: LogRequest, until: float) -> None:
        with self._wake:
            while not self._stopped and self._wanted is wanted and not self._retry:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._wake.wait(left)
            self._retry = False

    def _lost(self, error: DatabaseError) -> None:
        with self._wake:
            self.health.asked_at = None
            self._retry = False
            until = time.monotonic() + self.health.failed(error)
            while not (self._stopped or self._retry) and (left := until - time.monotonic()) > 0:
                self._wake.wait(left)
            self._retry = False

    def _refuse(self, wanted: LogRequest, error: DcronError) -> None:
        """Say once that there is no such run; the one that is open stays."""
        if wanted.generation == self._refused:
            return
        self._refused = wanted.generation
        self._tell(Absent(wanted.generation, str(error)))
        self._settle(wanted)

    def _answer(self, wanted: LogRequest) -> float:
        """Do a little of what is wanted, and tell what came of it; when to go on, by the monotonic clock."""
        before, self._answered = self._answered, None
        opened = self._open(wanted, before)
        changed = before is None or before.generation != wanted.generation
        opened.show(wanted.view, wanted.colours, wanted.anchor if changed else None)
        changed = self._look(opened) or changed
        changed = opened.scan() or changed
        changed = opened.fill(wanted.first, wanted.height, follow=wanted.follow) or changed
        if changed:
            self.health.heard()
            self._tell(self._seen(opened, wanted.generation))
        self._answered = wanted
        return 0.0 if opened.is_behind else self._look_at

    def _open(self, wanted: LogRequest, before: LogRequest | None) -> Opened:
        opened = self._opened
        if opened and before and wanted.which == before.which and not wanted.step:
            return opened
        if opened and wanted.which == opened.run.id and not wanted.step:
            return opened
        run_id = self._run_id(wanted)
        run, now = self._log.find_run(run_id)
        self._opened = Opened(self._log, run, now)
        self._look_at, self._run_at = 0.0, time.monotonic() + RUN_EVERY
        self._settle(wanted)
        return self._opened

    def _settle(self, wanted: LogRequest) -> None:
        """From now on the run that is open is wanted, however it was found, unless there is a newer wish."""
        with self._wake:
            if self._opened and self._wanted.generation == wanted.generation:
                self._wanted = replace(self._wanted, which=self._opened.run.id, step=0)

    def _run_id(self, wanted: LogRequest) -> int:
        if isinstance(wanted.which, str):
            return self._log.run_to_follow(wanted.which).id
        if not wanted.step:
            return wanted.which
        here = self._opened.run if self._opened else self._log.find_run(wanted.which)[0]
        return self._log.neighbour(here, later=wanted.step > 0)

    def _look(self, opened: Opened) -> bool:
        """See what is new, when it is time; whether there is something."""
        moment = time.monotonic()
        if moment < self._look_at:
            return False
        changed = False
        if moment >= self._run_at:  # before the output: then nothing of a run that is over is missed
            changed = opened.look_at_run()
            self._run_at = moment + (SETTLED_EVERY if opened.run.state.is_final else RUN_EVERY)
        changed = opened.look_at_output() or changed
        started = opened.run.state in (RunState.CLAIMED, RunState.RUNNING)
        pause = SETTLED_EVERY if opened.run.state.is_final else LOOK_EVERY if started else RUN_EVERY
        self._look_at = 0.0 if opened.has_more else time.monotonic() + pause
        return changed

    def _seen(self, opened: Opened, generation: int) -> Seen:
        place, moved = opened.take_moves()
        return Seen(
            generation=generation,
            run=opened.run,
            now=opened.now,
            taken_at=opened.taken_at,
            rows=opened.rows,
            whole=not opened.has_more,
            out=opened.out,
            err=opened.err,
            first=opened.first,
            lines=opened.lines,
            hits=opened.hits,
            done=opened.is_scanned,
            place=place,
            moved=moved,
        )
