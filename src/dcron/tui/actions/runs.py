"""Acts on runs and dead letters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dcron.model import Run, RunState
from dcron.presentation import humanize
from dcron.presentation.humanize import plural
from dcron.services.runs.dead_letters import DeadLetters
from dcron.tui.actions.subjects import MOST_LISTED, listed, subject
from dcron.tui.host import Host
from dcron.tui.reads.acts import Act
from dcron.values.lists import DeadLettersPage, Term

COUNTED = 1000
"""Number of dead letters up to which `dismiss all` counts them."""
_RETRYABLE = (RunState.FAILED, RunState.LOST, RunState.SKIPPED, RunState.CANCELLED)


@dataclass(frozen=True)
class ShownLetters:
    """The dead letters of a list, those below the visible ones included."""

    terms: Sequence[Term]
    filter_text: str
    newest_id: int
    """Dead letters with a greater id were not shown yet."""


def cancel(host: Host, runs: Sequence[Run]) -> None:
    """Cancel waiting runs, and have running ones stopped. Always asks."""
    if not host.may_act(runs):
        return
    finished = [run for run in runs if run.state.is_final]
    if finished:
        host.report(f"{_name(finished[0])} is finished: {finished[0].state.value}")
        return

    def describe(run: Run) -> str:
        if since := humanize.not_heard_of(run, host.zone, host.health.now()):
            return f"{_name(run)} on {run.node}, {since}: it is asked when it is back"
        if run.state is RunState.RUNNING:
            return f"{_name(run)} runs on {run.node}"
        return f"{_name(run)}: {run.state.value}"

    which = subject([_name(run) for run in runs], "run")
    _confirm(host, f"cancel {which}", runs, describe, _cancel)


def retry(host: Host, runs: Sequence[Run]) -> None:
    """Retry runs now that did not succeed; asks if there are several."""
    if not host.may_act(runs):
        return
    retryable = [run for run in runs if run.state in _RETRYABLE]
    if not retryable:
        host.report(f"{_name(runs[0])} cannot be retried: {runs[0].state.value}")
    elif len(retryable) == 1:
        host.act([retry_act(retryable[0])])
    else:
        _confirm(host, f"retry {plural(len(retryable), 'run')} now", retryable, _reason, retry_act)


def dismiss(host: Host, runs: Sequence[Run]) -> None:
    """Take runs off the list of dead letters. Always asks."""
    if not host.may_act(runs):
        return
    dead = [run for run in runs if run.dead_at]
    if not dead:
        host.report(f"{_name(runs[0])} is not a dead letter")
        return
    which = subject([_name(run) for run in dead], "dead letter")
    _confirm(host, f"dismiss {which}", dead, _reason, _dismiss)


def dismiss_all(host: Host, letters: ShownLetters) -> None:
    """Dismiss all dead letters of the list. A text must be typed to agree."""
    if host.may_act(["all"]):
        host.fetch(
            lambda board: board.more_dead_letters(letters.terms, letters.newest_id + 1, COUNTED),
            lambda page: _confirm_all(host, letters, page),
        )


def _confirm(
    host: Host, question: str, runs: Sequence[Run], describe: Callable[[Run], str], act: Callable[[Run], Act]
) -> None:
    details = listed([describe(run) for run in runs])
    host.confirm(question, details, lambda: host.act([act(run) for run in runs]))


def _confirm_all(host: Host, letters: ShownLetters, page: DeadLettersPage) -> None:
    if not page.runs:
        host.report("there are no dead letters")
        return
    which = plural(len(page.runs), "dead letter") + (" or more" if page.end is not None else "")
    which += f" of the filter {letters.filter_text}" if letters.terms else ""
    act = Act(
        "dismiss all",
        _dismiss_all_command(letters, page),
        lambda crontab: DeadLetters(crontab).dismiss_found(letters.terms, letters.newest_id),
        lambda count: f"dismissed {plural(count, 'dead letter')}",
    )
    hint = "type all and Enter to dismiss them"
    host.confirm(
        f"dismiss all {which}",
        ["also those that are not visible now; their records and output are kept"],
        lambda: host.ask_for(f"dismiss {which}?", lambda _: host.act([act]), hint=hint, must_be="all"),
    )


def _dismiss_all_command(letters: ShownLetters, page: DeadLettersPage) -> str:
    """Return the command line that does the same. `dcron dead` has no filter, so it names the runs."""
    if not letters.terms:
        return "dcron dead dismiss --all --force"
    more = " ..." if len(page.runs) > MOST_LISTED or page.end is not None else ""
    return f"dcron dead dismiss {' '.join(str(run.id) for run in page.runs[:MOST_LISTED])}{more}"


def _cancel(run: Run) -> Act:
    def says(cancelled: Run) -> str:
        if cancelled.state.is_final:
            return f"cancelled {_name(run)}"
        return f"{cancelled.node} was asked to stop {_name(run)}"

    return Act(
        f"cancel run {run.id}",
        f"dcron cancel {run.id} --force",
        lambda crontab: crontab.cancel(run.id),
        says,
    )


def retry_act(run: Run) -> Act:
    """Return the act that retries a run."""
    return Act(
        f"retry run {run.id}",
        f"dcron retry {run.id}",
        lambda crontab: DeadLetters(crontab).retry(run.id),
        lambda retried: f"{_name(retried)} is due, as attempt {retried.attempt}",
    )


def _dismiss(run: Run) -> Act:
    return Act(
        f"dismiss run {run.id}",
        f"dcron dead dismiss {run.id}",
        lambda crontab: DeadLetters(crontab).dismiss(run.id),
        lambda _: f"dismissed {_name(run)}",
    )


def _name(run: Run) -> str:
    return f"run {run.id} of {run.task}"


def _reason(run: Run) -> str:
    return f"{_name(run)}: {run.reason or run.state.value}"
