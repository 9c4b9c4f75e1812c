"""`dcron prune`: what is left when it is killed, how it paces itself, and what it reports on its way."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from dcron.agent.maintenance import Maintenance
from dcron.errors import Conflict
from dcron.schema.tables import runs
from dcron.services import retention as service
from dcron.services.retention import Retention
from dcron.services.settings import SharedSettings
from dcron.store import maintenance
from dcron.store.maintenance import HOLD, Hold, Step
from dcron.store.retention.walk import JOB, Prune
from tests.support.retention import Restless, insert_history, job_row, prune, sum_up_all, trust_clock
from tests.support.stage import Stage


class Killed(BaseException):
    """The process ends here, and can clean up nothing."""


@pytest.fixture
def old(stage: Stage) -> Stage:
    """A crontab with two tasks, each of which has 150 old runs."""
    for name in ("a", "b"):
        stage.task(name, "@on never")
    sum_up_all(stage)
    rows = [
        {"task_id": number, "task": "ab"[number - 1], "days": 60 + n / 100}
        for n in range(150)
        for number in (1, 2)
    ]
    insert_history(stage, rows)
    return stage


def number_of_runs(stage: Stage, task_id: int | None = None) -> int:
    with stage.database.read() as connection:
        query = select(func.count()).select_from(runs)
        return connection.scalar(query if task_id is None else query.where(runs.c.task_id == task_id)) or 0


def kill_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Kill the process in a round by hand after these steps: nothing that would clean up is done."""
    step, seen = Prune.step, []

    def counted(self: Prune, *given: Any) -> Step:
        if self._by_hand:
            seen.append(1)
            if len(seen) > steps:
                raise Killed
        return step(self, *given)

    monkeypatch.setattr(Prune, "step", counted)
    monkeypatch.setattr(Retention, "_let_go", lambda *_: None)


def be_pruned_by_an_agent(stage: Stage) -> Mapping[str, int]:
    agent = Maintenance(stage.database, "web-1", [])
    agent.do(Prune(lambda: stage.now.timestamp()), Restless())
    return dict(job_row(stage).done)


@pytest.mark.parametrize("name", [None, "a"])
def test_an_agent_does_not_continue_a_round_by_hand_that_was_killed(
    old: Stage, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    with old.database.write() as connection:
        maintenance.add_missing(connection, old.database, [JOB], old.now)
    be_pruned_by_an_agent(old)  # it begins to wait for a day, because no agent has pruned before
    wait = job_row(old).position
    assert "wait_until" in wait
    with monkeypatch.context() as patch:
        kill_after(patch, 4)
        with pytest.raises(Killed):
            Retention(old.crontab).prune(old.crontab.get(name) if name else None)
    left = number_of_runs(old)
    assert 0 < left < 300
    assert job_row(old).position == wait
    old.forward(minutes=11)
    be_pruned_by_an_agent(old)
    assert number_of_runs(old) == left
    assert job_row(old).position["wait_until"] == wait["wait_until"]
    old.forward(days=1)
    trust_clock(old)
    be_pruned_by_an_agent(old)
    assert number_of_runs(old) == 2 * 20, "the last ones of each task"


def test_the_next_round_by_hand_does_not_wait_for_the_hold_of_one_that_was_killed(
    old: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        kill_after(patch, 4)
        with pytest.raises(Killed):
            Retention(old.crontab).prune(old.crontab.get("a"))
    assert job_row(old).holder
    Retention(old.crontab).prune(old.crontab.get("a"))
    assert (number_of_runs(old, 1), number_of_runs(old, 2)) == (20, 150)
    assert job_row(old).holder is None
    assert Retention(old.crontab).prune().runs == 130


def test_of_two_rounds_by_hand_the_later_one_goes_on(old: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    step, seen = Prune.step, []

    def counted(self: Prune, *given: Any) -> Step:
        seen.append(1)
        if len(seen) == 4:
            Retention(old.crontab).prune()
        return step(self, *given)

    monkeypatch.setattr(Prune, "step", counted)
    with pytest.raises(Conflict, match="another process prunes now"):
        Retention(old.crontab).prune()
    assert number_of_runs(old) == 40


def test_it_reports_how_far_it_is(old: Stage) -> None:
    seen: list[int] = []
    Retention(old.crontab).prune(on_progress=lambda done: seen.append(done.get("runs", 0)))
    assert seen == sorted(seen)
    assert seen[-1] == 260
    assert len(set(seen)) > 2


@pytest.mark.parametrize(
    ("has_agent", "is_due", "paces"), [(False, True, False), (True, False, False), (True, True, True)]
)
def test_it_paces_itself_only_while_runs_are_due(
    old: Stage, monkeypatch: pytest.MonkeyPatch, has_agent: bool, is_due: bool, paces: bool
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(service, "sleep", rests.append)
    if has_agent:
        old.node()
    if is_due:
        old.crontab.run(old.crontab.get("a"))
    Retention(old.crontab).prune()
    batches = [rest for rest in rests if rest > 0.01]
    assert bool(batches) == paces
    assert (number_of_runs(old) - is_due) == 40


def test_a_hold_can_keep_the_position_of_others(stage: Stage) -> None:
    with stage.database.write() as connection:
        maintenance.add_missing(connection, stage.database, [JOB], stage.now)
        hold = Hold(JOB, "ann")
        maintenance.seize(connection, stage.database, JOB, "ann", stage.now)
        hold.renew(connection, stage.now, {"a": 1})
        hold.kept = {"b": 2}
        hold.renew(connection, stage.now, {"a": 3})
    row = job_row(stage)
    assert (row.position, row.held_until) == ({"b": 2}, stage.now + timedelta(seconds=HOLD))


def test_settings_by_label_keep_longer_and_shorter(stage: Stage) -> None:
    for name, labels, keep in (
        ("a", {}, {}),
        ("b", {"team": "shop"}, {}),
        ("c", {"team": "ops"}, {}),
        ("d", {"team": "shop"}, {"runs": 1000 * 86_400.0, "last": 0}),
    ):
        stage.task(name, "@on never", labels=labels, keep=keep)
    sum_up_all(stage)
    days = {"a": 40, "b": 40, "c": 10, "d": 400}
    rows = [{"task_id": n, "task": name, "days": days[name]} for n, name in enumerate("abcd", 1)] * 3
    insert_history(stage, rows)
    settings = SharedSettings(stage.crontab)
    for name, value in {
        "keep.last": "0",
        "keep.runs[team=shop]": "90d",
        "keep.runs[team=ops]": "7d",
        "keep.last[team=ops]": "1",
    }.items():
        settings.set(name, value)
    assert Retention(stage.crontab).preview().runs == 3 + 2
    prune(stage)
    assert [number_of_runs(stage, task_id) for task_id in (1, 2, 3, 4)] == [0, 3, 1, 3]
    assert Retention(stage.crontab).shortened("runs[team=shop]", 86_400 * 30).runs == 3  # type: ignore[union-attr]
    assert Retention(stage.crontab).prune(given={"runs": 0.0, "last": 0}).runs == 7, "what is given wins"
