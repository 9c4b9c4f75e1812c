"""What the record says of one run: how it ended, or why it was left out."""

from dcron.model import Run, RunState, SkipCode
from dcron.services.why import waiting
from dcron.services.why.causes import RUNS_SHOWN, Cause, named, over, skipped
from dcron.services.why.inquiry import Inquiry
from dcron.store import history, runs


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
    match run.skip_code:
        case SkipCode.OVERLAP:
            others = history.alive_at(inquiry.connection, run, run.finished_at, RUNS_SHOWN + 1)
            more = f" ({named(others)})" if others else ""
            return skipped(run, inquiry.clock, more, runs=[each.id for each in others])
        case SkipCode.PAUSED:
            pause = inquiry.life.last_until(run.covers_from or run.scheduled_for, "pause")
            if pause is None:
                return skipped(run, inquiry.clock)
            since = f"; since {inquiry.clock.time(pause.at)}"
            return skipped(run, inquiry.clock, since, by=pause.actor, login=pause.login, since=pause.at)
        case SkipCode.MISSED:
            return skipped(run, inquiry.clock, _fleet_then(inquiry, run))
        case SkipCode.UPSTREAM if run.caused_by:
            upstream = runs.by_id(inquiry.connection, run.caused_by)
            name = upstream.task if upstream else None
            return skipped(run, inquiry.clock, upstream=name, upstream_run=run.caused_by)
    return skipped(run, inquiry.clock)


def _fleet_then(inquiry: Inquiry, run: Run) -> str:
    moment = run.covers_from or run.scheduled_for
    there = history.nodes_at(inquiry.connection, moment, RUNS_SHOWN)
    if there:
        return f"; agents there at the time: {', '.join(there)}"
    last = history.last_node(inquiry.connection, moment)
    if last is None:
        return "; no agent was there yet"
    return f"; no agent was there: the last one, {last.id}, ended {inquiry.clock.time(last.died_at)}"
