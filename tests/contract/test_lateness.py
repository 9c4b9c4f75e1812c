"""Every place has the same late tasks, also before, during and after freezes."""

import os
import random
from datetime import datetime, timedelta

import pytest

from dcron.cli.output.json_output import task_shape
from dcron.model import LATE_AFTER, Freeze, Trigger
from dcron.policy.starting.freezes import holds
from dcron.policy.starting.lanes import MANUAL
from dcron.presentation import humanize
from dcron.services.dashboard import Dashboard
from dcron.services.freezes import Freezes
from dcron.store.alerts.watching import Look
from dcron.store.statistics import figures as cluster_figures
from dcron.tui.table.cells import next_cell, task_status
from dcron.values.lists import Term
from tests.support.stage import Stage

SEEDS = min(20, int(os.environ.get("DCRON_TEST_SEEDS", "2")))
YEARLY = "0 0 1 1 *"
MOST_SECONDS = 200
TASKS = 12
LOOKS = 6


class Crontab:
    """Tasks with due runs, and freezes at random times."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self._random = stage, random.Random(seed)
        self.freezes = Freezes(stage.crontab)
        self.begin = stage.now
        self.due: dict[str, list[tuple[datetime, bool]]] = {}
        """When the waiting runs of each task are due, and whether a person requested them."""
        self.first_of_requested: dict[str, datetime] = {}
        for number in range(TASKS):
            self._add(f"task-{number:02}")
        for _ in range(self._random.randint(1, 4)):
            begin = self._time()
            until = self._random.choice([None, begin + timedelta(seconds=self._random.randint(1, 60))])
            self.freezes.freeze(from_at=begin, until_at=until)

    def _time(self) -> datetime:
        return self.begin + timedelta(seconds=self._random.randint(0, MOST_SECONDS))

    def _add(self, name: str) -> None:
        task = self.stage.task(name, YEARLY, expect={"start": LATE_AFTER.total_seconds()})
        kinds = self._random.choice([(False,), (True,), (False, True), (False, False)])
        self.due[name] = [(self._time(), is_requested) for is_requested in kinds]
        for due_at, is_requested in self.due[name]:
            trigger = Trigger.MANUAL if is_requested else Trigger.BACKFILL
            lane = f"default {MANUAL}" if is_requested else "default"
            at = {"due_at": due_at, "scheduled_for": due_at}
            self.stage.insert_run(task_id=task.id, task=name, trigger=trigger, lane=lane, **at)

    def forward(self) -> None:
        """Go on to a random time, and sometimes thaw what is frozen."""
        self.stage.forward(seconds=self._random.randint(1, MOST_SECONDS // LOOKS))
        active = [each for each in self.freezes.listing(10) if _is_open(each, self.stage.now)]
        if active and self._random.random() < 0.4:
            self.freezes.thaw([each.id for each in active])
            self.stage.forward(seconds=self._random.randint(1, 20))

    def expected(self) -> set[str]:
        """Count second by second how long each run has waited."""
        now, found = self.stage.now, self.freezes.listing(10)
        is_frozen = any(holds(each, now) for each in found)
        late = set()
        for name, due in self.due.items():
            for due_at, is_requested in due:
                seconds = range(int((now - due_at).total_seconds()))
                times = (due_at + timedelta(seconds=each) for each in seconds)
                waited = sum(is_requested or not any(holds(each, at) for each in found) for at in times)
                if waited > LATE_AFTER.total_seconds() and (is_requested or not is_frozen):
                    late.add(name)
        return late


def _is_open(freeze: Freeze, now: datetime) -> bool:
    return holds(freeze, now) and freeze.thawed_at is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_place_has_the_same_late_tasks(stage: Stage, seed: int) -> None:
    crontab, board = Crontab(stage, seed), Dashboard(stage.crontab)
    stage.node(lease=36_000)
    for _ in range(LOOKS):
        crontab.forward()
        expected, now = crontab.expected(), stage.now
        rows = board.task_rows(board.task_ids((), "name", reverse=False)).rows
        listed = list(stage.crontab.list_tasks())
        for term in (Term("late"), Term("st", "late"), Term("errors")):
            ids = board.task_ids([term], "state", reverse=False)
            assert {rows[each].task.name for each in ids} == expected, term
        assert {row.task.name for row in rows.values() if row.is_late(now)} == expected
        assert {row.task.name for row in rows.values() if task_status(row, now).word == "late"} == expected
        assert {row.task.name for row in listed if task_shape(row, now)["late"]} == expected
        late = board.counts().late
        longest = max((by for row in rows.values() if (by := row.late_by(now))), default=None)
        assert (late.number, late.since) == (len(expected), longest and now - longest)
        assert (board.fleet().due.late > 0) is bool(expected)
        with stage.database.read() as connection:
            figures = cluster_figures.read(connection, stage.database)
            causes = list(Look(connection, stage.database, now, {}, {}).causes())
        assert figures.tasks_late == len(expected)
        if longest:
            assert figures.oldest_due == now - longest
        if not crontab.freezes.active():  # an alert that was raised before a freeze stays open in it
            alerts = {cause.task for cause in causes if cause.kind == "late"}
            assert alerts >= expected  # an alert is raised as soon as the time is reached


def test_what_a_freeze_holds_back_is_frozen_and_not_late(stage: Stage) -> None:
    stage.task("backup", "@every 1m")
    stage.crontab.run(stage.task("report", YEARLY))
    freeze = Freezes(stage.crontab).freeze(until_at=stage.now + timedelta(hours=2), reason="upgrade")
    stage.forward(hours=1)
    board = Dashboard(stage.crontab)
    backup, report = board.rows_by_name(["backup", "report"]).values()
    assert backup.held_by(stage.now) == freeze
    assert next_cell(backup, stage.now).text == task_status(backup, stage.now).word == humanize.FROZEN
    assert report.held_by(stage.now) is None
    assert next_cell(report, stage.now).text == "LATE 1h"
    shape = task_shape(backup, stage.now)
    assert (shape["late"], shape["frozen"], shape["frozen_until"]) == (False, True, "2027-06-01T14:00:00Z")
    due = board.fleet().due
    assert (due.number, due.late, due.frozen) == (2, 1, 1)
    (detail,) = (found for row in (backup,) if (found := board.task_detail(row.task.id)))
    assert detail.row.held_by(stage.now) == freeze


def test_a_run_is_late_again_by_the_time_that_was_not_frozen(stage: Stage) -> None:
    stage.task("backup", "@every 1m")
    Freezes(stage.crontab).freeze()
    stage.forward(hours=1)
    Freezes(stage.crontab).thaw()
    board = Dashboard(stage.crontab)
    stage.forward(seconds=10)
    (row,) = board.rows_by_name(["backup"]).values()
    assert next_cell(row, stage.now).text == "now"
    stage.forward(seconds=30)
    assert next_cell(row, stage.now).text == "LATE 40s"
    assert board.counts().late.since == stage.now - timedelta(seconds=40)
