"""Waiting for runs: for their last attempts, saying meanwhile what they wait for and what they print."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dcron.cli import console
from dcron.model import Run, RunState
from dcron.presentation import humanize

if TYPE_CHECKING:
    from dcron.cli.run_output import OutputPrinter
    from dcron.services.crontab import Crontab

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two looks at a run that is waited for."""
EXPLAIN_AFTER, EXPLAIN_EVERY = 1.0, 3.0
"""Seconds until the causes are looked up first, and from then on."""
QUIET = ("due", "running", "starting")
"""Causes that only a person on a terminal wants to read: nothing is in the way."""


def exit_code(run: Run) -> int:
    """Return what a command that waited for the run exits with: the command's own code, as shells have it."""
    if run.state is RunState.SUCCEEDED:
        return 0
    if run.state is not RunState.FAILED:
        return 1
    if run.signal is not None:
        return 128 + run.signal
    return run.exit_code or 1


def pauses() -> Iterator[float]:
    """Yield seconds to wait between looks: ever longer."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, pause * 1.5)


@dataclass
class _Awaited:
    """A run, or the latest of its attempts."""

    run: Run
    output: "OutputPrinter | None"
    offset: int = 0
    ended: bool = False
    said: set[tuple[int, str]] = field(default_factory=set)
    """The causes that were printed, by run and code."""


class Waiting:
    """Follows runs to the ends of their last attempts."""

    def __init__(
        self,
        crontab: "Crontab",
        runs: Sequence[Run],
        *,
        new_output: "Callable[[], OutputPrinter] | None" = None,
    ) -> None:
        """With `new_output` also print what they write; a line on stderr says which run does."""
        self._crontab = crontab
        self._new_output = new_output
        self._groups = [{run.id: self._new(run)} for run in runs]
        self._heading: int | None = runs[0].id if len(runs) == 1 else None

    def wait(self, seconds: float | None) -> bool:
        """Return whether all runs have ended within this time; None is no bound."""
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
        """The last attempts as they were last seen: of each run one, or one for each node's share."""
        return [[each.run for each in group.values()] for group in self._groups]

    @property
    def _awaited(self) -> list[_Awaited]:
        return [each for group in self._groups for each in group.values()]

    def _new(self, run: Run) -> _Awaited:
        return _Awaited(run, self._new_output() if self._new_output else None)

    def _look(self) -> bool:
        """Look at each run that has not ended; return whether there was news."""
        news = [self._look_at(each) for each in self._awaited if not each.ended]
        for group in self._groups:
            self._add_shares(group)
        return any(news)

    def _add_shares(self, group: dict[int, _Awaited]) -> None:
        """Wait for the shares of all nodes, too: they are made when an agent sees the run."""
        first, latest = next(iter(group.items()))
        if latest.run.for_node:
            for share in self._crontab.fan_out(first):
                if share.id not in group:
                    group[share.id] = self._new(share)

    def _look_at(self, each: _Awaited) -> bool:
        before = each.run
        each.run = self._crontab.find_run(before.id)  # looked at first: then no output is missed
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
        """Print what the runs wait for, where that was not printed before."""
        from dcron.services.why import Why

        why = Why(self._crontab)
        for each in self._awaited:
            if each.ended:
                continue
            for cause in why.not_over(each.run):
                is_news = (each.run.id, cause.code) not in each.said
                if is_news and (cause.code not in QUIET or (sys.stderr.isatty() and not each.output)):
                    each.said.add((each.run.id, cause.code))
                    console.note(cause.sentence)
