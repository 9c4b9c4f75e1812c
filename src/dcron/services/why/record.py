"""What the record says of one run: how it ended, or why it was left out."""

from dcron.model import Run, RunState
from dcron.services.why import waiting
from dcron.services.why.causes import RUNS_SHOWN, Cause, named, over, skip_code, skipped
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.times import told_span
from dcron.store import history


def of_run(inquiry: Inquiry, run: Run) -> list[Cause]:
    """What became of a run, or will."""
    if not run.state.is_final:
        return waiting.explain(inquiry, run)
    if run.state is not RunState.SKIPPED:
        return [over(run, inquiry.clock)]
    return [_left_out(inquiry, run)]


def _left_out(inquiry: Inquiry, run: Run) -> Cause:
    """A run that was left out, with what its reason leaves open."""
    assert run.finished_at
    match skip_code(run):
        case "overlap":
            others = history.alive_at(inquiry.connection, run, run.finished_at, RUNS_SHOWN + 1)
            more = f" ({named(others)})" if others else ""
            return skipped(run, inquiry.clock, more, runs=[each.id for each in others])
        case "paused":
            begin = told_span(run.reason)
            pause = inquiry.life.last_until(begin[0] if begin else run.scheduled_for, "pause")
            if pause is None:
                return skipped(run, inquiry.clock)
            since = f"; since {inquiry.clock.time(pause.at)}"
            return skipped(run, inquiry.clock, since, by=pause.actor, login=pause.login, since=pause.at)
        case "missed":
            return skipped(run, inquiry.clock, _fleet_then(inquiry, run))
    return skipped(run, inquiry.clock)


def _fleet_then(inquiry: Inquiry, run: Run) -> str:
    span = told_span(run.reason)
    moment = span[0] if span else run.scheduled_for
    there = history.nodes_at(inquiry.connection, moment, RUNS_SHOWN)
    if there:
        return f"; agents there at the time: {', '.join(there)}"
    last = history.last_node(inquiry.connection, moment)
    if last is None:
        return "; no agent was there yet"
    return f"; no agent was there: the last one, {last.id}, ended {inquiry.clock.time(last.died_at)}"
