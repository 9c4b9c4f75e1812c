"""Failed, dead, late and paused mean the same in `list`, `view`, JSON, the TUI's filter, rows and header."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from dcron.model import RunState, Trigger
from dcron.services.dashboard import TASK_TERMS, Dashboard
from dcron.tui.table.cells import task_status
from dcron.tui.table.filters import parse_filter
from tests.support.cli import Dcron
from tests.support.stage import Stage

YEARLY = "0 0 1 1 *"
STATES = ("failed", "dead", "late", "paused")
S, F, L = RunState.SUCCEEDED, RunState.FAILED, RunState.LOST
SKIPPED, CANCELLED = RunState.SKIPPED, RunState.CANCELLED


@dataclass(frozen=True)
class Case:
    """The runs of a task, the oldest first, and which states it is in."""

    states: set[str]
    runs: Sequence[RunState] = ()
    dead: int | None = None
    """The position of the run that is a dead letter."""
    due: float | None = None
    """Seconds since which a manual run of it is due."""
    blocked: str | None = None
    paused: bool = False


CASES = {
    "new": Case(set()),
    "succeeded": Case(set(), [S]),
    "failed": Case({"failed", "dead"}, [S, F], dead=1),
    "lost": Case({"failed", "dead"}, [L], dead=0),
    "dismissed": Case({"failed"}, [F]),
    "succeeded-later": Case({"dead"}, [F, S], dead=0),
    "skipped-later": Case({"failed"}, [S, F, SKIPPED]),
    "cancelled-later": Case({"failed"}, [F, CANCELLED]),
    "skipped-and-succeeded": Case(set(), [F, SKIPPED, S]),
    "cancelled-alone": Case(set(), [CANCELLED]),
    "due-just-now": Case(set(), [S], due=5),
    "late": Case({"late"}, [S], due=60),
    "late-and-failed": Case({"late", "failed"}, [F], due=60),
    "held": Case(set(), [S], due=60, blocked="limit"),
    "paused": Case({"paused"}, [S], paused=True),
    "paused-and-failed": Case({"paused", "failed", "dead"}, [F], dead=0, paused=True),
    "paused-and-late": Case({"paused", "late"}, due=60, paused=True),
}
EXPECTED = {state: sorted(name for name, case in CASES.items() if state in case.states) for state in STATES}


@pytest.fixture
def crontab(dcron: Dcron) -> Iterator[Stage]:
    """A crontab that has a task for each case."""
    stage = Stage(dcron.url)
    stage.now = datetime.now(UTC)
    for name, case in CASES.items():
        task = stage.task(name, YEARLY)
        if case.paused:
            stage.crontab.pause(task)
        of_task = {"task_id": task.id, "task": name, "trigger": Trigger.MANUAL}
        for position, state in enumerate(case.runs):
            started = None if state is SKIPPED else stage.now
            ended = {"state": state, "reason": "x", "started_at": started, "finished_at": stage.now}
            dead = {"dead_at": stage.now if position == case.dead else None}
            stage.insert_run(**of_task, **ended, **dead)
        if case.due is not None:
            due_at = stage.now - timedelta(seconds=case.due)
            stage.insert_run(**of_task, due_at=due_at, scheduled_for=due_at, blocked=case.blocked)
    yield stage
    stage.database.close()


@pytest.mark.slow
def test_every_list_has_the_same_tasks_in_a_state(dcron: Dcron, crontab: Stage) -> None:
    board = Dashboard(crontab.crontab)
    rows = board.task_rows(board.task_ids((), "name", reverse=False)).rows
    shapes = {task["name"]: task for task in dcron.done("list", "--json").json}
    for state in STATES:
        ids = board.task_ids(parse_filter(state, TASK_TERMS), "name", reverse=False)
        assert sorted(rows[each].task.name for each in ids) == EXPECTED[state], state
        others = board.task_ids(parse_filter(f"!{state}", TASK_TERMS), "name", reverse=False)
        assert {*ids, *others} == {*rows}
        assert not {*ids}.intersection(others)
        if state != "late":  # for which there is no option
            listed = dcron.done("list", f"--{state}", "--names").out.split()
            assert sorted(listed) == EXPECTED[state], state
    for state in ("failed", "dead", "late"):
        assert sorted(name for name, task in shapes.items() if task[state]) == EXPECTED[state]
    for name in ("failed", "succeeded-later", "late", "paused-and-failed"):
        viewed = dcron.done("view", name, "--json").json
        assert {key: viewed[key] for key in shapes[name]} == shapes[name]
        assert bool(viewed["dead_letters"]) is viewed["dead"]
    assert sorted(row.task.name for row in rows.values() if row.failed) == EXPECTED["failed"]
    assert sorted(row.task.name for row in rows.values() if row.dead) == EXPECTED["dead"]
    assert sorted(row.task.name for row in rows.values() if row.is_late(crontab.now)) == EXPECTED["late"]


@pytest.mark.slow
def test_the_header_counts_the_tasks_that_the_filter_finds(crontab: Stage) -> None:
    counts = Dashboard(crontab.crontab).counts()
    assert (counts.tasks, counts.failed) == (len(CASES), len(EXPECTED["failed"]))
    assert (counts.late.number, counts.paused) == (len(EXPECTED["late"]), len(EXPECTED["paused"]))
    assert counts.late.since == min(
        run.due_at for run in crontab.runs() if run.blocked is None and not run.state.is_final
    )
    assert counts.dead == len(EXPECTED["dead"])


@pytest.mark.slow
def test_the_sign_of_a_task_shows_that_it_failed_unless_more_is_to_be_said(crontab: Stage) -> None:
    board = Dashboard(crontab.crontab)
    rows = board.task_rows(board.task_ids((), "name", reverse=False)).rows.values()
    signs = {row.task.name: task_status(row, crontab.now).word for row in rows}
    shown = [name for name, word in signs.items() if word in ("failed", "lost")]
    more = {*EXPECTED["late"], *EXPECTED["paused"]}
    assert sorted(shown) == [name for name in EXPECTED["failed"] if name not in more]
    assert sorted(name for name, word in signs.items() if word == "late") == ["late", "late-and-failed"]


@pytest.mark.slow
def test_filters_of_a_list_have_to_match_together(dcron: Dcron, crontab: Stage) -> None:
    both = dcron.done("list", "--failed", "--dead", "--paused", "--names").out.split()
    assert both == ["paused-and-failed"]
    assert crontab.crontab.get("failed")


def test_an_empty_list_says_which_filter_matched_nothing(sqlite: Dcron) -> None:
    sqlite.done("add", "-n", "one", YEARLY, "ls")
    assert "no task has dead letters" in sqlite.done("list", "--dead").err
    assert "--failed --dead" in sqlite.done("list", "--failed", "--dead").err
