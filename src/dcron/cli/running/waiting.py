"""Wait until the last attempts of runs have ended; print why they wait, and their output."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dcron import services
from dcron.cli.output import console
from dcron.cli.output.run_output import OutputPrinter
from dcron.model import Run, RunState
from dcron.presentation import humanize

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two polls of a run."""
EXPLAIN_AFTER, EXPLAIN_EVERY = 1.0, 3.0
"""Seconds until the causes are first looked up, and between later lookups."""
QUIET = ("due", "running", "starting")
"""Codes of causes that are printed only on a terminal: nothing blocks the run."""


def exit_code(run: Run) -> int:
    """Return the exit code of a verb that waited for the run: the command's own, as in shells."""
    if run.state is RunState.SUCCEEDED:
        return 0
    if run.state is not RunState.FAILED:
        return 1
    if run.signal is not None:
        return 128 + run.signal
    return run.exit_code or 1


def pauses() -> Iterator[float]:
    """Yield the seconds between polls, growing to the longest pause."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, pause * 1.5)


@dataclass
class _Awaited:
    """A run, or the latest of its attempts."""

    run: Run
    output: OutputPrinter | None
    offset: int = 0
    ended: bool = False
    printed: set[tuple[int, str]] = field(default_factory=set)
    """The causes that were printed, as run and code."""


class Waiting:
    """Follows runs until their last attempts have ended."""

    def __init__(
        self,
        crontab: "services.crontab.Crontab",
        runs: Sequence[Run],
        *,
        new_output: Callable[[], OutputPrinter] | None = None,
    ) -> None:
        """With `new_output`, also print the output; a line on stderr names the run."""
        self._crontab = crontab
        self._new_output = new_output
        self._groups = [{run.id: self._new(run)} for run in runs]
        self._heading: int | None = runs[0].id if len(runs) == 1 else None

    def wait(self, seconds: float | None) -> bool:
        """Wait at most this long, or without a limit for None; return whether all runs have ended."""
        begun = time.monotonic()
        explain_at, waiting = begun + EXPLAIN_AFTER, pauses()
        while True:
            if self._look():
                waiting = pauses()
            now = time.monotonic()
            if all(each.ended for each in self._awaited):
                return True
            left = float("inf") if seconds is None else begun + seconds - now
            if left <= 0:
                return False
            if now >= explain_at:
                self._explain()
                explain_at = now + EXPLAIN_EVERY
            time.sleep(min(next(waiting), left))

    @property
    def ends(self) -> list[list[Run]]:
        """The last attempts of each run: one, or one per node for a run on every node."""
        return [[each.run for each in group.values()] for group in self._groups]

    @property
    def _awaited(self) -> list[_Awaited]:
        return [each for group in self._groups for each in group.values()]

    def _new(self, run: Run) -> _Awaited:
        return _Awaited(run, self._new_output() if self._new_output else None)

    def _look(self) -> bool:
        """Poll each run that has not ended; return whether something has changed."""
        news = [self._look_at(each) for each in self._awaited if not each.ended]
        for group in self._groups:
            self._add_shares(group)
        return any(news)

    def _add_shares(self, group: dict[int, _Awaited]) -> None:
        """Add the runs of each node, which exist once an agent has seen a run on every node."""
        first, latest = next(iter(group.items()))
        if latest.run.for_node:
            for share in self._crontab.fan_out(first):
                if share.id not in group:
                    group[share.id] = self._new(share)

    def _look_at(self, each: _Awaited) -> bool:
        before = each.run
        each.run = self._crontab.find_run(before.id)  # read before the output, so none is missed
        news = self._print_output(each) or each.run.state is not before.state
        if not each.run.state.is_final:
            return news
        if each.output:
            each.output.end()
        retry = self._crontab.retry_of(each.run)
        if retry is None:
            each.ended = True
            return True
        self._mention_retry(each.run, retry)
        each.run, each.offset, each.output = retry, 0, self._new(retry).output
        return True

    def _print_output(self, each: _Awaited) -> bool:
        if each.output is None:
            return False
        news = False
        while page := self._crontab.output(each.run.id, each.offset):
            news = True
            if self._heading != each.run.id:
                self._heading = each.run.id
                console.note(f"--- run {each.run.id} of {each.run.task} on {each.run.node}")
            for chunk in page:
                each.output.write(chunk)
            each.offset = page[-1].end
        each.output.flush()
        return news

    def _mention_retry(self, run: Run, retry: Run) -> None:
        now = self._crontab.now()
        console.note(
            f"run {run.id} of {run.task}: {humanize.result(run, now)};"
            f" attempt {retry.attempt}, run {retry.id}, is due in {humanize.left(retry.due_at, now)}"
        )

    def _explain(self) -> None:
        """Print why the runs wait, unless it was printed before."""
        why = services.why.Why(self._crontab)
        for each in self._awaited:
            if each.ended:
                continue
            for cause in why.not_over(each.run):
                is_news = (each.run.id, cause.code) not in each.printed
                if is_news and (cause.code not in QUIET or (sys.stderr.isatty() and not each.output)):
                    each.printed.add((each.run.id, cause.code))
                    console.note(cause.sentence)
