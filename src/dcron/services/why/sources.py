"""Lines that follow no clock: they wait for a node, an event, the end of a run, or other tasks."""

from collections.abc import Sequence
from datetime import datetime

from dcron.model import Definition, Run, RunState
from dcron.policy.dependencies import roots
from dcron.schedule import explain as in_words
from dcron.services.why.causes import Cause
from dcron.services.why.inquiry import Inquiry
from dcron.services.why.times import schedule_of
from dcron.store import dependencies, history, runs, tasks
from dcron.store.runs import RunFilter

_MOST_OF_A_FLOW = 1000
_MOST_ROWS = 20


def waits_for(inquiry: Inquiry, line: Definition) -> list[Cause]:
    """What has to happen before the line runs next."""
    schedule = schedule_of(line)
    if schedule.after:
        return _after(inquiry, schedule.after)
    if schedule.event:
        return [_event(inquiry, schedule.event)]
    return [Cause("reboot", f"{inquiry.name} runs {in_words(schedule)}", {})] if schedule.reboot else []


def at_no_time(inquiry: Inquiry, line: Definition, moment: datetime) -> list[Cause]:
    """Why a line without times of its own has no run of that time."""
    schedule = schedule_of(line)
    told = inquiry.told(
        moment,
        "no-such-time",
        f"{inquiry.name} runs {in_words(schedule)}, and did not then{_nearest(inquiry, moment)}"
        if moment <= inquiry.now
        else f"{inquiry.name} has no times of its own: it runs {in_words(schedule)}",
        {"schedule": line.schedule},
    )
    if schedule.after and moment <= inquiry.now:
        return [told, *_upstream_then(inquiry, schedule.after, moment)]
    return [told]


def _nearest(inquiry: Inquiry, moment: datetime) -> str:
    before = history.nearest(inquiry.connection, inquiry.task_id, moment, later=False)
    after = history.nearest(inquiry.connection, inquiry.task_id, moment, later=True)
    told = [
        f"run {run.id} was {which}, {inquiry.clock.time(run.scheduled_for)}"
        for run, which in ((before, "the one before"), (after, "the one after"))
        if run
    ]
    return f"; {', '.join(told)}" if told else ""


# Events ---------------------------------------------------------------------------------------------


def _event(inquiry: Inquiry, name: str) -> Cause:
    if event := history.unhandled_event(inquiry.connection, name):
        sent = inquiry.clock.time(event.created_at)
        sentence = f"the event {name} was sent {sent}, and an agent has yet to start what waits for it"
        return Cause("event", sentence, {"event": name, "since": event.created_at})
    last = history.last_event_run(inquiry.connection, inquiry.task_id)
    came = f"the last came {inquiry.clock.time(last.scheduled_for)}" if last else "none has come yet"
    return Cause("event", f"{inquiry.name} waits for the event {name}; {came}", {"event": name})


# Dependencies ---------------------------------------------------------------------------------------


def _after(inquiry: Inquiry, earlier: Sequence[str]) -> list[Cause]:
    """Which of the tasks before it the line waits for, in the latest flow."""
    lines = tasks.by_names(inquiry.connection, earlier)
    flow = history.newest_flow(inquiry.connection, [task.id for task in lines])
    if flow is None:
        return [_next_flow(inquiry, f"{inquiry.name} waits for {_list(earlier)}, and no flow has begun")]
    part = _members(inquiry, flow)
    own = part.get(inquiry.name)
    if own and own.state.is_final:
        return [_next_flow(inquiry, f"flow {flow} is over for {inquiry.name} (run {own.id} {own.state})")]
    if own:
        return []
    wanting = [name for name in earlier if name not in part or part[name].state is not RunState.SUCCEEDED]
    if not wanting:
        passed = f"flow {flow} went on before {inquiry.name} came after {_list(earlier)}"
        return [_next_flow(inquiry, passed)]
    standing = ", ".join(_standing(name, part.get(name)) for name in wanting)
    sentence = f"{inquiry.name} waits for {_list(wanting)} in flow {flow}: {standing}"
    return [Cause("after", sentence, {"flow": flow, "waits_for": wanting})]


def _members(inquiry: Inquiry, flow: int) -> dict[str, Run]:
    """The latest run of each task in the flow; one that succeeded counts before a later one."""
    found: dict[str, Run] = {}
    for run in runs.newest(inquiry.connection, RunFilter(flow=flow), _MOST_OF_A_FLOW):
        known = found.get(run.task)
        if known is None or run.state is RunState.SUCCEEDED:
            found[run.task] = run
    return found


def _standing(name: str, run: Run | None) -> str:
    if run is None:
        return f"{name} has yet to run"
    where = f" on {run.owner}" if run.owner else ""
    retry = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return f"{name} is {run.state}{where} (run {run.id}{retry})"


def _next_flow(inquiry: Inquiry, sentence: str) -> Cause:
    begins = sorted(roots(dependencies.graph_around(inquiry.connection, inquiry.name), [inquiry.name]))
    lines = {task.id: task.name for task in tasks.by_names(inquiry.connection, begins)}
    turns = runs.next_turns(inquiry.connection, list(lines))
    when = [f"{name} ({inquiry.clock.time(turns[id].due_at)})" for id, name in lines.items() if id in turns]
    following = f"; the next begins with {', '.join(sorted(when) or begins)}" if begins else ""
    return Cause("after", sentence + following, {"flow": None, "waits_for": begins})


def _upstream_then(inquiry: Inquiry, earlier: Sequence[str], moment: datetime) -> list[Cause]:
    """How the tasks before it did at that time."""
    found = []
    for task in tasks.by_names(inquiry.connection, earlier):
        end = moment.replace(microsecond=999_999)
        rows = history.finished(inquiry.connection, task.id, moment, end, _MOST_ROWS)
        rows += [
            run for run in history.unfinished(inquiry.connection, task.id) if run.scheduled_for == moment
        ]
        told = _standing(task.name, rows[-1]) if rows else f"{task.name} had no run of that time either"
        facts = {"upstream": task.name, "upstream_run": rows[-1].id if rows else None}
        found.append(inquiry.told(moment, "after", f"it comes after {task.name}; {told}", facts))
    return found


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
