"""Acts on what went wrong: runs are tried again, dead letters dismissed, nodes drained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcron.model import Node, NodeState, Run, RunState
from dcron.presentation.humanize import plural
from dcron.services.crontab import Crontab
from dcron.services.dead_letters import DeadLetters
from dcron.services.fleet import Fleet
from dcron.store.listings import DeadLettersPage
from dcron.store.search_terms import Term
from dcron.tui.acting import Act

if TYPE_CHECKING:
    from dcron.tui.app import DcronApp

SHOWN = 8
COUNTED = 1000
"""Dead letters that the question before their end counts."""
_RETRYABLE = (RunState.FAILED, RunState.LOST, RunState.SKIPPED, RunState.CANCELLED)
_LIVING = (NodeState.ALIVE, NodeState.DRAINING, NodeState.LATE)


@dataclass(frozen=True)
class Found:
    """The dead letters that a list shows, those further down too."""

    terms: Sequence[Term]
    filter_text: str
    newest_id: int
    """What failed since then has not been seen."""


def retry(app: "DcronApp", runs: Sequence[Run]) -> None:
    """Try runs that ended badly once more, now; many are asked about."""
    if not app.may_act(runs):
        return
    wanted = [run for run in runs if run.state in _RETRYABLE]
    if not wanted:
        app.tell(f"run {runs[0].id} of {runs[0].task} did not end badly: {runs[0].state.value}")
    elif len(wanted) == 1:
        app.act([_retry(wanted[0])])
    else:
        _ask(app, f"try {plural(len(wanted), 'run')} again now", wanted, _retry)


def dismiss(app: "DcronApp", runs: Sequence[Run]) -> None:
    """Take runs off the list of dead letters. Always asks."""
    if not app.may_act(runs):
        return
    dead = [run for run in runs if run.dead_at]
    if not dead:
        app.tell(f"run {runs[0].id} of {runs[0].task} is no dead letter")
        return
    what = f"run {dead[0].id} of {dead[0].task}" if len(dead) == 1 else plural(len(dead), "dead letter")
    _ask(app, f"dismiss {what}", dead, _dismiss)


def dismiss_all(app: "DcronApp", found: Found) -> None:
    """Take everything that is shown off the list; a key is not enough to say yes."""
    if app.may_act(["all"]):
        app.fetch(
            lambda board: board.more_dead_letters(found.terms, found.newest_id + 1, COUNTED),
            lambda page: _ask_about_all(app, found, page),
        )


def drain(app: "DcronApp", nodes: Sequence[Node]) -> None:
    """Let nodes take nothing new. Always asks."""
    if not app.may_act(nodes):
        return
    now = app.health.now()
    living = [node for node in nodes if node.state(now) in _LIVING]
    if not living:
        app.tell(f"{nodes[0].id} is {nodes[0].state(now).value} already")
        return
    if all(node.draining for node in living):
        app.tell(f"{living[0].id} is draining already; it takes runs again when its agent is started again")
        return

    def go(yes: bool | None) -> None:
        if yes:
            app.act([_drain(node) for node in living if not node.draining])

    shown = [f"{node.id} runs {plural(node.running, 'command')}" for node in living[:SHOWN]]
    what = living[0].id if len(living) == 1 else plural(len(living), "node")
    app.confirm(f"drain {what}", [*shown, "nothing new is taken until the agent is started again"], go)


def _ask(app: "DcronApp", question: str, runs: Sequence[Run], act: Callable[[Run], Act]) -> None:
    def go(yes: bool | None) -> None:
        if yes:
            app.act([act(run) for run in runs])

    shown = [f"run {run.id} of {run.task}: {run.reason or run.state.value}" for run in runs[:SHOWN]]
    more = len(runs) - len(shown)
    app.confirm(question, [*shown, *([f"and {more:,} more"] if more else [])], go)


def _ask_about_all(app: "DcronApp", found: Found, page: DeadLettersPage) -> None:
    if not page.runs:
        app.tell("there are no dead letters")
        return
    told = plural(len(page.runs), "dead letter") + (" or more" if page.end is not None else "")
    told += f" of the filter {found.filter_text}" if found.terms else ""

    def do(crontab: Crontab) -> str:
        count = DeadLetters(crontab).dismiss_found(found.terms, found.newest_id)
        return f"dismissed {plural(count, 'dead letter')}"

    def sure(typed: str | None) -> None:
        if typed == "all":
            app.act([Act("dismiss all", _command(found, page), do)])

    def go(yes: bool | None) -> None:
        if yes:
            app.ask_for(f"dismiss {told}?", sure, hint="type all and Enter to dismiss them", must_be="all")

    app.confirm(f"dismiss all {told}", ["not only those in sight; their records and output stay"], go)


def _command(found: Found, page: DeadLettersPage) -> str:
    """The command line that does the same; none has a filter, so it names the runs."""
    if not found.terms:
        return "dcron dead dismiss --all --force"
    more = " ..." if len(page.runs) > SHOWN or page.end is not None else ""
    return f"dcron dead dismiss {' '.join(str(run.id) for run in page.runs[:SHOWN])}{more}"


def _retry(run: Run) -> Act:
    def do(crontab: Crontab) -> str:
        retried = DeadLetters(crontab).retry(run.id)
        return f"run {retried.id} of {retried.task} is due, as attempt {retried.attempt}"

    return Act(f"retry run {run.id}", f"dcron retry {run.id}", do)


def _dismiss(run: Run) -> Act:
    def do(crontab: Crontab) -> str:
        DeadLetters(crontab).dismiss(run.id)
        return f"dismissed run {run.id} of {run.task}"

    return Act(f"dismiss run {run.id}", f"dcron dead dismiss {run.id}", do)


def _drain(node: Node) -> Act:
    def do(crontab: Crontab) -> str:
        Fleet(crontab).drain(node.id)
        return f"{node.id} takes nothing new"

    return Act(f"drain {node.id}", f"dcron drain {node.id}", do)
