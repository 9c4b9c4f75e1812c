"""Flows with several beginnings: the first to end begins one, the others join it."""

import pytest

from dcron.model import Run, RunState
from dcron.services.runs.dead_letters import DeadLetters
from tests.support.stage import Stage

FAILED = RunState.FAILED


class TwoRoots:
    """Orders and prices come in on their own; a report needs both, each prepared."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.tasks = {name: stage.task(name, "0 0 1 1 *") for name in ("orders", "prices")}
        for name in ("orders", "prices"):
            self.tasks[f"{name}-prepared"] = stage.task(f"{name}-prepared", f"@after {name}")
        self.report = stage.task("report", "@after orders-prepared,prices-prepared")
        self.node = stage.node(lease=36_000)

    def play(self, root: str, state: RunState = RunState.SUCCEEDED) -> int:
        """Run one of the roots, and what follows from it but the report."""
        self.stage.crontab.run(self.tasks[root])
        (run,) = self.stage.take(self.node)
        self.stage.finish(self.node, run.id, state)
        for step in self.stage.take(self.node):
            assert step.task.name == f"{root}-prepared"
            self.stage.finish(self.node, step.id)
        return run.id

    def reports(self) -> list[Run]:
        return self.stage.runs(self.report.id)


@pytest.fixture
def roots(stage: Stage) -> TwoRoots:
    return TwoRoots(stage)


def test_two_roots_join_in_one_flow(stage: Stage, roots: TwoRoots) -> None:
    flow = roots.play("orders")
    assert roots.reports() == [], "the prices may yet come"
    roots.play("prices")
    (report,) = roots.reports()
    assert (report.state, report.flow) == (RunState.WAITING, flow)
    assert {run.flow for run in stage.runs() if run.finished_at} == {flow}


def test_a_root_that_runs_again_starts_anew_and_says_so(stage: Stage, roots: TwoRoots) -> None:
    roots.play("orders")
    second = roots.play("orders")
    (left_out,) = roots.reports()
    assert left_out.reason == f"prices did not run before orders ran again (run {second})"
    roots.play("prices")
    assert [run.flow for run in roots.reports() if run.state is RunState.WAITING] == [second]


def test_a_root_that_fails_leaves_the_end_out_of_the_common_flow(roots: TwoRoots) -> None:
    flow = roots.play("orders")
    failed = roots.play("prices", FAILED)
    assert [(run.flow, run.reason) for run in roots.reports()] == [(flow, f"prices failed (run {failed})")]


def test_a_flow_has_the_number_of_its_root_s_first_attempt(stage: Stage) -> None:
    root, end = stage.task("root", "0 0 1 1 *", tries=3, backoff=0.0), stage.task("end", "@after root")
    node = stage.node(lease=36_000)
    first = stage.crontab.run(root).id
    for state in (FAILED, FAILED, RunState.SUCCEEDED):
        (attempt,) = stage.take(node)
        stage.finish(node, attempt.id, state)
    assert [run.flow for run in stage.runs(root.id) if run.finished_at] == [first] * 3
    assert [run.flow for run in stage.runs(end.id)] == [first]


def test_a_failed_root_that_is_retried_completes_the_flow(stage: Stage, roots: TwoRoots) -> None:
    flow = roots.play("orders", FAILED)
    roots.play("prices")
    DeadLetters(stage.crontab).retry(flow)
    (retry,) = stage.take(roots.node)
    stage.finish(roots.node, retry.id)
    (step,) = stage.take(roots.node)
    stage.finish(roots.node, step.id)
    assert [run.flow for run in roots.reports() if run.state is RunState.WAITING] == [flow]
