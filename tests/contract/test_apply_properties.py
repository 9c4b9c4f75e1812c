"""Random files, sources and changes by hand: applying one source touches no task of another, or of none."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcron.errors import DcronError
from dcron.model import Definition, Task, TaskState
from dcron.policy.ownership import Permissions, is_drifted
from dcron.services.changes.applied import Apply, Request
from dcron.services.history import History
from dcron.services.undo import Undo
from dcron.sources import Place, SourceTask
from tests.support.stage import Stage, definition

NAMES = [f"t{number}" for number in range(6)]
SOURCES = ["shop/cron", "web/cron"]


@st.composite
def definitions(draw: st.DrawFn) -> list[Definition]:
    """A file: some tasks with few different values, some after others."""
    found: list[Definition] = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5)):
        upstream = draw(st.sampled_from([None, None, None, *NAMES[:1], *(each.name for each in found)]))
        schedule = f"@after {upstream}" if upstream else draw(st.sampled_from(["@daily", "@hourly"]))
        found.append(definition(name, schedule, timeout=draw(st.sampled_from([None, 5.0]))))
    return found


ALLOWED = st.builds(
    Permissions,
    prune=st.booleans(),
    overwrite=st.booleans(),
    adopt=st.booleans(),
    take_from=st.sampled_from([None, *SOURCES]),
)
APPLIES = st.tuples(
    st.just("apply"),
    st.sampled_from(SOURCES),
    definitions(),
    ALLOWED,
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*NAMES, "gone"]), max_size=2),
)
NAME = st.sampled_from(NAMES)
ACTS = st.one_of(
    APPLIES,
    APPLIES,
    st.tuples(st.just("add"), NAME),
    st.tuples(st.just("set"), NAME, st.sampled_from([7.0, 5.0])),
    st.tuples(st.just("rename"), NAME, NAME),
    st.tuples(st.just("rm"), NAME),
    st.tuples(st.just("pause"), NAME),
    st.tuples(st.just("sql"), NAME),
)


def states(stage: Stage) -> dict[int, TaskState]:
    return {task.id: task.state() for task in stage.crontab.tasks()}


def act_by_hand(stage: Stage, verb: str, *given: Any) -> None:
    crontab = stage.crontab.acting(f"cli {verb}")
    match verb, given:
        case "add", (name,):
            crontab.add(definition(name, "@daily"))
        case "set", (name, timeout):
            crontab.edit(crontab.get(name), {"timeout": timeout})
        case "rename", (name, other):
            crontab.edit(crontab.get(name), {"name": other})
        case "rm", (name,):
            crontab.remove(crontab.get(name))
        case "pause", (name,):
            crontab.pause(crontab.get(name))
        case "sql", (name,):
            stage.sql("UPDATE crontab SET command = 'by-hand' WHERE name = :name", name=name)


def may_be_taken(task: Task, names: set[str], allowed: Permissions) -> bool:
    """Return whether applying these names may take over a task that does not belong to the source."""
    if task.name not in names:
        return False
    return allowed.adopt if task.source is None else task.source == allowed.take_from


def apply_and_check(
    stage: Stage, source: str, file: list[Definition], allowed: Permissions, was: dict[str, str]
) -> None:
    names = {each.name for each in file}
    earlier = {new: old for new, old in was.items() if old not in names}
    wanted = [SourceTask(each, Place("f", line), earlier.get(each.name)) for line, each in enumerate(file, 1)]
    before, tasks = states(stage), list(stage.crontab.tasks())
    service = Apply(stage.crontab.acting("apply"))
    request = Request(source, allowed)
    try:
        service.apply(service.check(wanted, request))
    except DcronError:
        assert states(stage) == before, "it was refused, so nothing is written"
        return
    after = {task.id: task for task in stage.crontab.tasks()}
    for task in tasks:
        if task.source != source and not may_be_taken(task, names | set(earlier.values()), allowed):
            assert after.get(task.id) == task, "a task of another source, or of none, is as it was"
        elif is_drifted(task) and not allowed.overwrite and task.name in names:
            assert after[task.id].definition() == task.definition(), "a change by hand is not lost"
    live = {task.name: task for task in after.values() if task.source == source}
    for each in file:
        assert live[each.name].definition() == each
        assert not is_drifted(live[each.name])
    if allowed.prune:
        assert live.keys() == names
    assert not service.check(wanted, request).writes, "applying again writes nothing"
    _require_undo_is_exact(stage, service, before)


def _require_undo_is_exact(stage: Stage, service: Apply, before: dict[int, TaskState]) -> None:
    """Undo the apply, compare, and redo it."""
    now = states(stage)
    if now == before:
        return
    assert next(iter(History(stage.crontab).changes(1))).batch == service.author.batch
    batch = service.author.batch
    for expected in (before, now):
        undo = Undo(stage.crontab.acting("undo"))
        undo.undo(undo.batch(batch))
        batch = undo.author.batch
        found = states(stage)
        assert found.keys() == expected.keys()
        for task_id, state in found.items():
            assert state.is_like(expected[task_id])


@pytest.mark.slow
@settings(
    max_examples=max(4, settings().max_examples // 5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(ACTS, min_size=2, max_size=10))
def test_applying_one_source_touches_no_task_of_another(stage: Stage, acts: list[tuple[Any, ...]]) -> None:
    for table in ("crontab", "subscriptions", "runs", "changes"):
        stage.sql(f"DELETE FROM {table}")
    for verb, *values in acts:
        stage.forward(seconds=1)
        if verb == "apply":
            apply_and_check(stage, *values)
            continue
        with suppress(DcronError):
            act_by_hand(stage, verb, *values)
