"""What a task waits for that has no times of its own: a node, an event, or other tasks."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from dcron.model import Definition, Run, RunState
from dcron.policy.starting.dependencies import roots
from dcron.policy.starting.occurrences import schedule_of
from dcron.presentation.why import Cause
from dcron.schedule.explain import explain as in_words
from dcron.services.why import runs
from dcron.services.why.facts import Facts
from dcron.store import history
from dcron.store.claims import unheard
from dcron.store.planning import dependencies
from dcron.store.runs import rows as store_runs
from dcron.store.tasks import rows as tasks
from dcron.values.lists import RunFilter

_MOST_OF_A_FLOW = 1000
_MOST_UPSTREAM_RUNS = 20


def waits_for(facts: Facts, task: Definition) -> list[Cause]:
    """Return what has to happen before the task runs."""
    schedule = schedule_of(task)
    if schedule.after:
        return [*_after(facts, schedule.after), *_upstream_unheard(facts, schedule.after)]
    if schedule.event:
        return [_event(facts, schedule.event)]
    return [facts.cause("reboot", "", {"in_words": in_words(schedule)})] if schedule.reboot else []


def _upstream_unheard(facts: Facts, earlier: Sequence[str]) -> list[Cause]:
    upstream = tasks.by_names(facts.connection, earlier)
    return runs.unheard(facts, unheard.runs_of(facts.connection, [task.id for task in upstream]))


def _event(facts: Facts, name: str) -> Cause:
    if event := history.unhandled_event(facts.connection, name):
        return facts.cause("event", "event-sent", event=name, since=event.created_at)
    last = history.last_event_run(facts.connection, facts.task_id)
    words = {"last": last.scheduled_for} if last else {}
    return facts.cause("event", "" if last else "event-never", words, event=name)


def _after(facts: Facts, earlier: Sequence[str]) -> list[Cause]:
    """Return which of its upstream tasks the task waits for, in the latest flow."""
    upstream = tasks.by_names(facts.connection, earlier)
    flow = history.newest_flow(facts.connection, [task.id for task in upstream])
    members = {} if flow is None else _members(facts, flow)
    own = members.get(facts.name)
    missing = [name for name in earlier if not _has_succeeded(members.get(name))]
    if own and not own.state.is_final:
        return []
    if flow is not None and missing and not own:
        states = {"members": [(name, members.get(name)) for name in missing]}
        return [facts.cause("after", "", states, flow=flow, waits_for=missing)]
    form = "no-flow" if flow is None else "flow-over" if own else "flow-passed"
    begins, following = _next_flow(facts)
    words = {"earlier": list(earlier), "over": flow, "own": own, "following": following}
    return [facts.cause("after", form, words, flow=None, waits_for=begins)]


def _has_succeeded(run: Run | None) -> bool:
    return run is not None and run.state is RunState.SUCCEEDED


def _members(facts: Facts, flow: int) -> dict[str, Run]:
    """Return the latest run of each task in the flow, or one that succeeded before it."""
    found: dict[str, Run] = {}
    for run in store_runs.newest(facts.connection, RunFilter(flow=flow), _MOST_OF_A_FLOW):
        known = found.get(run.task)
        if known is None or run.state is RunState.SUCCEEDED:
            found[run.task] = run
    return found


def _next_flow(facts: Facts) -> tuple[list[str], list[str]]:
    """Return the tasks with which the next flow begins, and the same with their due times, if any has one."""
    begins = sorted(roots(dependencies.graph_around(facts.connection, facts.name), [facts.name]))
    names = {task.id: task.name for task in tasks.by_names(facts.connection, begins)}
    waiting = store_runs.next_runs(facts.connection, list(names))
    due = sorted(f"{names[task_id]} ({facts.clock.time(run.due_at)})" for task_id, run in waiting.items())
    return begins, due or begins


def upstream_at(facts: Facts, upstream: Sequence[str], at: datetime) -> Iterator[Cause]:
    """Yield how the upstream tasks did at this time."""
    for task in tasks.by_names(facts.connection, upstream):
        end = at.replace(microsecond=999_999)
        rows = history.finished(facts.connection, task.id, at, end, _MOST_UPSTREAM_RUNS)
        rows += [run for run in history.unfinished(facts.connection, task.id) if run.scheduled_for == at]
        words = {"members": [(task.name, rows[-1])]} if rows else {}
        run_id = rows[-1].id if rows else None
        form = "after-then" if rows else "after-never"
        yield facts.cause("after", form, words, at=at, upstream=task.name, upstream_run=run_id)
