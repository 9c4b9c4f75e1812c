"""The fleet: the panel above the nodes, and the page of a node."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dcron.model import Task
from dcron.policy.forecast.start_times import MINUTE, Minutes, StartSpan, minute_of
from dcron.services import dashboard
from dcron.services.dashboard import Dashboard
from dcron.services.fleet import Fleet
from dcron.tui.fleet.panel import FleetPanel, _slots, bar, heights
from tests.support.stage import Stage as Agents
from tests.support.tui import Stage

SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.fixture
def agents(stage: Stage) -> Iterator[Agents]:
    """A fleet of one node, which runs nothing."""
    agents = Agents(stage.url)
    agents.now = stage.crontab.now()
    agents.node("web-1", tags=["ssd"])
    yield agents
    agents.database.close()


def test_bars_and_heights() -> None:
    assert bar(1, 100, 4, unicode=False) == "#---"
    assert bar(9, 4, 4, unicode=True) == "████"
    assert bar(0, 0, 4, unicode=False) == "----"
    assert heights([0, 1, 100], unicode=False) == " .#"
    assert heights([], unicode=True) == heights([], unicode=False) == ""


def test_starts_are_summed_by_cell() -> None:
    begin = datetime(2027, 6, 1, 12, 0, tzinfo=UTC)
    minutes = Minutes()
    minutes.add([minute_of(begin + number * MINUTE) for number in (-1, 0, 1, 1, 5, 60)])
    assert minutes.in_cells(StartSpan(begin, 2 * MINUTE, 3)) == [3, 0, 1]


def test_the_fleet_has_queues_due_runs_and_starts(stage: Stage, agents: Agents) -> None:
    stage.add("often", "* * * * *")
    stage.add("paused", "* * * * *")
    stage.crontab.pause(stage.crontab.get("paused"))
    stage.crontab.run(stage.add("mail", "@yearly", queue="mail"))
    Fleet(stage.crontab).set_queue("mail", 3)
    found = Dashboard(stage.crontab).fleet()
    assert [(queue.name, queue.alive, queue.limit, queue.due) for queue in found.queues] == [
        ("mail", 0, 3, 1)
    ]
    assert (found.due.number, found.due.late, found.has_more) == (1, 0, False)
    assert len(found.starts) == 60
    assert sum(found.starts) in (59, 60)  # the minute that is under way has begun


def test_a_slow_database_leaves_out_no_starts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two", "three"):
        stage.add(name, "* * * * *")
    read = stage.crontab.tasks_by_id

    def slowly(ids: Sequence[int]) -> Mapping[int, Task]:
        time.sleep(dashboard.COUNTING_SECONDS)
        return read(ids)

    monkeypatch.setattr(stage.crontab, "tasks_by_id", slowly)
    found = Dashboard(stage.crontab).fleet()
    assert not found.has_more
    assert sum(found.starts) >= 3 * 59


def test_starts_are_counted_again_in_time_or_after_an_edit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = stage.crontab.now().replace(second=0, microsecond=0)
    thrice = f"{(minute.minute + 7) % 20}-59/20 * * * *"  # not in this minute or in the next ones
    for name in ("a", "b", "c"):
        stage.add(name, thrice)
    monkeypatch.setattr(dashboard, "COUNTED_AT_ONCE", 1)
    monkeypatch.setattr(dashboard, "COUNTING_SECONDS", 60.0)
    monkeypatch.setattr(dashboard, "_minute", lambda at: minute)
    board = Dashboard(stage.crontab)
    read: list[object] = []
    tasks_by_id = stage.crontab.tasks_by_id

    def noted(ids: Sequence[int]) -> Mapping[int, Task]:
        read.append(ids)
        return tasks_by_id(ids)

    monkeypatch.setattr(stage.crontab, "tasks_by_id", noted)
    assert sum(board.fleet().starts) == 9
    assert len(read) == 3
    board.fleet()
    assert len(read) == 3
    stage.add("d", thrice)
    assert sum(board.fleet().starts) == 12
    assert len(read) == 7
    minute += MINUTE
    board.fleet()
    assert len(read) == 11


def test_no_more_slots_are_used_than_there_are_while_ends_are_recorded(stage: Stage, agents: Agents) -> None:
    (node,) = Dashboard(stage.crontab).nodes()
    assert [replace(node, running=running).used_slots for running in (3, 8, 9, 16, 17)] == [3, 8, 8, 8, 17]
    now = node.started_at
    draining = replace(node, running=4, draining=True)
    shown = _slots([replace(node, running=9), draining], now, 100, unicode=False)
    assert (" 8/8 used   1 node", "") in shown


async def test_a_panel_without_a_resize_comes_with_the_next_second(stage: Stage, agents: Agents) -> None:
    async with stage.screen(awaited="no tasks yet") as screen:
        await screen.press("4", shows="0/8 used   1 node")
        screen.pane.query_one(FleetPanel).display = False
        await screen.shows_not("0/8 used   1 node")
        screen.pane.tick()
        await screen.shows("0/8 used   1 node")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_the_panel_and_the_page_of_a_node(stage: Stage, agents: Agents, size: tuple[int, int]) -> None:
    stage.crontab.run(stage.add("mail", "@yearly", queue="mail"))
    async with stage.screen(size=size, unicode=size[0] > 80) as screen:
        await screen.press("4", shows="1 due run")
        await screen.shows("0/8 used   1 node")
        await screen.shows("mail 0 +1")
        await screen.shows("in the next hour")
        assert all(len(line) <= size[0] for line in screen.lines())
        await screen.press("enter", shows="without a heartbeat")
        await screen.press("d", shows="drain web-1-")
        await screen.press("y", shows="- draining" if size[0] == 80 else "‖ draining")
        await screen.press("u", shows="dcron undrain")
        await screen.press("tab", shows="result")
        await screen.press("escape")
        await screen.until(lambda: screen.app.main.crumbs() == ["Nodes"])


@pytest.mark.slow
async def test_a_small_screen_has_no_panel(stage: Stage, agents: Agents) -> None:
    async with stage.screen("mail", size=(40, 10)) as screen:
        await screen.press("4", shows="web-1")
        assert "slots" not in screen.text()


@pytest.mark.slow
async def test_a_run_that_is_not_heard_of_is_shown_with_its_node(stage: Stage, agents: Agents) -> None:
    task = stage.add("backup", "@yearly", on_disconnect="keep", timeout=3600.0)
    cut_off = agents.node("web-3")
    run = stage.crontab.run(task)
    agents.now = stage.crontab.now()
    assert [each.id for each in agents.take(cut_off)] == [run.id]
    agents.forward(minutes=2)
    agents.reap()
    async with stage.screen(size=(160, 24)) as screen:
        await screen.shows("unheard")
        await screen.press("2", shows="not heard of since")
        await screen.press("4", shows="1 unheard")
        await screen.press("G")
        await screen.until(lambda: screen.table.cursor_row and screen.table.cursor_row.id == cut_off)
        await screen.press("enter", shows="1 run not heard of since")
        await screen.shows("its other runs were lost")
